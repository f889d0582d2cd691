"""What a network costs: as its products do by themselves; and errors, on cases that can be computed by hand."""

import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import ml_dtypes
import numpy as np
import pytest

from openmxu.area.finding.units import UnitEnergy
from openmxu.spec.config import MxuConfig
from openmxu_sim import golden, simulate
from openmxu_sim.networks import errors_report
from openmxu_sim.networks.costs import Ledger, Losses, losses, three_digits
from openmxu_sim.networks.errors import Errors, measure
from openmxu_sim.networks.numerics import Numerics, Product, Work
from openmxu_sim.operands import vectors


def _ledger(side: int = 4, *works: Work, columns: int = 0, stages: int = 1, **numerics: Any) -> Ledger:
    unit = MxuConfig(rows=side, columns=columns or side, stages=stages)
    ledger = Ledger(unit, Numerics(rows=side, **numerics))
    for work in works:
        ledger.note(work)
    return ledger


def _product(a: list[float], b: list[float], **numerics: Any) -> Product:
    left, right = np.float32([[a]]), np.float32([[[value] for value in b]])
    return Product(1, 1, len(a), 1, Numerics(**numerics), left, right, left @ right)


@pytest.mark.parametrize("operand", ["bf16", "fp16", "tf32", "fp8_e4m3", "fp8_e5m2", "e2f1", "e8f23"])
def test_losses(operand: str, mode: str) -> None:
    everywhere = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate([vectors.operands("fp32", 20000, 5), everywhere])
    converted = golden.convert(bits, "fp32", operand, subnormals=mode)
    after = golden.from_bits(golden.convert(converted, operand, "fp32", subnormals="ieee"))
    before = golden.from_bits(bits)
    there = np.isfinite(before) & (before != 0)
    expected = Losses(int(there.sum()), int((there & (after == 0)).sum()), int((there & ~np.isfinite(after)).sum()))
    assert losses(before, operand, mode) == expected
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
        assert (row.times, row.losses) == (times, None)
        assert row.utilisation == pytest.approx(found.utilisation, rel=1e-12)
        for name in ("cycles", "weight_bytes", "activation_bytes", "result_bytes"):
            assert getattr(row, name) == times * getattr(found, name)
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
    """A million bytes each, with three digits; a word of fp32 has four."""
    assert " ".join(map(three_digits, (1234567.8, 99.96, 1.2345, 4.5e-7))) == "1,234,568 100 1.23 4.5e-07"
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


def test_nothing_was_asked_for() -> None:
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


# Errors


def _made(result: list[float], a: tuple[float, ...] = (3, 4), operand: str = "bf16") -> Product:
    left, right = np.float32([[[value] for value in a]]), np.float32([[[1]]])
    return Product(1, 2, 1, 1, Numerics(operand), left, right, np.float32(result).reshape(1, 2, 1))


def test_errors_by_hand() -> None:
    errors = measure(_made([3, 5]), 3, 1)
    assert errors == Errors(25.0, 1.0, 0.25, 2, 0, 3, 1)
    assert errors.sqnr == pytest.approx(10 * math.log10(25))
    assert errors.share_lost == pytest.approx(1 / 3)
    assert measure(_made([3, 4]), 3, 0).sqnr == math.inf
    assert measure(_made([3, np.inf]), 3, 0) == Errors(9.0, 0.0, 0.0, 2, 1, 3, 0)
    assert measure(_made([1, 1], a=(0, 0)), 3, 0).sqnr == -math.inf
    assert measure(_made([1, np.nan], a=(1, np.nan)), 3, 0).overflowed == 0, "what the operands had is no error"
    assert (Errors() + errors) + errors == Errors(50.0, 2.0, 0.25, 4, 0, 6, 2)


def _rows_of(results: list[list[float]], operand: str = "bf16") -> list[dict[str, Any]]:
    ledger = Ledger(MxuConfig(rows=4, columns=4), Numerics(rows=4))
    for result in results:
        ledger.note(Work("mm", 1, 2, 1, 1, "a|b", "forward"), _made(result, operand=operand), errors=True)
        ledger.step += 1
    return ledger.errors_by_step()


def test_errors_side_by_side(tmp_path: Path) -> None:
    units = {"bf16": _rows_of([[3, 5], [3, 4.5]]), "e4f3": _rows_of([[3, 4], [3, 4]], "fp8_e4m3")}
    text = errors_report.to_markdown(units)
    ratio = 10 * math.log10(50 / 1.25)
    assert f"| a\\|b | mm | forward | 1 | 1 | {ratio:.1f} | inf |" in text
    assert "| a\\|b | mm | forward | 1 | 1 | 0.25 | 0 |" in text
    assert f"| 1 | {10 * math.log10(25 / 0.25):.1f} | inf |" in text
    errors_report.write_page(tmp_path / "page.html", "Errors & more", units)
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Errors &amp; more</h1>" in page
    assert f"<td>{ratio:.1f}</td>" in page.replace(' style="text-align:right"', "")


def test_lines_and_scalars_of_errors(tmp_path: Path) -> None:
    rows, writer = _rows_of([[3, 5], [3, 4]]), Mock()
    errors_report.write_lines(tmp_path / "e.jsonl", rows)
    first, second = map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines())
    assert first == rows[0]
    assert (second["sqnr_db"], second["step"]) == (None, 1)
    errors_report.log_scalars(writer, rows, prefix="run")
    assert writer.mock_calls == [
        call.add_scalar("sqnr_db/run/a|b/mm/forward/1x1", rows[0]["sqnr_db"], 0),
        call.add_scalar("lost/run/a|b/mm/forward/1x1", 0.0, 0),
        call.add_scalar("lost/run/a|b/mm/forward/1x1", 0.0, 1),
    ]


def test_errors_in_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    writers = pytest.importorskip("torch.utils.tensorboard")
    readers = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    rows = _rows_of([[3, 5], [3, 4.5]])
    with writers.SummaryWriter(str(tmp_path)) as writer:
        errors_report.log_scalars(writer, rows)
    reader = readers.EventAccumulator(str(tmp_path))
    reader.Reload()
    scalars = reader.Scalars("sqnr_db/a|b/mm/forward/1x1")
    assert [scalar.step for scalar in scalars] == [0, 1]
    assert [scalar.value for scalar in scalars] == pytest.approx([row["sqnr_db"] for row in rows])


# Formats by the names that frameworks have for them


with suppress(ImportError):
    import jax.numpy  # noqa: F401  # before any test: it sets variables of the environment

NAMES = ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4"]


@pytest.mark.parametrize("name", NAMES)
def test_types_of_ml_dtypes(name: str) -> None:
    given = getattr(ml_dtypes, name, None) or getattr(np, name)
    found = {Numerics(operand=each, accumulate=each).checked() for each in (name, given, np.dtype(given))}  # type: ignore[arg-type]
    assert len(found) == 1
    fmt = found.pop().operand
    if fmt == "fp32":
        return
    bits = np.arange(1 << 8 * np.dtype(given).itemsize, dtype=np.uint32)
    values = golden.from_bits(golden.convert(bits, fmt, "fp32", subnormals="ieee"))
    expected = bits.astype(f"u{np.dtype(given).itemsize}").view(given).astype(np.float32)
    assert np.array_equal(values, expected, equal_nan=True)


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
@pytest.mark.parametrize("name", NAMES)
def test_types_of_frameworks(framework: str, name: str) -> None:
    there = pytest.importorskip(framework, reason=f"{framework} is not installed: make setup-models")
    given: Any = getattr(there, name, None)
    if given is not None:  # PyTorch has fewer
        assert Numerics(operand=given).checked() == Numerics(operand=name).checked()


@pytest.mark.parametrize(
    ("names", "ours"),
    [("half", "fp16"), ("float", "fp32"), ("e4m3 e4m3fn", "fp8_e4m3"), ("e5m2", "fp8_e5m2"), ("e5f9", "e5f9")],
)
def test_other_names(names: str, ours: str) -> None:
    assert {Numerics(operand=name).checked().operand for name in names.split()} == {ours}


@pytest.mark.parametrize("given", ["float64", "bfloat", "torch.bfloat16", "e4m4", "", None, 3, float, np.int8, [], ()])
def test_no_formats(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^operand must be [\s\S]*not {re.escape(repr(given))}$"):
        Numerics(operand=given).checked()
