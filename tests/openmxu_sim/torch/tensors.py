"""What tests of PyTorch share: comparisons of tensors, and functions that run Python."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...bits import same_bits

Function = Callable[..., Any]

equal = partial(torch.testing.assert_close, rtol=0, atol=0)
"""Fail unless tensors, or sequences of them, have the same types, shapes and numbers."""


def same(found: Any, expected: Any) -> None:
    """Fail unless tensors have the bits of arrays, one by one."""
    for one, other in zip(found, expected, strict=True):
        same_bits(one.detach().numpy(), other)


def by_python(forward: Function, backward: Function) -> Function:
    """A function with a derivative that PyTorch does not know, of a gradient and the inputs."""

    def run(ctx: Any, *inputs: Any) -> Any:
        ctx.save_for_backward(*inputs)
        return forward(*inputs)

    parts = {"forward": staticmethod(run), "backward": staticmethod(lambda ctx, g: backward(g, *ctx.saved_tensors))}
    made: Any = type("Made", (torch.autograd.Function,), parts)
    return made.apply
