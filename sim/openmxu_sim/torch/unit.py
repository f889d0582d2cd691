"""The context in which PyTorch multiplies on the unit."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ContextDecorator, ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from openmxu_sim import golden
from openmxu_sim.golden.parameters import DerivativeOptions, Unpack, with_options
from openmxu_sim.networks.by_layer import LayerNumerics, Layers
from openmxu_sim.networks.costs import Costs, Ledger
from openmxu_sim.networks.history import History
from openmxu_sim.networks.numerics import EscapeError, Multiplier, Numerics, Product, Work
from openmxu_sim.torch import modules
from openmxu_sim.torch.arrays import warn_of_flushed
from openmxu_sim.torch.contexts import saving_hooks, thread
from openmxu_sim.torch.narrow import NARROW
from openmxu_sim.torch.operators import CHECKED, ON_UNIT, OPERANDS, PLAIN, Kind, is_product, kind_of
from openmxu_sim.torch.refusals import (
    PLAIN_TYPES,
    check_shapes,
    check_types,
    described,
    elsewhere,
    multiplies_nothing,
    parts,
    unsuitable,
    with_memory,
)
from openmxu_sim.torch.roles import LAYER, ORIGIN, OUTER, Origin, in_roles, note_gradients, origin_of, outer_products


class Unit(ContextDecorator):
    """A matrix unit that computes PyTorch's products in its context, or in a function that it decorates.

    Derivatives of these products are in the unit's formats, too, in whichever unit's context they are computed.

    Parameters
    ----------
    columns, stages
        Columns of the unit's array, and stages of its elements, for cycles; no bit depends on them.
    layers
        Other formats, or parameters, for modules by patterns of their names, also in their derivatives; see
        :class:`openmxu_sim.networks.by_layer.Layers`. In nested contexts the innermost unit's count.
    history
        Scales of whole tensors are computed from the largest magnitudes in so many earlier products of the same layer,
        operator and place (delayed scaling); ``None``: from that of the tensor itself.
    strict
        Whether an operator of PyTorch that multiplies matrices in a way of its own is an error.
    allow
        Names of such operators to permit anyway, as errors name them: ``"aten::linalg_inv_ex"``.
    threads
        Number of threads; ``None``: as many as PyTorch uses.
    trace
        Whether to note the layer of each product, and the losses of operands in conversion; slower.
    errors
        Whether to measure the error of each product, too, against binary64: see :meth:`report` and :meth:`errors`.
    numerics
        The parameters of the table in :doc:`/explanation/numerics`. ``seed`` is the first operator's, and each further
        one has the last one's + 65537: the same seed and the same sequence of products give the same bits; what a
        checkpoint computes again is rounded by other numbers. ``gradient`` under ``torch.func``, where roles and layers
        cannot be known, is an error unless all operands have one format.

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

    @with_options(DerivativeOptions)
    def __init__(
        self,
        *,
        columns: int = 128,
        stages: int = 1,
        layers: LayerNumerics | None = None,
        history: int | None = None,
        strict: bool = True,
        allow: Collection[str] = (),
        threads: int | None = None,
        trace: bool = False,
        errors: bool = False,
        **numerics: Unpack[DerivativeOptions],
    ) -> None:
        self.numerics = Numerics(**numerics).checked()
        self._options: dict[str, Any] = {"columns": columns, "stages": stages, "layers": layers, "history": history}
        self._options |= {"strict": strict, "allow": allow, "threads": threads, "trace": trace, "errors": errors}
        self.layers = Layers(self.numerics, layers)
        self.config = self.numerics.unit(columns, stages)
        self.history = None if history is None else History(golden.check_count(history, "history"))
        self.threads = None if threads is None else golden.check_count(threads, "threads")
        if (
            isinstance(allow, str)
            or not isinstance(allow, Collection)
            or not all(isinstance(name, str) and "::" in name for name in allow)
        ):
            raise ValueError(f"allow must be names of operators such as 'aten::linalg_inv_ex', not {allow!r}")
        self.strict, self.allow = strict, frozenset(allow)
        self._ledger, self._trace, self._errors = Ledger(self.config, self.numerics), trace or errors, errors
        self.escaped: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._calls = 0
        self._noted: set[str] = set()
        self._entered = threading.local()

    def __repr__(self) -> str:
        named = {**vars(self.numerics), **self._options, "allow": tuple(sorted(self.allow))}
        usual = {name: one.default for name, one in signature(Unit).parameters.items()}
        return f"unit({', '.join(f'{name}={value!r}' for name, value in named.items() if value != usual[name])})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a unit as its parameters: a copy has counted nothing."""
        return partial(Unit, **vars(self.numerics), **self._options), ()

    def __enter__(self) -> "Unit":
        stack = ExitStack()
        stack.enter_context(_decomposed(self))
        stack.enter_context(thread.within(self))
        if self._trace or self.layers or self.history:
            stack.enter_context(modules.named())
        stack.enter_context(_Mode(self))
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        self._entered.stacks.append(stack)
        return self

    def __exit__(self, *exception: object) -> None:
        if not getattr(self._entered, "stacks", None):
            raise RuntimeError("a unit must be entered before it is left, by the same thread: with unit(...):")
        innermost = thread.contexts[-1].unit is self
        self._entered.stacks.pop().close()
        if exception[0] is None and self._ledger.work:
            self.layers.warn_of_unmatched()
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

    def errors(self) -> list[dict[str, Any]]:
        """Return the errors of products, one row for each kind and step; see :func:`next_step`."""
        return self._ledger.errors_by_step()

    def next_step(self) -> None:
        """Count what follows as another step, in errors."""
        self._ledger.step += 1

    def multiplier(self, operator: str, layer: str = "", number: int = 0, *, backward: bool = False) -> Multiplier:
        """Return a multiplier for the products of an operator, which counts them."""
        numerics = self.layers.numerics(layer)
        if self.layers.stochastic:
            with self._counting:
                calls, self._calls = self._calls, self._calls + 1
            numerics = replace(numerics, seed=(numerics.seed + calls * 65537) % 2**32)
        name = layer if self._trace else ""
        direction = ("backward" if backward else "forward") if self._errors else ""

        def seen(product: Product) -> None:
            work = Work(operator, product.products, product.m, product.k, product.n, name, direction)
            self._ledger.note(work, product if self._trace else None, errors=self._errors)
            if layer not in self._noted and warn_of_flushed(product, f"{operator}{' of ' * bool(layer)}{layer}"):
                self._noted.add(layer)

        threads = torch.get_num_threads() if self.threads is None else self.threads
        largest = None if self.history is None else partial(self.history.largest, (layer, number, operator, backward))
        return Multiplier(numerics, threads, seen, largest, measures=self._errors)

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
        self.layer = ""
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
        seen = types or self.results or self.hidden is not None or id(func) not in PLAIN
        if seen or forward_ad._current_level >= 0:
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
        kind, name = kind_of(func)
        if kind is Kind.COMPOSED:
            why = is_product(name) and unsuitable(
                [one for one in args if isinstance(one, torch.Tensor) and one.is_nested]
            )
            if why:
                self._unit().escape(func._schema.name, why)
                return func(*args, **kwargs)
            with self:
                return func.decompose(*args, **kwargs)
        if kind is Kind.PLAIN:
            PLAIN[id(func)] = func
            result = func(*(args if forward_ad._current_level < 0 else with_memory(func, args)), **kwargs)
            self.last = None if self.hidden is None else result
            return result
        options = {key: value for key, value in kwargs.items() if key != "out"}
        operands = [*args[: CHECKED.get(name)], *options.values()]
        leaves = operands if kind is Kind.ON_UNIT else tree_leaves(operands)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if multiplies_nothing(kind, name, tensors):
            return func(*args, **kwargs)
        if kind is Kind.WEIGHTED and sum(tensor.is_floating_point() for tensor in tensors) < 2:
            return func(*args, **kwargs)
        unit = self._unit()
        numerics = unit.layers.numerics(modules.current()) if name in NARROW else unit.numerics
        escape = elsewhere(kind, func._schema.name, tensors, args, numerics)
        if escape is None:
            return self._compute(func, name, tensors, args, kwargs)
        unit.escape(*escape)
        return func(*args, **kwargs)

    def _node(self) -> Any:
        """Return the node of the graph of derivatives that computes; ``None`` also where it runs operators again."""
        node = torch._C._current_autograd_node()
        return None if node is self.during or saving_hooks() is not None else node

    def _unit(self) -> Unit:
        """Return the innermost context's unit; for what a node of the graph of derivatives computes, that of the node.

        The node's unit also computes operators that the node runs again, unless they enter a context.
        """
        node = torch._C._current_autograd_node()
        if node is None or node is self.during:
            return self.innermost
        context = thread.made_in(node)
        if saving_hooks() is not None:
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
        if name not in NARROW:
            check_types(func, tensors)
        if name not in CHECKED:
            check_shapes(func, *described((args, tuple(sorted(kwargs.items())))))
        options = {key: value for key, value in kwargs.items() if key != "out"}
        unit, node = self._unit(), self._node()
        if node is not None and ORIGIN not in node.metadata and modules.current():
            node = None  # a module is computed again
        layer, number = modules.next_product() if node is None else _place(unit, node)
        multiplier = unit.multiplier(name, layer, number, backward=node is not None)
        if node is not None and name in OPERANDS:
            first, second = OPERANDS[name]
            multiplier = in_roles(multiplier, node, (args[first], args[second]))
        result = ON_UNIT[name](multiplier, *args, **options)
        written = kwargs.get("out", args[0] if func._schema.is_mutable else None)
        if written is not None:
            result = written.resize_(result.shape).copy_(result) if "out" in kwargs else written.copy_(result)
        asked, wanted = torch.is_grad_enabled(), any(tensor.requires_grad for tensor in tensors)
        if asked and wanted:
            self.hidden = None
            if written is not None and written._is_view() and name in OUTER:
                raise EscapeError(f"{func._schema.name} must not write to a view whose derivatives are asked for")
        elif (asked or wanted) and torch._C._current_autograd_node() is None:
            self.hidden, self.layer = torch.autograd._get_sequence_nr(), layer
        else:
            return result
        outer = name if self.hidden is None else ""
        origin = origin_of(name, args, layer, number)
        made = unit, origin, outer, args, kwargs.get("alpha", 1), self.hidden is not None
        self.results += [_Made(part, *made) for part in parts(result)]
        return result

    def _mark(self) -> None:
        """Have the nodes of products look for a unit when they are asked for derivatives."""
        for made in self.results:
            whole = made.result._base if made.name else None  # where a view was written to
            for node in (made.result.grad_fn, None if whole is None else whole.grad_fn):
                if node is not None:
                    node.metadata[_MADE_BY], node.metadata[LAYER] = made.unit, made.origin.layer
                    if not made.within:
                        node.metadata[ORIGIN] = made.origin
                    node.register_prehook(partial(_require_unit, node._sequence_nr()))
            if made.result.grad_fn is not None and made.name in OUTER:
                made.result.grad_fn.register_hook(outer_products(made.name, made.args, made.alpha))
        self.results.clear()
        if self.last is not None and self.hidden is not None:
            for node in [part.grad_fn for part in parts(self.last)]:
                if node is not None and node._sequence_nr() < self.hidden:
                    node.metadata.setdefault(LAYER, self.layer)
                    node.register_prehook(partial(_require_unit, node._sequence_nr()))
            self.last = None


class _Made(NamedTuple):
    """The result of a product, and its origin."""

    result: torch.Tensor
    unit: Unit
    origin: Origin
    name: str
    args: tuple[Any, ...]
    alpha: float
    within: bool
    """Whether it is one of several operators for which PyTorch makes one node."""


_MADE_BY, _DERIVATIVES = "openmxu unit", "openmxu derivatives"
"""Keys in a node's metadata: the unit that made its product, and how many products its derivatives have been."""


_HIGHER = (
    "runs functions that it is given where the unit does not see their products; call them yourself (Python's if and "
    "while, scaled_dot_product_attention)"
)


def _place(unit: Unit, node: Any) -> tuple[str, int]:
    """Return the module of the product whose derivatives a node computes, and a number of this derivative."""
    origin: Origin | None = node.metadata.get(ORIGIN)
    if origin is not None:
        node.metadata[_DERIVATIVES] = derivative = node.metadata.get(_DERIVATIVES, 0) + 1
        return origin.layer, 2 * origin.number + derivative % 2
    if unit.layers and LAYER not in node.metadata:
        raise EscapeError("a derivative's layer is not known here (torch.func): leave layers out, or call backward()")
    return node.metadata.get(LAYER, ""), -1


def _require_unit(number: int, gradients: Any) -> None:
    """Before a node computes: look for a unit, and note the node's gradients."""
    note_gradients(number, gradients)
    if not thread.contexts:
        raise EscapeError(
            "these products were made on a unit, and their derivatives would be computed elsewhere; "
            "also call backward() in the context of a unit"
        )


def _look_for_unit(module: torch.nn.Module, _inputs: object) -> None:
    """Before a network computes, complain if its thread has entered no unit, while another has."""
    if not thread.contexts and any(True for _ in module.parameters()):
        for unit in tuple(_users):
            unit.escape(
                "thread::forward",
                "computes a module in a thread that has entered no unit, while another has; enter it there, too",
            )


def _look_for_users(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a packaged program unless a unit is entered, here or in another thread."""

    @wraps(run)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for unit in (thread.contexts[-1].unit,) if thread.contexts else tuple(_users):
            unit.escape("aoti::run", "runs a packaged program, whose products are its own; run its module instead")
        return run(*args, **kwargs)

    return checked


_settings = threading.Lock()


_users: list[Unit] = []


_PACKAGED = [
    (one, name)
    for one in vars(torch._C._aoti).values()
    for name in ("run", "boxed_run")
    if isinstance(one, type) and name in vars(one)
]
"""Methods that run AOTInductor's packages, below all modes."""

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
            for one, name in _PACKAGED:
                _restore.callback(setattr, one, name, getattr(one, name))
                setattr(one, name, _look_for_users(getattr(one, name)))
        _users.append(unit)
    try:
        yield
    finally:
        with _settings:
            _users.remove(unit)
            if not _users:
                _restore.close()
