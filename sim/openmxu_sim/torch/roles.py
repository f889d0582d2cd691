"""Roles of operands in derivatives: which is the gradient, and which operand of the product the other one was.

PyTorch computes the derivatives of a product in either of two ways, transposed or not::

    product        a (m, k) · b (k, n)
    gradient of a  g (m, n) · bᵀ (n, k)        or  b · gᵀ
    gradient of b  aᵀ (k, m) · g (m, n)        or  gᵀ · a

So the place of an operand does not tell its role. Sizes do, unless m = n; then the operands' addresses do.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from openmxu_sim.networks.numerics import EscapeError, Multiplier
from openmxu_sim.torch.contexts import thread
from openmxu_sim.torch.operators import OPERANDS
from openmxu_sim.torch.refusals import PLAIN_TYPES


class Origin(NamedTuple):
    """The product whose derivatives a node computes."""

    layer: str
    number: int
    """The module that asked for it, and how many products it had asked for before."""
    operands: tuple[int, ...]
    """Addresses of both operands."""
    sizes: tuple[int, int, int]
    """M, K and N."""


ORIGIN, LAYER = "openmxu product", "openmxu layer"
"""Keys in a node's metadata: its product, and the module in which it was made."""


def origin_of(name: str, args: tuple[Any, ...], layer: str, number: int) -> Origin:
    """Return the origin of a product that is computed now."""
    operands = [args[index] for index in OPERANDS.get(name, ())]
    if not operands:
        return Origin(layer, number, (), (0, 0, 0))
    (m, k), (_, n) = (_sizes(operand, second=bool(at)) for at, operand in enumerate(operands))
    return Origin(layer, number, tuple(operand.data_ptr() for operand in operands), (m, k, n))


def _sizes(tensor: torch.Tensor, *, second: bool) -> tuple[int, int]:
    """Return rows and columns; of a vector as the operand that it is."""
    if tensor.dim() > 1:
        return tensor.shape[-2], tensor.shape[-1]
    return (tensor.shape[0], 1) if second else (1, tensor.shape[0])


def note_gradients(number: int, gradients: Any) -> None:
    """Note what a node is given before it computes, by the node's number."""
    plain = (gradient for gradient in gradients if type(gradient) in PLAIN_TYPES)
    thread.gradients = number, frozenset(gradient.untyped_storage().data_ptr() for gradient in plain)


def in_roles(multiplier: Multiplier, node: Any, operands: tuple[torch.Tensor, torch.Tensor]) -> Multiplier:
    """Return the multiplier of a derivative that a node computes, unless formats depend on roles that are not known."""
    if multiplier.numerics.weight is None and multiplier.numerics.gradient is None:
        return multiplier
    origin: Origin | None = node.metadata.get(ORIGIN)
    noted, gradients = thread.gradients[0] == node._sequence_nr(), thread.gradients[1]
    flags = [noted and operand.untyped_storage().data_ptr() in gradients for operand in operands]
    if origin is None or not origin.operands:
        if not noted:
            raise EscapeError(
                "a derivative's operands have roles that are not known here (torch.func): leave weight, gradient and "
                "layers out, or call backward()"
            )
        return multiplier.of_gradient(first=flags[0], second=flags[1])
    if flags[0] == flags[1]:
        known = [operand.data_ptr() in origin.operands for operand in operands]
        flags = [not known[0], not known[1]] if known[0] != known[1] else _by_size(operands, origin)
    other = int(flags[0])
    if _role(operands, other, origin) != other:
        multiplier = multiplier.swapped()
    return multiplier.of_gradient(first=flags[0], second=flags[1])


def _by_size(operands: tuple[torch.Tensor, torch.Tensor], origin: Origin) -> list[bool]:
    """Tell the gradient by its size, (m, n) or transposed; where both have it, the first one is."""
    m, _, n = origin.sizes
    fits = [sorted(_sizes(operand, second=bool(at))) == sorted((m, n)) for at, operand in enumerate(operands)]
    return fits if fits[0] != fits[1] else [True, False]


def _role(operands: tuple[torch.Tensor, torch.Tensor], place: int, origin: Origin) -> int:
    """Return which operand of the product, 0 or 1, the one that is no gradient was."""
    m, k, n = origin.sizes
    result = sorted((_sizes(operands[0], second=False)[0], _sizes(operands[1], second=True)[1]))
    if m != n:
        return 1 if result == sorted((m, k)) else 0
    address = operands[place].data_ptr()
    if len(set(origin.operands)) == 2 and address in origin.operands:
        return origin.operands.index(address)
    return place


OUTER: Mapping[str, tuple[tuple[int, int], ...]] = {
    "dot": ((0, 1), (1, 0)),
    "vdot": ((0, 1), (1, 0)),
    "mv": ((0, 1),),
    "addmv": ((1, 2),),
}
"""Operators with gradients that PyTorch computes element by element, though they are products of two vectors: the
argument of each such gradient, and the argument by which the gradient of the result is multiplied."""


def outer_products(name: str, args: tuple[Any, ...], alpha: float) -> Callable[..., Any]:
    """Return a hook that replaces such gradients of a node by products of matrices."""
    factors = [(index, args[factor]) for index, factor in OUTER[name]]

    def replace(gradients: tuple[torch.Tensor | None, ...], results: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        replaced = list(gradients)
        for index, factor in factors:
            gradient = gradients[index]
            if gradient is not None:
                product = torch.mm(results[0].reshape(-1, 1), factor[None])
                replaced[index] = (product if alpha == 1 else product * alpha).reshape(gradient.shape)
        return tuple(replaced)

    return replace
