"""The context in which PyTorch multiplies on the unit."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.module_tracker import ModuleTracker

from openmxu_sim import golden
from openmxu_sim.aliases import Floats
from openmxu_sim.costs import Costs, Ledger
from openmxu_sim.numerics import EscapeError, Multiplier, Numerics, Work
from openmxu_sim.torch.operators import CHECKED, ON_UNIT, escapes
from openmxu_sim.torch.products import TYPES

__all__ = ["Unit"]

_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""Tensors that have no dispatcher of their own."""

_active = threading.local()
"""``depth``: how many contexts this thread is in."""


class Unit:
    """A matrix unit that computes PyTorch's products in its context, forward and backward.

    Parameters
    ----------
    rows, columns, stages, subnormals, operand, accumulate, precision
        As of :func:`openmxu_sim.simulate`. Neither ``columns`` nor ``stages`` change any bit.
    strict
        Whether an operator of PyTorch's that multiplies matrices in a way of its own is an error.
    allow
        Names of such operators that are none all the same, as errors name them: ``"aten::linalg_inv_ex"``.
    threads
        How many to use; ``None``: as many as PyTorch does.
    trace
        Whether to note which layer asks for products, and what conversion loses of operands; slower. PyTorch's tracker
        of modules says which: not rightly after an error within one, nor while other threads run modules.

    Attributes
    ----------
    config
        The unit's parameters.
    numerics
        What the bits of its products depend on.
    escaped
        How many times operators have computed products elsewhere, by their names.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(
        self,
        *,
        rows: int = 128,
        columns: int = 128,
        stages: int = 1,
        subnormals: str = "flush",
        operand: str = "bf16",
        accumulate: str = "fp32",
        precision: str = "default",
        strict: bool = True,
        allow: Collection[str] = (),
        threads: int | None = None,
        trace: bool = False,
    ) -> None:
        self.numerics = Numerics(operand, accumulate, precision, subnormals, rows).checked()
        self.config = self.numerics.unit(columns, stages)
        self.threads = None if threads is None else golden.check_count(threads, "threads")
        if isinstance(allow, str) or not all(isinstance(name, str) and "::" in name for name in allow):
            raise ValueError(f"allow must be names of operators such as 'aten::linalg_inv_ex', not {allow!r}")
        self.strict, self.allow = strict, frozenset(allow)
        self._ledger, self._trace = Ledger(self.config, self.numerics), trace
        self.escaped: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._entered = threading.local()

    def __enter__(self) -> "Unit":
        stack = ExitStack()
        stack.enter_context(_decomposed())
        stack.enter_context(_activity())
        if self._trace and getattr(self._entered, "tracker", None) is None:
            self._entered.tracker = stack.enter_context(ModuleTracker())
            stack.callback(setattr, self._entered, "tracker", None)
        stack.enter_context(_Mode(self))
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        self._entered.stacks.append(stack)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._entered.stacks.pop().close()

    @property
    def work(self) -> Counter[Work]:
        """How many times the unit was asked for which products."""
        return self._ledger.work

    def report(self) -> Costs:
        """What all products so far cost on the unit."""
        return self._ledger.costs()

    def multiplier(self, operator: str) -> Multiplier:
        """What computes products that an operator asks for, and counts them."""
        layer = self._layer()

        def seen(products: int, m: int, k: int, n: int, *operands: Floats) -> None:
            self._ledger.note(Work(operator, products, m, k, n, layer), operands if self._trace else ())

        threads = torch.get_num_threads() if self.threads is None else self.threads
        return Multiplier(self.numerics, threads, seen)

    def _layer(self) -> str:
        """The innermost module that is computing, if that is noted."""
        tracker = getattr(self._entered, "tracker", None)
        return "" if tracker is None else max(tracker.parents - {"Global"}, key=len, default="")

    def escape(self, operator: str, why: str) -> None:
        """An operator is about to compute products elsewhere: count it.

        Raises
        ------
        EscapeError
            It is not allowed to.
        """
        if self.strict and operator not in self.allow:
            raise EscapeError(f"{operator} {why}, or let it compute by itself: unit(allow=({operator!r},))")
        with self._counting:
            self.escaped[operator] += 1


class _Kind(Enum):
    ON_UNIT = "computed by the unit"
    COMPOSED = "made of other operators"
    ESCAPE = "multiplies elsewhere"
    WEIGHTED = "multiplies elsewhere if it is given weights"
    PLAIN = "multiplies no matrices"


@lru_cache(maxsize=4096)
def _kind(func: torch._ops.OpOverload) -> tuple[_Kind, str]:
    """What to do with an operator, and the name of the function that computes it."""
    namespace, _, name = func._schema.name.partition("::")
    plain = name if name in ON_UNIT else name.removesuffix("_")
    if namespace == "aten" and plain in ON_UNIT:
        return _Kind.ON_UNIT, plain
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return _Kind.COMPOSED, plain
    if namespace == "aten" and name.startswith("_embedding_bag"):
        return _Kind.WEIGHTED, plain
    return _Kind.ESCAPE if escapes(func) else _Kind.PLAIN, plain


class _Mode(TorchDispatchMode):
    """What PyTorch asks about each operator, below automatic differentiation.

    Each result is remembered until the next operator: by then it has its node of the graph of derivatives, and the
    node can be told that its products, too, are the unit's.
    """

    supports_higher_order_operators = True
    """They come here, too, to be refused."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.unit = unit
        self.results: list[tuple[torch.Tensor, str, tuple[Any, ...], float]] = []

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._mark()

    def __torch_dispatch__(
        self,
        func: "torch._ops.OpOverload | torch._ops.HigherOrderOperator",
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self._mark()
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            self.unit.escape(f"{func.namespace}::{func.name()}", _HIGHER)
            return func(*args, **kwargs)
        if any(issubclass(each, FakeTensor) for each in types):
            return func(*args, **kwargs)
        if not all(each in _PLAIN_TYPES for each in types):
            return NotImplemented  # the others take themselves apart, and come back
        kind, name = _kind(func)
        if kind is _Kind.COMPOSED:
            with self:
                return func.decompose(*args, **kwargs)
        if kind is _Kind.PLAIN:
            return func(*args, **kwargs)
        given = {key: value for key, value in kwargs.items() if key != "out"}
        operands = [*args[: CHECKED.get(name)], *given.values()]
        leaves = operands if kind is _Kind.ON_UNIT else tree_leaves(operands)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        sizes = [tensor.numel() for tensor in tensors]
        # What the unit computes needs all of its operands; others may have results and buffers among theirs.
        if any(tensor.is_meta for tensor in tensors) or not (all if kind is _Kind.ON_UNIT else any)(sizes):
            return func(*args, **kwargs)  # nothing is multiplied
        if kind is _Kind.WEIGHTED and sum(tensor.is_floating_point() for tensor in tensors) < 2:
            return func(*args, **kwargs)
        if kind is _Kind.ON_UNIT:
            why = _unsuitable(tensors)
        else:
            why = "does not multiply on the unit; use operators that do (mm, bmm, convolution)"
        if why:
            self.unit.escape(func._schema.name, why)
            return func(*args, **kwargs)
        return self._compute(func, name, tensors, args, kwargs)

    def _compute(
        self,
        func: torch._ops.OpOverload,
        name: str,
        tensors: list[torch.Tensor],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        _check_types(func, tensors)
        if name not in CHECKED:
            _check_shapes(func, *_described((args, tuple(sorted(kwargs.items())))))
        given = {key: value for key, value in kwargs.items() if key != "out"}
        result = ON_UNIT[name](self.unit.multiplier(name), *args, **given)
        written = kwargs.get("out", args[0] if func._schema.is_mutable else None)
        if written is not None:
            result = written.resize_(result.shape).copy_(result) if "out" in kwargs else written.copy_(result)
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            if written is not None and written._is_view() and name in _OUTER:
                raise EscapeError(f"{func._schema.name} must not write to a view whose derivatives are asked for")
            parts = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
            self.results += [(part, name, args, kwargs.get("alpha", 1)) for part in parts]
        return result

    def _mark(self) -> None:
        """Have the nodes of what was computed look for a unit when they are asked for derivatives."""
        for result, name, args, alpha in self.results:
            node = result.grad_fn
            if node is not None:
                node.register_prehook(_require_unit)
                if name in _OUTER:
                    node.register_hook(_outer_products(name, args, alpha))
            if result._base is not None and result._base.grad_fn is not None:  # where a view was written to
                result._base.grad_fn.register_prehook(_require_unit)
        self.results.clear()


_HIGHER = (
    "runs functions that it is given where the unit does not see their products; call them yourself (Python's if and "
    "while, scaled_dot_product_attention)"
)


def _require_unit(_gradients: object) -> None:
    if not getattr(_active, "depth", 0):
        raise EscapeError(
            "these products were made on a unit, and their derivatives would be computed elsewhere; "
            "call backward() in the context of a unit, too"
        )


_OUTER: Mapping[str, tuple[tuple[int, int], ...]] = {
    "dot": ((0, 1), (1, 0)),
    "vdot": ((0, 1), (1, 0)),
    "mv": ((0, 1),),
    "addmv": ((1, 2),),
}
"""Operators some of whose gradients PyTorch computes element by element, though they are products of two vectors: the
gradients of which arguments, and which argument is the vector that the gradient of the result is multiplied by."""


def _outer_products(name: str, args: tuple[Any, ...], alpha: float) -> Callable[..., Any]:
    """What replaces such gradients of a node."""
    factors = [(place, args[factor]) for place, factor in _OUTER[name]]

    def replace(gradients: tuple[torch.Tensor | None, ...], results: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        replaced = list(gradients)
        for place, factor in factors:
            gradient = gradients[place]
            if gradient is not None:
                product = torch.mm(results[0].reshape(-1, 1), factor[None])
                replaced[place] = (product if alpha == 1 else product * alpha).reshape(gradient.shape)
        return tuple(replaced)

    return replace


def _unsuitable(tensors: list[torch.Tensor]) -> str | None:
    """Why the unit cannot take these tensors, if that is so."""
    for tensor in tensors:
        if (
            tensor.is_nested
            or tensor.layout is not torch.strided
            or tensor.device.type != "cpu"
            or tensor.dtype not in TYPES
        ):
            return (
                f"must have dense tensors of {', '.join(map(str, TYPES))} on the CPU to multiply on the unit, not "
                f"{tensor.dtype}, {tensor.layout} on {tensor.device}; convert them"
            )
    return None


def _check_types(func: torch._ops.OpOverload, tensors: list[torch.Tensor]) -> None:
    types = {tensor.dtype for tensor in tensors}
    if len(types) > 1:
        raise RuntimeError(
            f"{func._schema.name} must have tensors of one dtype, not of {' and '.join(sorted(map(str, types)))}"
        )


def _described(value: Any) -> Any:
    """A value that can be hashed: of tensors the shape and the type."""
    if isinstance(value, torch.Tensor):
        return _Described(tuple(value.shape), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(map(_described, value))
    return value


class _Described(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype


@lru_cache(maxsize=4096)
def _check_shapes(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: tuple[Any, ...]) -> None:
    """Have PyTorch itself complain of shapes and types that it does not multiply."""

    def empty(value: Any) -> Any:
        if isinstance(value, _Described):
            return torch.empty(value.shape, dtype=value.dtype, device="meta")
        return [empty(each) for each in value] if isinstance(value, tuple) else value

    func(*(empty(each) for each in args), **{name: empty(value) for name, value in kwargs})


@contextmanager
def _activity() -> Iterator[None]:
    _active.depth = getattr(_active, "depth", 0) + 1
    try:
        yield
    finally:
        _active.depth -= 1


_settings = threading.Lock()
_users = 0
_restore = ExitStack()


@contextmanager
def _decomposed() -> Iterator[None]:
    """PyTorch without its fused kernels, where they would multiply by themselves; these settings are the process's."""
    global _users, _restore  # noqa: PLW0603
    with _settings:
        if not _users:
            _restore = ExitStack()
            _restore.enter_context(sdpa_kernel(SDPBackend.MATH))
            others = {name: getattr(torch.backends.mkldnn, name) for name in ("deterministic", "allow_tf32")}
            _restore.enter_context(torch.backends.mkldnn.flags(enabled=False, **others))
            _restore.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)
        _users += 1
    try:
        yield
    finally:
        with _settings:
            _users -= 1
            if not _users:
                _restore.close()
