"""What a network costs: the same as what each of its products costs by itself."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openmxu.area.finding.units import UnitEnergy
from openmxu.spec.config import MxuConfig
from openmxu_sim import golden, simulate
from openmxu_sim.networks.costs import Ledger, Losses, losses, three_digits
from openmxu_sim.networks.numerics import Numerics, Product, Work
from openmxu_sim.operands import vectors


def _ledger(side: int = 4, *works: Work, columns: int = 0, stages: int = 1, **numerics: Any) -> Ledger:
    unit = MxuConfig(rows=side, columns=columns or side, stages=stages)
    ledger = Ledger(unit, Numerics(rows=side, **numerics))
    for work in works:
        ledger.note(work)
    return ledger


def _product(a: list[float], b: list[float], **numerics: Any) -> Product:
    """A product of two vectors."""
    left, right = np.float32([[a]]), np.float32([[[value] for value in b]])
    return Product(1, 1, len(a), 1, Numerics(**numerics), left, right, left @ right)


@pytest.mark.parametrize("subnormals", ["flush", "ieee"])
@pytest.mark.parametrize("operand", ["bf16", "fp16", "tf32", "fp8_e4m3", "fp8_e5m2", "e2f1", "e8f23"])
def test_losses(operand: str, subnormals: str) -> None:
    """As counted on the converted patterns themselves, of every sort, and all over the range."""
    everywhere = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate([vectors.operands("fp32", 20000, 5), everywhere])
    converted = golden.convert(bits, "fp32", operand, subnormals=subnormals)
    after = golden.from_bits(golden.convert(converted, operand, "fp32", subnormals="ieee"))
    before = golden.from_bits(bits)
    there = np.isfinite(before) & (before != 0)
    expected = Losses(int(there.sum()), int((there & (after == 0)).sum()), int((there & ~np.isfinite(after)).sum()))
    assert losses(before, operand, subnormals) == expected
    assert expected.overflowed > 0 or operand == "e8f23"


def test_bounds_are_exact() -> None:
    """bf16: half of the last place beyond the largest number, and the smallest normal number."""
    largest = np.float32((2 - 2.0**-7) * 2.0**127)
    rounds = np.nextafter(largest + np.float32(2.0**119), np.float32(0), dtype=np.float32)
    array = np.array([rounds, np.nextafter(rounds, np.float32(np.inf)), 2.0**-126, 2.0**-127, 0, np.inf, np.nan], "f4")
    assert losses(array, "bf16", "flush") == Losses(operands=4, flushed=1, overflowed=1)
    assert losses(array, "bf16", "ieee") == Losses(operands=4, flushed=0, overflowed=1)


@pytest.mark.parametrize("precision", ["default", "highest"])
def test_costs_are_those_of_products(precision: str) -> None:
    unit: dict[str, Any] = {"columns": 3, "stages": 2, "precision": precision}
    costs = _ledger(4, *[Work("mm", 1, 5, 9, 7, "first")] * 2, Work("bmm", 3, 6, 4, 3), **unit).costs()
    single, stack = (
        simulate(np.ones(a, "f4"), np.ones(b, "f4"), rows=4, engine="golden", **unit).statistics
        for a, b in (((5, 9), (9, 7)), ((3, 6, 4), (3, 4, 3)))
    )
    for row, times, found in zip(costs.rows, (2, 1), (single, stack), strict=True):
        assert row.times == times
        assert row.cycles == times * found.cycles
        assert row.utilisation == pytest.approx(found.utilisation, rel=1e-12)
        for name in ("weight_bytes", "activation_bytes", "result_bytes"):
            assert getattr(row, name) == times * getattr(found, name)
        assert row.losses is None
    assert costs.cycles == 2 * single.cycles + stack.cycles
    useful = (2 * 5 * 9 * 7 + 3 * 6 * 4 * 3) * single.passes
    assert costs.utilisation == pytest.approx(useful / (12 * costs.cycles), rel=1e-12)


def test_what_is_said() -> None:
    ledger, work = _ledger(operand="fp16"), Work("mm", 1, 2, 3, 4, "a|layer")
    ledger.note(work, _product([1, 1e-9], [1e9, 0], operand="fp16"))
    ledger.note(work, _product([0], [0], operand="fp16"))
    costs = ledger.costs()
    plain = costs.as_dict()
    [row] = plain["layers"]
    assert {"layer": "a|layer", "operator": "mm", "m": 2, "k": 3, "n": 4, "times": 2}.items() <= row.items()
    assert row["losses"] == {"operands": 3, "flushed": 1, "overflowed": 1}
    assert (plain["cycles"], plain["cycles_source"]) == (row["cycles"], "formula")
    assert plain["unit"]["rows"] == 4
    assert plain["numerics"]["operand"] == "fp16"
    assert f"| a\\|layer | mm | 2 | 1 | 2 | 3 | 4 | {row['cycles']:,} |" in costs.to_markdown(), "a name ends no cell"
    assert costs.to_markdown().endswith("| 1 | 1 |")


@pytest.mark.parametrize(
    ("sizes", "side", "words", "megabytes"),
    [
        # Nothing is padded; activations come once for each 128 columns of weights.
        ((256, 512, 512), 128, 512 * 512 + 4 * 256 * 512 + 256 * 512, "3.67"),
        ((4, 4, 4), 4, 3 * 4 * 4, "0.000192"),
    ],
)
def test_megabytes(sizes: tuple[int, int, int], side: int, words: int, megabytes: str) -> None:
    """A million bytes each; a word of fp32 has four."""
    assert f"{4 * words / 10**6:.3g}" == megabytes
    assert f"% | {megabytes} |" in _ledger(side, Work("mm", 1, *sizes)).costs().to_markdown()


def test_energies_by_hand() -> None:
    """24 products of 6 pJ, and what 4 elements do in the cycles without: 1 pJ each."""
    ledger = _ledger(2, Work("mm", 1, 3, 2, 2, "first"), Work("mm", 1, 3, 2, 2, "second"))
    costs = replace(ledger.costs(), energy=UnitEnergy("lib", "area", "bf16", 2, 2, elements=4.0, around=2.0, idle=1.0))
    cycles = costs.rows[0].cycles
    each = (12 * 6.0 + (4 * cycles - 12) * 1.0) / 1e9
    assert costs.millijoules == pytest.approx(2 * each)
    plain = costs.as_dict()
    assert [row["millijoules"] for row in plain["layers"]] == pytest.approx([each, each])
    assert plain["energy"]["millijoules"] == pytest.approx(2 * each)
    assert plain["energy"]["elements"] == 4.0
    text = costs.to_markdown()
    assert f" {2 * each:.3g} mJ, derived: parts mapped to lib take 6.0 pJ for a product and 1.0 pJ where" in text
    assert text.count(f" {each:.3g} |") == 2


def test_figures_have_three_digits() -> None:
    assert " ".join(map(three_digits, (1234567.8, 99.96, 1.2345, 4.5e-7))) == "1,234,568 100 1.23 4.5e-07"


def test_nothing_was_asked_for() -> None:
    """Neither products, nor energies of a library."""
    costs = _ledger().costs()
    assert (costs.cycles, costs.utilisation, costs.rows, costs.millijoules) == (0, 0, (), None)
    assert "energy" not in costs.as_dict()
    assert "mJ" not in costs.to_markdown()


def test_threads_share_a_ledger() -> None:
    ledger, work = _ledger(), Work("mm", 1, 2, 3, 4)
    tiny = _product([1e-40], [0])
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(lambda: [ledger.note(work, tiny) for _ in range(500)])
    assert ledger.work[work] == 2000
    assert ledger.losses[work].flushed == 2000
