"""Results of steps as JSON, for the cache: numbers and text, which no reader can execute."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_T = TypeVar("_T")


def pack(result: Any) -> bytes:
    """The JSON of a result: a dataclass is an object of its fields, a tuple or a set is an array."""
    return json.dumps(
        result, default=lambda value: sorted(value) if isinstance(value, frozenset) else vars(value)
    ).encode()


def unpack(its: type[_T], packed: bytes) -> _T:
    """The result of a type from :func:`pack`."""
    kind: Any = its
    result: _T = _maker(kind)(json.loads(packed))
    return result


@cache
def _maker(its: Any) -> Callable[[Any], Any]:
    """What makes a value of a type from its JSON."""
    origin, inner = get_origin(its), get_args(its)
    if is_dataclass(its) and isinstance(its, type):
        makers = {name: _maker(field) for name, field in get_type_hints(its).items()}
        return lambda plain: its(**{name: makers[name](value) for name, value in plain.items()})
    if hasattr(its, "_fields"):
        return lambda plain: its(*plain)
    if origin in (dict, Mapping):
        make = _maker(inner[1])
        return lambda plain: {name: make(value) for name, value in plain.items()}
    if origin is tuple and ... not in inner:
        each = [*map(_maker, inner)]
        return lambda plain: tuple(make(value) for make, value in zip(each, plain, strict=True))
    if origin in (list, tuple, Sequence, frozenset):
        make, kind = _maker(inner[0]), list if origin is Sequence else origin
        return lambda plain: kind(map(make, plain))
    return lambda plain: plain
