"""The benchmark measures what it says, refuses wrong results, and says what it left out."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu_sim.engines import compiled
from openmxu_sim.engines.protocol import Run
from openmxu_studies.speed import Report, bench, benchmark, compare, measure, to_markdown
from openmxu_studies.speed.measure import ROW_ENGINE, Clocked, Ratio, Trained, Whole
from openmxu_studies.speed.speed_plot import to_svg

from ..conftest import Said, needs_compiler, ran

pytestmark = needs_compiler

FAST = Clocked("compiled", 128, 1, 1.0, 8653, 0.25, 3, 60.0)
FULL = Report(
    *("2026-01-01", "a machine", 600.0, {"C compiler": "gcc 12", "numpy": "2"}),
    (
        replace(FAST, size=16, cycles=8245, seconds=0.01),
        FAST,
        replace(FAST, threads=2, seconds=0.125),
        replace(FAST, size=256, cycles=8909, seconds=1.5),
        replace(FAST, engine=ROW_ENGINE, seconds=50.0),
    ),
    (Whole("compiled", 1.5, 0.6, 50.0),),
    (
        Ratio(512, 512, 512, "bf16", "fp32", 1, 0.5, 0.1, "Zen"),
        Ratio(32, 64, 64, "bf16", "fp32", 1, 3e-5, 4e-6),
        Ratio(1024, 1024, 1024, "bf16", "fp32", 1, 2.0, 1.2),
        Ratio(1024, 1024, 1024, "fp16", "fp32", 1, 2.1, 1.2),
        Ratio(1024, 1024, 1024, "bf16", "bf16", 1, 14.0, 1.2),
        Ratio(1024, 1024, 1024, "bf16", "fp32", 2, 1.0, 1.2),
    ),
    ("pysim left out",),
    (Trained("ResNet18", 1, 0.4, 0.2, 9), Trained("ResNet18", 2, 0.3, 0.1, 9)),
)


def test_figures() -> None:
    assert ", ".join(f"{figure.value} {figure.reached}" for figure in FULL.figures()) == (
        "200 x minimum, 34612 minimum, 69224 aim, 0.60 minimum, 1.50 aim, 1.84 x aim, "
        "0.20 x no, 0.60 x minimum, 30 minimum, 1.05 x minimum, 7.00 x no, 0.50 x aim, 2.00 x minimum"
    )
    clocked, products = (replace(FAST, seconds=2.0),), (Whole("compiled", 6.0, 2.0, 0.0),)
    ratios, trained = (Ratio(512, 512, 512, "bf16", "fp32", 1, 1.0, 0.05),), (Trained("ResNet18", 1, 4.0, 1.0, 9),)
    late = replace(FULL, clocked=clocked, products=products, ratios=ratios, trained=trained)
    assert [figure.reached for figure in late.figures()] == ["no"] * 5
    # Clang is held to more.
    clang = replace(FULL, tools={"C compiler": "Debian clang 14"}, clocked=(replace(FAST, seconds=0.8),))
    assert next(figure.reached for figure in clang.figures()) == "no"


def test_written_and_read() -> None:
    assert Report.of_json(FULL.to_json()) == FULL
    text = to_markdown(FULL)
    assert "| compiled | 128 | 2 | 1.00 | 8653 | 0.125 | 69,224 | 1.13e+03 | 60 |" in text
    assert "- pysim left out" in text
    assert "| 1024x1024x1024 | fp16 | fp32 | 1 | 2.1e+03 | 1.2e+03 | 0.57 |" in text
    assert "numpy's OpenBLAS chose its kernel by itself: Zen." in text
    assert "| ResNet18 | 2 | 300 | 100 | 3.00 |" in text
    svg = to_svg(FULL)
    assert b"compiled, 2 threads" in svg
    assert svg == to_svg(FULL)


def test_compared() -> None:
    """Only what both have, and faster is more than one."""
    new = replace(FULL, date="2026-02-01", clocked=(replace(FAST, seconds=0.125), replace(FAST, engine="pysim")))
    assert compare(FULL, replace(new, products=(Whole("compiled", 1.5, 0.3, 50.0),))).splitlines() == [
        "Before: 2026-01-01, a machine. Now: 2026-02-01, a machine. Cycles per second, or seconds.",
        "",
        "| measurement | before | now | times as fast |",
        "|---|--:|--:|--:|",
        "| compiled, 128x128, 1 thread | 34,612 | 69,224 | 2.00 |",
        "| `openmxu matmul`, compiled | 0.60 s | 0.30 s | 2.00 |",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", FULL.to_json().replace("0.25", '"x"'), FULL.to_json().replace('"a machine"', "[").strip()]
)
def test_what_cannot_be_compared(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Said) -> None:
    """It is refused before anything is measured."""
    monkeypatch.setattr("openmxu_studies.speed.bench", pytest.fail)
    (tmp_path / "old.json").write_text(text)
    assert "must be what `openmxu bench --json` wrote: " in refused("bench --compare old.json")


def test_a_measurement() -> None:
    found = measure.measure_clocked("compiled", 4, 1)
    assert (found.engine, found.size, found.threads, found.cycles) == ("compiled", 4, 1, 16 * 512 + 18)
    assert found.runs >= 3
    assert found.seconds > 0
    assert found.updates == found.cycles / found.seconds * 16


@pytest.mark.parametrize(
    ("bit", "cycle", "words"),
    [(1, 0, "gives other bits than the golden model"), (0, 1, "takes 8211 cycles, .* not what the formula says")],
)
def test_wrong_results_are_refused(bit: int, cycle: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = compiled.run

    def wrong(*arguments: Any, **options: Any) -> Run:
        found = right(*arguments, **options)
        return Run(found.beats ^ np.uint32(bit), found.cycles + cycle)

    monkeypatch.setattr(compiled, "run", wrong)
    with pytest.raises(RuntimeError, match=f"^compiled on 4x4 {words}$"):
        measure.measure_clocked("compiled", 4, 1)


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size is judged by the one before; all engines, ratios and the report, without the waiting."""
    asked: list[tuple[Any, ...]] = []

    def measured(measure_: Any, *arguments: Any) -> Any:
        asked.append(arguments)
        if measure_ is measure.measure_model:
            return Ratio(*arguments[0], *arguments[1:], 1.0, 0.5)
        if measure_ is measure.measure_command:
            return Whole(arguments[0], 2.0, 1.0, 50.0)
        if measure_ is measure.measure_training:
            return Trained(*arguments, 2.0, 1.0, 9)
        engine, size, threads = arguments
        return replace(FAST, engine=engine, size=size, threads=threads, build=0.0, seconds=size**2 / 16)

    monkeypatch.setattr(benchmark, "_alone", measured)
    notes: list[str] = []
    told: list[tuple[int, int]] = []
    found = bench(limit=20.0, note=notes.append, progress=lambda *state: told.append(state))
    assert ("pysim", 16, 1) in asked
    assert ("pysim", 32, 1) not in asked
    assert "pysim on 32x32 left out: about 64 s" in notes
    assert found.notes == tuple(notes)
    assert ("compiled", 256, 1) in asked  # always waited for
    assert told[-1][0] == told[-1][1] == len(asked) + len(notes)
    assert found.figures()


def test_one_kind_of_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")
    monkeypatch.setattr(benchmark, "_alone", lambda _, network, threads: Trained(network, threads, 2.0, 1.0, 9))
    found = bench(only="training")
    assert {run.threads for run in found.trained} >= {1}
    assert (found.clocked, found.products, found.ratios) == ((), (), ())
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    assert not bench(only="training").trained


def test_memory_is_a_measurement_s_own() -> None:
    """A process begins with the memory of the one that started it: PyTorch would be in that of all measurements."""
    code = "import sys; from openmxu_studies.speed.benchmark import _jobs; _jobs({}, quick=False); print(*sys.modules)"
    assert "torch" not in ran([sys.executable, "-c", code], check=True).stdout.split()


@pytest.mark.slow
def test_a_training_step() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")
    found = benchmark._alone(measure.measure_training, "Mamba, 2 blocks of 128, 2x64 steps", 1)
    assert found.steps >= 9
    assert 0 < found.plain < found.unit


def test_a_compiler_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/cc")
    with pytest.raises(ValueError, match=r"^CC must name a C compiler"):
        bench(quick=True)
