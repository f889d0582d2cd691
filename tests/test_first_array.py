"""The tutorial "From a multiplier to the wavefront": its array, and the solutions of its exercises, beside golden."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator

from openmxu_sim import golden
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands import vectors

from .bits import same_bits

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parent.parent / "docs" / "examples"))
    first, solutions = (importlib.import_module(name) for name in ("first_array", "first_array_solutions"))


def _product(a: Bits, b: Bits, fmt: str = "bf16") -> Bits:
    """What a column gives: products in ascending order, from +0 on."""
    left, right = (golden.from_bits(bits, fmt) for bits in (a, b))
    return golden.to_bits(golden.matmul(left, right, rows=len(b), operand=fmt))


@pytest.mark.parametrize(("rows", "columns", "beats"), [(1, 2, 3), (3, 1, 5)])
def test_array(rows: int, columns: int, beats: int) -> None:
    a, b = vectors.matrix((beats, rows), "bf16", 1), vectors.matrix((rows, columns), "bf16", 2)
    note = f"{rows}x{columns}, seeds 1, 2"
    same_bits(first.multiply(first.Array(rows, columns), a, b), _product(a, b), note=note)
    pipelined = first.Array(rows, columns, solutions.Pipelined)
    same_bits(first.multiply(pipelined, a, b, depth=2), _product(a, b), note=note)
    unskewed = first.multiply(first.Array(rows, columns), a, b, skew=0)
    same_bits(unskewed, _product(solutions.unskewed(a), b), note=note)


def test_narrow() -> None:
    a, b = vectors.matrix((6, 2), "fp8_e4m3", 3), vectors.matrix((2, 1), "fp8_e4m3", 4)
    same_bits(first.multiply(first.Array(2, 1, solutions.Narrow), a, b), _product(a, b, "fp8_e4m3"), note="seeds 3, 4")


def test_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0

    class Counted(Simulator):
        def run(self) -> None:
            async def count(ctx: Any) -> None:
                nonlocal ticks
                async for _ in ctx.tick():
                    ticks += 1

            self.add_process(count)
            super().run()

    monkeypatch.setattr(first, "Simulator", Counted)
    first.multiply(first.Array(2, 1), vectors.matrix((5, 2), "bf16", 1), vectors.matrix((2, 1), "bf16", 2))
    assert ticks == solutions.cycles(2, 1, 5)
