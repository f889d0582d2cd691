"""The context in which PyTorch multiplies on the unit."""

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ContextDecorator, ExitStack, contextmanager
from enum import Enum
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.module_tracker import ModuleTracker

from openmxu_sim import golden
from openmxu_sim.networks.costs import Costs, Ledger
from openmxu_sim.networks.numerics import EscapeError, Multiplier, Numerics, Work
from openmxu_sim.operands.aliases import Floats
from openmxu_sim.torch.operators import CHECKED, ON_UNIT, escapes
from openmxu_sim.torch.refusals import PLAIN_TYPES, check_shapes, check_types, described, parts, unsuitable


class Unit(ContextDecorator):
    """A matrix unit that computes PyTorch's products in its context, or in a function that it decorates.

    Derivatives of these products are in the unit's formats, too, in whichever unit's context they are computed.

    Parameters
    ----------
    rows, columns, stages, terms, subnormals, operand, accumulate, precision
        As in :func:`openmxu_sim.simulate`. ``columns`` and ``stages`` do not change any bit. Formats may have PyTorch's
        names, ``"bfloat16"`` or ``torch.bfloat16``, or the literature's, ``"e4m3"``.
    strict
        Whether an operator of PyTorch that multiplies matrices in a way of its own is an error.
    allow
        Names of such operators to permit anyway, as errors name them: ``"aten::linalg_inv_ex"``.
    threads
        Number of threads; ``None``: as many as PyTorch uses.
    trace
        Whether to note the layer of each product, and the losses of operands in conversion; slower. PyTorch's tracker
        of modules names it: wrongly after an error within one, and while other threads run modules, and not after
        the context has ended.

    Attributes
    ----------
    config
        The unit's parameters.
    numerics
        Parameters on which the bits of its products depend.
    escaped
        Number of times that operators computed products elsewhere, by their names.

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
        terms: int = 1,
        subnormals: str = "flush",
        operand: "str | torch.dtype" = "bf16",
        accumulate: "str | torch.dtype" = "fp32",
        precision: str = "default",
        strict: bool = True,
        allow: Collection[str] = (),
        threads: int | None = None,
        trace: bool = False,
    ) -> None:
        self.numerics = Numerics(operand, accumulate, precision, subnormals, rows, terms).checked()
        self.config = self.numerics.unit(columns, stages)
        self.threads = None if threads is None else golden.check_count(threads, "threads")
        if isinstance(allow, str) or not all(isinstance(name, str) and "::" in name for name in allow):
            raise ValueError(f"allow must be names of operators such as 'aten::linalg_inv_ex', not {allow!r}")
        self.strict, self.allow = strict, frozenset(allow)
        self._ledger, self._trace = Ledger(self.config, self.numerics), trace
        self.escaped: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._entered = threading.local()

    def __repr__(self) -> str:
        unit, options = (
            self.config,
            {"strict": self.strict, "allow": tuple(sorted(self.allow)), "threads": self.threads},
        )
        named = {
            **self.numerics._asdict(),
            "columns": unit.columns,
            "stages": unit.stages,
            **options,
            "trace": self._trace,
        }
        return f"unit({', '.join(f'{name}={value!r}' for name, value in named.items())})"

    def __enter__(self) -> "Unit":
        stack = ExitStack()
        stack.enter_context(_decomposed(self))
        stack.enter_context(_thread.within(self))
        if self._trace and getattr(self._entered, "tracker", None) is None:
            self._entered.tracker = stack.enter_context(ModuleTracker())
            stack.callback(setattr, self._entered, "tracker", None)
        stack.enter_context(_Mode(self))
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        self._entered.stacks.append(stack)
        return self

    def __exit__(self, *_exception: object) -> None:
        if not getattr(self._entered, "stacks", None):
            raise RuntimeError("a unit must be entered before it is left, by the same thread: with unit(...):")
        innermost = _thread.contexts[-1].unit is self
        self._entered.stacks.pop().close()
        if not innermost:
            raise RuntimeError(
                "units must be left in the reverse of the order in which their thread entered them: between the two, "
                "products may have been those of another unit; generators and tasks must not interleave contexts"
            )

    @property
    def work(self) -> Counter[Work]:
        """Number of times that the unit was asked for each kind of product."""
        return self._ledger.work

    def report(self) -> Costs:
        """Return the costs of all products so far on the unit."""
        return self._ledger.costs()

    def multiplier(self, operator: str) -> Multiplier:
        """Return a multiplier for the products of an operator, which counts them."""
        layer = self._layer()

        def seen(products: int, m: int, k: int, n: int, *operands: Floats) -> None:
            self._ledger.note(Work(operator, products, m, k, n, layer), operands if self._trace else ())

        threads = torch.get_num_threads() if self.threads is None else self.threads
        return Multiplier(self.numerics, threads, seen)

    def _layer(self) -> str:
        """Return the name of the innermost module that is computing, if it is traced."""
        tracker = getattr(self._entered, "tracker", None)
        return "" if tracker is None else max(tracker.parents - {"Global"}, key=len, default="")

    def escape(self, operator: str, why: str) -> None:
        """Count an operator that is about to compute products elsewhere.

        Raises
        ------
        EscapeError
            The operator is not allowed to.
        """
        if self.strict and operator not in self.allow:
            raise EscapeError(f"{operator} {why}, or let it compute by itself: unit(allow=({operator!r},))")
        with self._counting:
            self.escaped[operator] += 1


class _Context(NamedTuple):
    """A unit's context."""

    unit: Unit
    """The unit that computes products in this context."""
    again: Unit
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
        self.contexts: list[_Context] = []
        self._hooks: list[object] = []
        self._since: list[int] = []
        self._made_in: list[_Context | None] = []

    @contextmanager
    def within(self, unit: Unit) -> Iterator[None]:
        """Enter the context of a unit."""
        hooks = _saving_hooks()
        in_checkpoint = self.contexts and hooks is not None and hooks != self._hooks[-1]
        self.contexts.append(_Context(unit, self.contexts[-1].again if in_checkpoint else unit))
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

    def made_in(self, node: Any) -> _Context | None:
        """Return the context in which a node was made, if any."""
        index = bisect_right(self._since, node._sequence_nr())
        return self._made_in[index - 1] if index else None


_thread = _Thread()


_saving_hooks = partial(torch._C._autograd._top_saved_tensors_default_hooks, True)
"""Hooks for tensors that are saved for derivatives, if any are set: checkpoints set some, forward and when they compute
again."""


class _Kind(Enum):
    ON_UNIT = "computed by the unit"
    COMPOSED = "made of other operators"
    ESCAPE = "multiplies elsewhere"
    WEIGHTED = "multiplies elsewhere if it is given weights"
    PLAIN = "multiplies no matrices"


@lru_cache(maxsize=4096)
def _kind(func: torch._ops.OpOverload) -> tuple[_Kind, str]:
    """Return the way to treat an operator, and the name of the function that computes it."""
    namespace, _, name = func._schema.name.partition("::")
    plain = name if name in ON_UNIT else name.removesuffix("_")
    if namespace == "aten" and plain in ON_UNIT:
        return _Kind.ON_UNIT, plain
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return _Kind.COMPOSED, plain
    if namespace == "aten" and name.startswith("_embedding_bag"):
        return _Kind.WEIGHTED, plain
    return _Kind.ESCAPE if escapes(func) else _Kind.PLAIN, plain


_plain: dict[int, torch._ops.OpOverload] = {}
"""Operators that multiply no matrices, by their identity, which takes less time than their hash."""


class _Mode(TorchDispatchMode):
    """PyTorch's handler of each operator, below automatic differentiation.

    Each product is remembered until the next operator: by then it has its node of the graph of derivatives, and the
    node can be told that its products, too, are the unit's.

    TorchScript, and functions with a derivative of their own, make one node for several operators: before they run, and
    for the last result. In a script, gradients are enabled, but no operand requires one; in such a function it is the
    other way round. After a product like that, the last result is remembered, too: its node was made before.
    """

    supports_higher_order_operators = True
    """Operators of higher order come here, too, to be refused."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.innermost = unit
        self.during = torch._C._current_autograd_node()
        self.results: list[_Made] = []
        self.hidden: int | None = None
        self.last: Any = None

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
        if types or self.results or self.hidden is not None or id(func) not in _plain:
            return self._dispatch(func, types, args, kwargs or {})
        return func(*args, **kwargs) if kwargs else func(*args)

    def _dispatch(
        self,
        func: "torch._ops.OpOverload | torch._ops.HigherOrderOperator",
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        self._mark()
        if isinstance(func, torch._ops.HigherOrderOperator):
            self._unit().escape(f"{func.namespace}::{func.name()}", _HIGHER)
            return func(*args, **kwargs)
        if any(issubclass(cls, FakeTensor) for cls in types):
            return func(*args, **kwargs)
        if not all(cls in PLAIN_TYPES for cls in types):
            return NotImplemented  # the others take themselves apart, and come back
        kind, name = _kind(func)
        if kind is _Kind.COMPOSED:
            with self:
                return func.decompose(*args, **kwargs)
        if kind is _Kind.PLAIN:
            _plain[id(func)] = func
            result = func(*args, **kwargs)
            self.last = None if self.hidden is None else result
            return result
        options = {key: value for key, value in kwargs.items() if key != "out"}
        operands = [*args[: CHECKED.get(name)], *options.values()]
        leaves = operands if kind is _Kind.ON_UNIT else tree_leaves(operands)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        sizes = [tensor.numel() for tensor in tensors]
        # The unit needs all of its operands; other operators may have results and buffers among theirs.
        if any(tensor.is_meta for tensor in tensors) or not (all if kind is _Kind.ON_UNIT else any)(sizes):
            return func(*args, **kwargs)  # nothing is multiplied
        if kind is _Kind.WEIGHTED and sum(tensor.is_floating_point() for tensor in tensors) < 2:
            return func(*args, **kwargs)
        if kind is _Kind.ON_UNIT:
            why = unsuitable(tensors)
        else:
            why = "does not multiply on the unit; use operators that do (mm, bmm, convolution)"
        if why:
            self._unit().escape(func._schema.name, why)
            return func(*args, **kwargs)
        return self._compute(func, name, tensors, args, kwargs)

    def _unit(self) -> Unit:
        """Return the innermost context's unit; for what a node of the graph of derivatives computes, that of the node.

        The node's unit also computes operators that the node runs again, unless they enter a context.
        """
        node = torch._C._current_autograd_node()
        if node is None or node is self.during:
            return self.innermost
        context = _thread.made_in(node)
        if _saving_hooks() is not None:
            return self.innermost if context is None else context.again
        made_by: Unit | None = node.metadata.get(_MADE_BY)
        return made_by or (self.innermost if context is None else context.unit)

    def _compute(
        self,
        func: torch._ops.OpOverload,
        name: str,
        tensors: list[torch.Tensor],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        check_types(func, tensors)
        if name not in CHECKED:
            check_shapes(func, *described((args, tuple(sorted(kwargs.items())))))
        options = {key: value for key, value in kwargs.items() if key != "out"}
        unit = self._unit()
        result = ON_UNIT[name](unit.multiplier(name), *args, **options)
        written = kwargs.get("out", args[0] if func._schema.is_mutable else None)
        if written is not None:
            result = written.resize_(result.shape).copy_(result) if "out" in kwargs else written.copy_(result)
        asked, wanted = torch.is_grad_enabled(), any(tensor.requires_grad for tensor in tensors)
        if asked and wanted:
            self.hidden = None
            if written is not None and written._is_view() and name in _OUTER:
                raise EscapeError(f"{func._schema.name} must not write to a view whose derivatives are asked for")
        elif (asked or wanted) and torch._C._current_autograd_node() is None:
            self.hidden = torch.autograd._get_sequence_nr()
        else:
            return result
        outer = name if self.hidden is None else ""
        self.results += [_Made(part, unit, outer, args, kwargs.get("alpha", 1)) for part in parts(result)]
        return result

    def _mark(self) -> None:
        """Have the nodes of products look for a unit when they are asked for derivatives."""
        for made in self.results:
            whole = made.result._base if made.name else None  # where a view was written to
            for node in (made.result.grad_fn, None if whole is None else whole.grad_fn):
                if node is not None:
                    node.metadata[_MADE_BY] = made.unit
                    node.register_prehook(_require_unit)
            if made.result.grad_fn is not None and made.name in _OUTER:
                made.result.grad_fn.register_hook(_outer_products(made.name, made.args, made.alpha))
        self.results.clear()
        if self.last is not None and self.hidden is not None:
            for node in [part.grad_fn for part in parts(self.last)]:
                if node is not None and node._sequence_nr() < self.hidden:
                    node.register_prehook(_require_unit)
            self.last = None


class _Made(NamedTuple):
    """The result of a product, and its origin."""

    result: torch.Tensor
    unit: Unit
    name: str
    args: tuple[Any, ...]
    alpha: float


_MADE_BY = "openmxu unit"
"""Key in a node's metadata: the unit that made its product."""


_HIGHER = (
    "runs functions that it is given where the unit does not see their products; call them yourself (Python's if and "
    "while, scaled_dot_product_attention)"
)


def _require_unit(_gradients: object) -> None:
    if not _thread.contexts:
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
"""Operators with gradients that PyTorch computes element by element, though they are products of two vectors: the
argument of each such gradient, and the argument by which the gradient of the result is multiplied."""


def _outer_products(name: str, args: tuple[Any, ...], alpha: float) -> Callable[..., Any]:
    """Return a hook that replaces such gradients of a node by products of matrices."""
    factors = [(index, args[factor]) for index, factor in _OUTER[name]]

    def replace(gradients: tuple[torch.Tensor | None, ...], results: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        replaced = list(gradients)
        for index, factor in factors:
            gradient = gradients[index]
            if gradient is not None:
                product = torch.mm(results[0].reshape(-1, 1), factor[None])
                replaced[index] = (product if alpha == 1 else product * alpha).reshape(gradient.shape)
        return tuple(replaced)

    return replace


def _look_for_unit(module: torch.nn.Module, _inputs: object) -> None:
    """Before a network computes, complain if its thread has entered no unit, while another has."""
    if not _thread.contexts and any(True for _ in module.parameters()):
        for unit in tuple(_users):
            unit.escape(
                "thread::forward",
                "computes a module in a thread that has entered no unit, while another has; enter it there, too",
            )


_settings = threading.Lock()


_users: list[Unit] = []


_restore = ExitStack()


@contextmanager
def _decomposed(unit: Unit) -> Iterator[None]:
    """Keep PyTorch from its fused kernels, which would multiply by themselves; these settings are the process's."""
    global _restore  # noqa: PLW0603
    with _settings:
        if not _users:
            _restore = ExitStack()
            _restore.enter_context(sdpa_kernel(SDPBackend.MATH))
            others = {name: getattr(torch.backends.mkldnn, name) for name in ("deterministic", "allow_tf32")}
            _restore.enter_context(torch.backends.mkldnn.flags(enabled=False, **others))
            _restore.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)
            _restore.enter_context(register_module_forward_pre_hook(_look_for_unit))
        _users.append(unit)
    try:
        yield
    finally:
        with _settings:
            _users.remove(unit)
            if not _users:
                _restore.close()
