"""Rigid pipelines whose every input changes in every cycle, with all stages: each result is that without registers."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.hdl import Shape

from openmxu import arith
from openmxu.arith import Adder, BlockMultiplyAdd, Converter, DotProductAdd, Multiplier, MultiplyAdd
from openmxu.arith.datapath.pipeline import Rigid
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8
from openmxu.spec.formats import BF16, FP8_E4M3, FP16, FP32
from openmxu.spec.stages import STAGES

from ...clocked import clocked, give
from ...conftest import slow

_COUNT = 16

Rows = list[dict[str, int]]

_CASES: dict[str, tuple[partial[Any], int]] = {
    "adder": (partial(Adder, BF16), max(Adder.CUTS)),
    "converter": (partial(Converter, FP32, FP16, stochastic=True), max(Converter.CUTS)),
    "multiplier": (partial(Multiplier, FP16, BF16), max(Multiplier.CUTS)),
    "product and sum": (partial(MultiplyAdd, FP16, weight=FP8_E4M3, stochastic=True), max(STAGES)),
    "products": (partial(DotProductAdd, FP16, weight=FP8_E4M3, terms=2), max(STAGES)),
    "scaled products": (partial(DotProductAdd, MXFP8, terms=2, scaled=True), max(STAGES)),
    "integers": (partial(BlockMultiplyAdd, BLOCK_FORMATS["int8"], terms=2), 2),
    "blocks": (partial(BlockMultiplyAdd, BLOCK_FORMATS["nvfp4"], terms=1), max(STAGES)),
}
"""Components, and the most stages that they can have."""


def _after(dut: Any, name: str) -> int:
    """Cycles from an input to the result."""
    noise = min(dut.stages, 1)
    return {"i_c": getattr(dut, "addend_latency", 0), "i_noise": noise}.get(name, dut.latency)


def _drawn(dut: Any) -> Rows:
    """Any words, but addends that are not much larger or smaller than products without scales."""
    rng = np.random.default_rng(1)
    inputs = {name: Shape.cast(port.shape) for name, port in dut.signature.members.items() if name.startswith("i")}
    rows = [{name: int(rng.integers(1 << shape.width)) for name, shape in inputs.items()} for _ in range(_COUNT)]
    for row in rows:
        if "i_c" in row:
            row["i_c"] = row["i_c"] & 0x807F_FFFF | int(rng.integers(120, 136)) << 23
    return rows


def _results(dut: Any, rows: Rows) -> npt.NDArray[Any]:
    """The results of a component that is given a row in each cycle, each of its inputs when it is due."""
    seen: list[int] = []

    async def testbench(ctx: Any) -> None:
        for cycle in range(len(rows) + dut.latency):
            due = {name: cycle - dut.latency + _after(dut, name) for name in rows[0]}
            give(ctx, [getattr(dut, name) for name in due], [rows[at % len(rows)][name] for name, at in due.items()])
            if dut.stages:
                *_, result = await ctx.tick().sample(dut.o)
            else:
                await ctx.delay(1e-6)
                result = ctx.get(dut.o)
            seen.append(result)

    clocked(dut, testbench)
    return np.array(seen[dut.latency :])


_LAST = [(name, case[1]) for name, case in _CASES.items()]
"""With all registers: what is read behind one of them, and not from it, is wrong there."""


@pytest.mark.parametrize(
    ("name", "stages"), [*_LAST, *(slow(name, stages) for name, last in _LAST for stages in range(1, last))]
)
def test_every_input_in_every_cycle(name: str, stages: int) -> None:
    make, _ = _CASES[name]
    dut = make()
    rows = _drawn(dut)
    late = [row | {port: before[port]} for port in rows[0] for row, before in zip(rows, rows[-1:] + rows, strict=False)]
    expected, *others = np.split(_results(dut, rows + late), len(rows[0]) + 1)
    assert all((other != expected).any() for other in others)  # an input that comes a cycle late is seen
    assert (_results(make(stages=stages), rows) == expected).all()


def test_all_of_them_are_here() -> None:
    kinds = {kind for kind in vars(arith).values() if isinstance(kind, type) and issubclass(kind, Rigid)}
    assert kinds == {make.func for make, _ in _CASES.values()}
