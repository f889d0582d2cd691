"""Contexts that a thread is in, and those in which it made its graphs of derivatives."""

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch


class Context(NamedTuple):
    """A unit's context."""

    unit: Any
    """The unit that computes products in this context."""
    again: Any
    """The unit that recomputes what precedes this context within a checkpoint, if it was entered there."""


class _Thread(threading.local):
    """The contexts that a thread is in, and those in which it made the nodes of its graphs of derivatives.

    A thread numbers its nodes::

        node       0   1   2   3   4   5   6   7
        made in    -   A   A   B   B   A   A   -        with A: ...; with B: ...; ...
        changes    ^       ^       ^       ^            since = 0, 1, 3, 5, 7
    """

    _KEPT = 1024
    """Changes of contexts that are kept; older nodes count as made outside of all contexts."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.gradients: tuple[int, frozenset[int]] = -1, frozenset()  # of a node, by its number: their memory
        self._hooks: list[object] = []
        self._since: list[int] = []
        self._made_in: list[Context | None] = []

    @contextmanager
    def within(self, unit: Any) -> Iterator[None]:
        """Enter the context of a unit."""
        hooks = saving_hooks()
        in_checkpoint = self.contexts and hooks is not None and hooks != self._hooks[-1]
        self.contexts.append(Context(unit, self.contexts[-1].again if in_checkpoint else unit))
        self._hooks.append(hooks)
        self._note()
        try:
            yield
        finally:
            self.contexts.pop()
            self._hooks.pop()
            self._note()

    def _note(self) -> None:
        """Note that nodes are made in the innermost context from now on."""
        number = torch.autograd._get_sequence_nr()
        first = bisect_right(self._since, number - 1)  # no node was made since a change with the same number
        self._since[first:], self._made_in[first:] = [number], [self.contexts[-1] if self.contexts else None]
        del self._since[: -self._KEPT], self._made_in[: -self._KEPT]

    def made_in(self, node: Any) -> Context | None:
        """Return the context in which a node was made, if any."""
        index = bisect_right(self._since, node._sequence_nr())
        return self._made_in[index - 1] if index else None


thread = _Thread()


saving_hooks = partial(torch._C._autograd._top_saved_tensors_default_hooks, True)
"""Hooks for tensors that are saved for derivatives, if any are set: checkpoints set some, forward and when they compute
again."""
