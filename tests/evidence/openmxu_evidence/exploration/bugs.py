"""Units with a bug, which the exploration must find, or else it proves nothing.

A bug is a line of the hardware's source that reads otherwise. The modules are run again with that line, beside
the real ones, which stay as they are.
"""

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from amaranth.hdl import Cat, Signal

from openmxu.spec.config import MxuConfig

# In the order in which they import each other.
_MODULES = (
    *("openmxu.unit.skew", "openmxu.unit.pe", "openmxu.spec.config", "openmxu.unit.edge", "openmxu.unit.array"),
    *("openmxu.unit.accumulator", "openmxu.unit.admission", "openmxu.unit.mxu"),
)


@dataclass(frozen=True)
class Bug:
    """A change of a module's source."""

    module: str
    """The last part of its name."""
    right: str
    wrong: str
    """Text that must occur exactly once, and the text that replaces it."""
    longest_tile: int = 1
    longest_sum: int = 2
    mistakes: int = 0
    keeps: bool = False
    """Beats of a tile, tiles of a sum, mistakes of a sender, and tiles that keep weights, as needed to show the bug."""

    @property
    def config(self) -> MxuConfig:
        """The unit that shows the bug: one column where senders may do more, as this makes many states."""
        return MxuConfig(rows=2, columns=1 if self.mistakes or self.keeps else 2, depth=2)

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds of the exploration that shows the bug."""
        return {name: getattr(self, name) for name in ("longest_tile", "longest_sum", "mistakes", "keeps")}


SEEDED_BUGS: Mapping[str, Bug] = {
    "weights become active a cycle late": Bug("pe", "m.If(self.i_swap)", "m.If(self.o_swap)"),
    "weights are loaded a cycle late": Bug("pe", "m.If(self.i_load)", "m.If(self.o_load)"),
    "swap marks are a cycle late": Bug("admission", "m.d.comb += self.o_swaps", "m.d.sync += self.o_swaps"),
    "a beat of weights too many may enter": Bug(
        "admission", "more = Signal(range(beats), init=beats - 1)", "more = Signal(range(beats + 1), init=beats)"
    ),
    "no further weights may enter": Bug("admission", "allowed = more + some", "allowed = more"),
    "a tile does not wait for its weights": Bug("admission", "(room & written) & (loaded | ~swap)", "(room & written)"),
    "weights are never kept": Bug(
        "admission", "self.i_first & ~self.i_keep", "self.i_first", longest_sum=1, keeps=True
    ),
    "a tile that keeps its weights waits for others": Bug(
        "admission", "(room & written) & (loaded | ~swap)", "(room & written) & loaded", longest_sum=1, keeps=True
    ),
    "weights are kept, and those that wait are lost": Bug(
        "admission", "(loaded | complete) & ~entering", "(loaded | complete) & ~self.o_go", longest_sum=1, keeps=True
    ),
    "a sum is added to a cycle early": Bug(
        "admission", "range(1, self.config.row_latency)", "range(1, self.config.row_latency - 1)"
    ),
    "a result too many may enter the bank": Bug("admission", "held < limit,", "held <= limit,"),
    "a tile that stays runs into results": Bug(
        "admission", "limit.eq(depth - ahead)", "limit.eq(depth)", longest_tile=2, longest_sum=1
    ),
    "places are never freed": Bug("admission", "freed.eq(self.i_freed)", "freed.eq(0)"),
    "results of a tile go to one place": Bug(
        "admission", "head + self.i_emit", "head + (self.i_emit & self.i_last)", longest_tile=2, longest_sum=1
    ),
    "activations are skewed too far": Bug("mxu", "step=config.row_step, base=1", "step=config.row_step + 1, base=1"),
    "rows of activations are reversed": Bug(
        "mxu",
        "skew.i.eq(edge.o_words)",
        "skew.i.eq(edge.o_words if edge is weight_edge else"
        " Cat(edge.o_words.word_select(row, config.word_width) for row in reversed(range(config.rows))))",
    ),
    "columns of weights are reversed": Bug(
        "mxu",
        "skew.i.eq(edge.o_words)",
        "skew.i.eq(edge.o_words if edge is activation_edge else"
        " Cat(edge.o_words.word_select(column, config.weight_width) for column in reversed(range(config.columns))))",
    ),
    "sums start from -0": Bug("mxu", "array.i_psums.eq(0)", "array.i_psums.eq(1 << 31)"),
    "a beat that waits is overwritten": Bug(
        "admission", "self.o_activations_ready.eq(self.o_go | ~activations)", "self.o_activations_ready.eq(1)"
    ),
    "words that wait are overwritten": Bug("edge", "m.If(taken)", "m.If(1)"),
    "activation and weight are exchanged": Bug(
        "pe",
        "Cat(sides[0]).eq(activation),\n            Cat(sides[1]).eq(active)",
        "Cat(sides[1]).eq(activation),\n            Cat(sides[0]).eq(active)",
    ),
    "the first tile is added": Bug("accumulator", "Mux(control.add, kept, self._start(m))", "kept"),
    "a sum is written a place too far": Bug("accumulator", "new.addr.eq(write[:-1])", "new.addr.eq(write[:-1] + 1)"),
    "another mark clears NaN": Bug("accumulator", "control.clear_nan & is_nan", "control.last & is_nan"),
    "a refused result is dropped": Bug(
        "accumulator", "(waiting != 0) & (self.i_ready | ~self.o_valid)", "waiting != 0"
    ),
    "a result leaves before it is written": Bug(
        "accumulator", "leaving, self.config.write_latency,", "leaving, self.config.write_latency - 1,"
    ),
    "weights that wait for their tile are forgotten": Bug(
        "admission", "(loaded | complete) & ~entering", "loaded & ~entering"
    ),
    "a result that nobody takes is withdrawn": Bug("accumulator", "m.If(self.o_fetch | self.i_ready)", "m.If(1)"),
    "sums that stay are emitted": Bug(
        "accumulator", "self.i_control.valid & self.i_control.emit", "self.i_control.valid"
    ),
    "marks are read where no beat leaves": Bug(
        "admission", 'given.eq(self.o_go & marks["emit"])', 'given.eq(marks["emit"])'
    ),
    "marks are read where no beat is": Bug("admission", "m.If(self.i_activations)", "m.If(1)"),
    "nothing is taken unless something leaves": Bug(
        "admission", "self.o_activations_ready.eq(self.o_go | ~activations)", "self.o_activations_ready.eq(self.o_go)"
    ),
    "last comes from another beat": Bug("accumulator", "mark_in.data.eq(last)", "mark_in.data.eq(self.i_control.last)"),
    "results go where their tile says": Bug(
        "admission",
        """place.eq(head + ahead), limit.eq(depth - ahead)]
            with m.If(self.i_activations):
                m.d.sync += [head.eq(head + self.i_emit), row.eq(Mux(self.i_last, 0, ahead + 1))]
""",
        """place.eq(head + Mux(self.i_first, 0, row)), limit.eq(depth - ahead)]
            with m.If(self.i_activations):
                m.d.sync += row.eq(Mux(self.i_first, 0, row) + 1)
                with m.If(self.i_last & self.i_emit):
                    m.d.sync += head.eq(head + Mux(self.i_first, 0, row) + 1)
""",
        longest_sum=1,
        mistakes=1,
    ),
    "a mistake is told when its beat enters the array": Bug(
        "mxu",
        """            *(getattr(status, f"i_{mark}").eq(self.activations.payload[mark]) for mark in MARKS),
""",
        """        ]
        waiting = {mark: Signal() for mark in MARKS}
        with m.If(admission.o_activations_taken):
            m.d.sync += [waiting[mark].eq(self.activations.payload[mark]) for mark in MARKS]
        m.d.comb += [
            *(getattr(status, f"i_{mark}").eq(waiting[mark]) for mark in MARKS),
            status.i_activations_valid.eq(admission.o_go),
            status.i_activations_ready.eq(1),
""",
        longest_sum=1,
        mistakes=1,
    ),
}
"""Bugs, by a description of each."""


def seeded(bug: Bug) -> Callable[[MxuConfig], Any]:
    """Return a function that makes a unit with ``bug``, for :func:`~openmxu_evidence.exploration.explore`."""
    originals = {name: importlib.import_module(name) for name in _MODULES}
    copies = {}
    try:
        for name in _MODULES:
            source = inspect.getsource(originals[name])
            if name.rpartition(".")[2] == bug.module:
                if source.count(bug.right) != 1:
                    raise ValueError(
                        f"right must stand exactly once in {name}, not {source.count(bug.right)} times: {bug.right!r}"
                    )
                source = source.replace(bug.right, bug.wrong)
            # The copies that follow import this one.
            copies[name] = sys.modules[name] = ModuleType(name)
            vars(copies[name]).update(Cat=Cat, Signal=Signal)  # for bugs that need them
            exec(compile(source, f"<{name} with a bug>", "exec"), copies[name].__dict__)
    finally:
        sys.modules.update(originals)

    def unit(config: MxuConfig) -> Any:
        fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        return copies["openmxu.unit.mxu"].Mxu(copies["openmxu.spec.config"].MxuConfig(**fields))

    return unit
