"""Names of the modules that are computing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_names: "WeakKeyDictionary[Module, str]" = WeakKeyDictionary()
_settings = threading.Lock()
_hooks: list[Any] = []
_users = 0


class _Thread(threading.local):
    """Names of the modules that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.names: list[str] = []


_thread = _Thread()


def current() -> str:
    """Return the name of the innermost module, ``Net.layer.0``; empty outside of all, and if nobody asked for names."""
    return _thread.names[-1] if _thread.names else ""


@contextmanager
def named() -> Iterator[None]:
    """Note in all threads which modules are computing."""
    global _users  # noqa: PLW0603
    with _settings:
        _users += 1
        if _users == 1:
            _hooks.append(register_module_forward_pre_hook(_enter))
            _hooks.append(register_module_forward_hook(_leave, always_call=True))
    depth = len(_thread.names)
    try:
        yield
    finally:
        del _thread.names[depth:]
        with _settings:
            _users -= 1
            while not _users and _hooks:
                _hooks.pop().remove()


def _enter(module: Module, _inputs: object) -> None:
    if module not in _names:
        # The outermost module names all of its own: one that is computed again for a checkpoint keeps its name.
        above = f"{_thread.names[-1]}." if _thread.names else ""
        for name, part in module.named_modules():
            _names.setdefault(part, f"{above}{type(module).__name__}{'.' * bool(name)}{name}")
    _thread.names.append(_names[module])


def _leave(_module: Module, _inputs: object, _result: object) -> None:
    if _thread.names:
        _thread.names.pop()
