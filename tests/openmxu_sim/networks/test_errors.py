"""Errors of products: measured on cases that can be computed by hand, and shown side by side."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu_sim.networks import errors_report
from openmxu_sim.networks.costs import Ledger
from openmxu_sim.networks.errors import Errors, measure
from openmxu_sim.networks.numerics import Numerics, Product, Work


def _product(result: list[float], a: tuple[float, ...] = (3, 4), operand: str = "bf16") -> Product:
    """3 and 4 times 1, and what a unit made of it."""
    left, right = np.float32([[[value] for value in a]]), np.float32([[[1]]])
    return Product(1, 2, 1, 1, Numerics(operand), left, right, np.float32(result).reshape(1, 2, 1))


def test_measures_by_hand() -> None:
    errors = measure(_product([3, 5]), 3, 1)
    assert errors == Errors(25.0, 1.0, 0.25, 2, 0, 3, 1)
    assert errors.sqnr == pytest.approx(10 * math.log10(25))
    assert errors.share_lost == pytest.approx(1 / 3)
    assert measure(_product([3, 4]), 3, 0).sqnr == math.inf
    assert measure(_product([3, np.inf]), 3, 0) == Errors(9.0, 0.0, 0.0, 2, 1, 3, 0)
    assert measure(_product([1, 1], a=(0, 0)), 3, 0).sqnr == -math.inf
    assert measure(_product([1, np.nan], a=(1, np.nan)), 3, 0).overflowed == 0, "what the operands had is no error"
    assert (Errors() + errors) + errors == Errors(50.0, 2.0, 0.25, 4, 0, 6, 2)


def _rows(results: list[list[float]], operand: str = "bf16") -> list[dict[str, Any]]:
    """Errors of a step for each result."""
    ledger = Ledger(MxuConfig(rows=4, columns=4), Numerics(rows=4))
    for result in results:
        ledger.note(Work("mm", 1, 2, 1, 1, "a|b", "forward"), _product(result, operand=operand), errors=True)
        ledger.step += 1
    return ledger.errors_by_step()


def test_side_by_side(tmp_path: Path) -> None:
    units = {"bf16": _rows([[3, 5], [3, 4.5]]), "e4f3": _rows([[3, 4], [3, 4]], "fp8_e4m3")}
    text = errors_report.to_markdown(units)
    ratio = 10 * math.log10(50 / 1.25)
    assert f"| a\\|b | mm | forward | 1 | 1 | {ratio:.1f} | inf |" in text
    assert "| a\\|b | mm | forward | 1 | 1 | 0.25 | 0 |" in text
    assert f"| 1 | {10 * math.log10(25 / 0.25):.1f} | inf |" in text
    errors_report.write_page(tmp_path / "page.html", "Errors & more", units)
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Errors &amp; more</h1>" in page
    assert f"<td>{ratio:.1f}</td>" in page.replace(' style="text-align:right"', "")


def test_lines(tmp_path: Path) -> None:
    rows = _rows([[3, 5], [3, 4]])
    errors_report.write_lines(tmp_path / "e.jsonl", rows)
    first, second = map(json.loads, (tmp_path / "e.jsonl").read_text().splitlines())
    assert first == rows[0]
    assert (second["sqnr_db"], second["step"]) == (None, 1)


def test_scalars() -> None:
    class Writer:
        def __init__(self) -> None:
            self.seen: list[tuple[Any, ...]] = []

        def add_scalar(self, *scalar: Any) -> None:
            self.seen.append(scalar)

    writer, rows = Writer(), _rows([[3, 5], [3, 4]])
    errors_report.log_scalars(writer, rows, prefix="run")
    assert writer.seen == [
        ("sqnr_db/run/a|b/mm/forward/1x1", rows[0]["sqnr_db"], 0),
        ("lost/run/a|b/mm/forward/1x1", 0.0, 0),
        ("lost/run/a|b/mm/forward/1x1", 0.0, 1),
    ]


def test_scalars_of_tensorboard(tmp_path: Path) -> None:
    """Its own writer takes them, and its own reader gives them back."""
    tensorboard = pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    assert tensorboard
    writers = pytest.importorskip("torch.utils.tensorboard")
    readers = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    rows = _rows([[3, 5], [3, 4.5]])
    with writers.SummaryWriter(str(tmp_path)) as writer:
        errors_report.log_scalars(writer, rows)
    reader = readers.EventAccumulator(str(tmp_path))
    reader.Reload()
    scalars = reader.Scalars("sqnr_db/a|b/mm/forward/1x1")
    assert [(scalar.step, scalar.value) for scalar in scalars] == [
        (step, pytest.approx(row["sqnr_db"])) for step, row in enumerate(rows)
    ]
