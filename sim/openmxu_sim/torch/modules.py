"""Names of the modules that are computing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import finalize, ref

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_Names = dict[int, tuple["ref[Module]", str]]

_names_in: dict[int, _Names] = {}
"""Names of a network's modules, by the identities of both; the networks' own when they are computed as a whole."""

_last: _Names = {}
"""The last name of each module, by which it is computed again for a checkpoint."""

_settings = threading.Lock()
_hooks: list[Any] = []
_users = 0


class _Thread(threading.local):
    """The modules that a thread is in, the innermost last, and how many products each has asked for."""

    def __init__(self) -> None:
        self.entered: list[list[Any]] = []
        self.root: Module | None = None


_thread = _Thread()


def current() -> str:
    """Return the name of the innermost module, ``Net.layer.0``; empty outside of all, and if nobody asked for names."""
    return _thread.entered[-1][0] if _thread.entered else ""


def next_product() -> tuple[str, int]:
    """Return the name of the innermost module, and the number of products that it has asked for before this one."""
    if not _thread.entered:
        return "", -1
    innermost = _thread.entered[-1]
    innermost[1] += 1
    return innermost[0], innermost[1]


@contextmanager
def named() -> Iterator[None]:
    """Note in all threads which modules are computing."""
    global _users  # noqa: PLW0603
    with _settings:
        _users += 1
        if _users == 1:
            _hooks.append(register_module_forward_pre_hook(_enter))
            _hooks.append(register_module_forward_hook(_leave, always_call=True))
    depth = len(_thread.entered)
    try:
        yield
    finally:
        del _thread.entered[depth:]
        with _settings:
            _users -= 1
            while not _users and _hooks:
                _hooks.pop().remove()


def _enter(module: Module, _inputs: object) -> None:
    again = torch._C._current_autograd_node() is not None  # for a checkpoint, perhaps a part of the network alone
    if not _thread.entered and not (again and _name(_last, module)):
        _thread.root = module
    root = _thread.root
    names = _names_in.get(id(root), {}) if root is not None else {}
    name = _name(_last, module) if again else _name(names, module)
    if name is None and root is not None:
        names = _named(root)
        above = f"{current()}." if _thread.entered else ""
        name = _name(names, module) or f"{above}{type(module).__name__}"
    name = name or type(module).__name__
    _last[id(module)] = ref(module, partial(_forget, _last, id(module))), name
    _thread.entered.append([name, -1])


def _named(root: Module) -> _Names:
    """Name all modules of a network."""
    names: _Names = {}
    for name, part in root.named_modules():
        names[id(part)] = ref(part), f"{type(root).__name__}{'.' * bool(name)}{name}"
    if id(root) not in _names_in:
        finalize(root, _names_in.pop, id(root), None)
    _names_in[id(root)] = names
    return names


def _name(names: _Names, module: Module) -> str | None:
    """Return a module's name, if it is this very module's."""
    own, name = names.get(id(module), (None, None))
    return name if own is not None and own() is module else None


def _forget(names: _Names, key: int, gone: "ref[Module]") -> None:
    """Drop the name of a module that is gone, unless another one has its identity."""
    if key in names and names[key][0] is gone:
        del names[key]


def _leave(_module: Module, _inputs: object, _result: object) -> None:
    if _thread.entered:
        _thread.entered.pop()
