"""Runs of units on engines, compared with the definition; and compilers that do what a test wants."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines.model.placed import Side
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls, Stimulus, collect, stimulus

from ...bits import same_bits


def operands(config: MxuConfig, m: int, k: int, n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    name = config.source.name
    return vectors.matrix((m, k), name, seed), np.ascontiguousarray(vectors.matrix((n, k), name, seed + 1).T)


def product(config: MxuConfig, a: np.ndarray, b: np.ndarray, precision: str = "default") -> np.ndarray:
    operands = (golden.from_bits(bits, config.source.name) for bits in (a, b))
    options: dict[str, Any] = {"rows": config.rows, "terms": config.terms, "subnormals": config.subnormals}
    weight = config.weight and config.weight.name
    sums = golden.matmul(*operands, **options, precision=precision, operand=config.operand.name, weight=weight)
    return golden.convert(golden.to_bits(sums), "fp32", config.result.name, subnormals=config.subnormals)


def placed_by_golden(a: Side, b: Side, out: Side, groups: int, *, add: bool = False, **options: Any) -> None:
    """Products of operands that lie anywhere, and each result's place, one row after the other."""
    how = {name: value for name, value in options.items() if name not in ("units", "threads")}
    flat = out.array.reshape(-1)
    for group in range(groups):
        left, right = (side.array.reshape(-1)[group * side.step + np.add.outer(side.at, side.k_at)] for side in (a, b))
        for at, row in zip(out.at, golden.matmul(left, right.T, **how), strict=True):
            places = group * out.step + at + out.k_at
            flat[places] = flat[places] + row if add else row


def check(
    engine: Callable[..., Run],
    config: MxuConfig,
    *sizes: int,
    stalls: Stalls | None = None,
    precision: str = "default",
    seed: int = 1,
    other: Callable[..., Run] | None = None,
    given: tuple[np.ndarray, np.ndarray] | None = None,
) -> Run:
    """Compare bits with the golden model, cycles with the formula, and everything with another engine."""
    m, k, n = sizes
    a, b = given or operands(config, m, k, n, seed)
    stimuli = stimulus(config, a, b, precision)
    reports: list[tuple[int, int]] = []
    run = engine(stimuli, stalls=stalls, progress=lambda *state: reports.append(state))
    found, fmt = collect(config, run.beats, m, k, n), config.result.name
    same_bits(found, product(config, a, b, precision), fmt=fmt, note=f"{config}, {sizes=}, {seed=}")
    assert reports[-1] == (stimuli.results, stimuli.results)
    least = cycles(config, m, k, n, precision)
    assert run.cycles >= least if stalls else run.cycles == least, f"{sizes=}, {precision}"
    assert (run.counters is not None) == config.status
    if run.counters is not None and stalls is None:
        beats = sum(len(tile.activations) for tile in stimuli.tiles)
        assert run.counters[:3] == (run.cycles, beats, 0), f"{sizes=}, {precision}"
        assert run.counters.error == 0
    if other is not None:
        same_runs(run, other(stimuli, stalls=stalls))
    return run


def same_runs(run: Run, other: Run) -> None:
    same_bits(run.beats, other.beats)
    assert (run.cycles, run.counters) == (other.cycles, other.counters)


def hanging(config: MxuConfig) -> tuple[Stimulus, Stalls]:
    """Operands of a unit, and nobody who ever takes a result."""
    stalls = Stalls(1, period=32)
    stalls.pattern[2] = True
    return stimulus(config, *operands(config, 2, 2, 2)), stalls


def program(path: Path, text: str) -> str:
    """A shell script that may be named by ``CC``."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def changing(command: str) -> str:
    return f"for each; do case $each in *.c) sed -i '{command}' $each;; esac; done\nexec cc \"$@\""


def hide_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("openmxu.runtime.native.find_spec", lambda name: None)
