"""Loops of counters against loops of Python."""

import itertools
from typing import Any

import numpy as np
import pytest

from openmxu.accelerator import loop
from openmxu.accelerator.loop import STEP, TRIPS, Loop
from openmxu_evidence.formal.query import Proof, confirm, prove
from openmxu_evidence.formal.specification import Operation

from ...clocked import clocked


@pytest.mark.parametrize("levels", [1, 3, 6])
def test_any_loops(levels: int) -> None:
    """Random trips and strides, negative ones among them, with pauses; one loop after another."""
    rng = np.random.default_rng(levels)
    dut = Loop(levels)

    async def walk(ctx: Any) -> None:
        for _ in range(12):
            trips, strides = rng.integers(1, 4, levels).tolist(), rng.integers(-500, 500, levels).tolist()
            base = int(rng.integers(0, 1 << 16))
            inner = [(count - 1) * stride for count, stride in zip(trips, strides, strict=True)]
            for level in range(levels):
                step = (strides[level] - sum(inner[:level])) % (1 << STEP)
                ctx.set(dut.i_levels[level], {"trips": trips[level], "step": step})
            ctx.set(dut.i_base, base)
            ctx.set(dut.i_begin, 1)
            await ctx.tick()
            ctx.set(dut.i_begin, 0)
            for indices in itertools.product(*(range(count) for count in reversed(trips))):
                at = indices[::-1]
                while rng.random() < 0.3:
                    await ctx.tick()
                expected = base + sum(index * stride for index, stride in zip(at, strides, strict=True))
                assert ctx.get(dut.o_address) == expected % (1 << STEP)
                lasts = [index == count - 1 for index, count in zip(at, trips, strict=True)]
                assert ctx.get(dut.o_last) == sum(last << level for level, last in enumerate(lasts))
                ctx.set(dut.i_next, 1)
                await ctx.tick()
                ctx.set(dut.i_next, 0)

    clocked(dut, walk)


def _next(levels: int) -> Operation:
    """The next iteration of nested loops: the innermost level that has trips left advances, inner ones begin again."""
    word, count = f"(_ BitVec {STEP})", f"(_ BitVec {TRIPS})"
    lefts = " ".join(f"(left_{level} {count})" for level in range(levels))
    lines = [
        f"(define-fun next ((levels (_ BitVec {levels * (TRIPS + STEP)})) (address {word}) {lefts}",
        f"  (o (_ BitVec {STEP + levels * TRIPS}))) Bool (or",
    ]
    for chosen in range(levels):
        fields = [f"((_ extract {32 * level + TRIPS - 1} {32 * level}) levels)" for level in range(chosen)]
        step = f"((_ extract {32 * chosen + 31} {32 * chosen + TRIPS}) levels)"
        inner = " ".join(f"(= left_{level} (_ bv0 {TRIPS}))" for level in range(chosen))
        after = [f"(bvsub {field} (_ bv1 {TRIPS}))" for field in (*fields, f"left_{chosen}")]
        after += [f"left_{level}" for level in range(chosen + 1, levels)]
        moved = f"(= o (concat (bvadd address {step}) {' '.join(after)}))"
        lines.append(f"  (and {inner} (distinct left_{chosen} (_ bv0 {TRIPS})) {moved})")
    more = " ".join(f"(distinct x{level + 2} (_ bv0 {TRIPS}))" for level in range(levels))
    return Operation("next", "\n".join([*lines, "))\n"]), given=f"(or {more} false)")


def _proof(levels: int) -> Proof:
    state = ("o_address", *(f"left_{level}" for level in range(levels)))
    ends = tuple((name, 0) for name in ("i_levels", *state)), tuple((name, 1) for name in state)
    given = (("i_begin", 0, 0), ("i_next", 0, 1), ("rst", 0, 0))
    said = "address and trips left, a cycle later"
    return Proof(f"loop_{levels}_next", said, Loop(levels), _next(levels), *ends, given=given)


@pytest.mark.parametrize("solver", ["bitwuzla", "z3"])
def test_nested_loops_are_proven(solver: str) -> None:
    """Any trips, strides and indices of six levels: by induction, all their addresses."""
    assert confirm(_proof(6), solver)
    assert prove(_proof(6), solver).holds


def test_a_level_that_does_not_begin_again_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "Mux", lambda last, first, less: less)
    assert prove(_proof(3), "bitwuzla").holds is False
