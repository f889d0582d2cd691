"""Where beats go in the accumulator bank, whatever their marks say: the rule of the reference of streams."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from openmxu.spec.config import MxuConfig
from openmxu.unit.admission import Admission

from ..conftest import clocked

_DEPTH = 4


def _places(beats: Iterable[tuple[int, int, int]]) -> Iterator[int]:
    """The place in the bank of each beat, of which ``first``, ``last`` and ``emit`` are given."""
    head = 0  # the first place of the sums that are being built
    place: int | None = None  # of the beat before, unless it was emitted; none after a tile's end
    emitted = False
    for first, last, emit in beats:
        if emit:
            yield head
            head = (head + 1) % _DEPTH
        else:
            place = 0 if first or place is None else 1 if emitted else place + 1
            yield (head + place) % _DEPTH
        place, emitted = (None if last else place or 0), bool(emit)


def test_all_marks_in_all_orders() -> None:
    """Of four beats; one behind the other, so that each order follows on many others."""
    orders = itertools.product(itertools.product((0, 1), repeat=3), repeat=4)
    beats = [*itertools.chain.from_iterable(orders)]
    dut = Admission(MxuConfig(rows=1, columns=1, depth=_DEPTH))
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.i_weights, 1)
        ctx.set(dut.i_activations, 1)
        for first, last, emit in beats:
            for mark, value in (("first", first), ("last", last), ("emit", emit)):
                ctx.set(getattr(dut, f"i_{mark}"), value)
            taken = False
            while not taken:
                go = ctx.get(dut.o_go)
                if go:
                    found.append(ctx.get(dut.o_control.row))
                taken = ctx.get(dut.o_activations_ready)
                ctx.set(dut.i_freed, go & ctx.get(dut.o_control.emit))  # the bank reads each result at once
                await ctx.tick()

    clocked(dut, bench)
    assert found == list(_places(beats))[: len(found)]
    assert len(found) >= len(beats) - 1
