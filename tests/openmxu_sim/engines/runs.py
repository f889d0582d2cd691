"""Runs of units on engines, compared with the definition; and compilers that do what a test wants."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls, Stimulus, collect, stimulus

from ...bits import same_bits


def operands(config: MxuConfig, m: int, k: int, n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of patterns of every sort."""
    name = config.source.name
    return vectors.matrix((m, k), name, seed), np.ascontiguousarray(vectors.matrix((n, k), name, seed + 1).T)


def product(config: MxuConfig, a: np.ndarray, b: np.ndarray, precision: str = "default") -> np.ndarray:
    left, right = (golden.from_bits(bits, config.source.name) for bits in (a, b))
    options: dict[str, Any] = {"rows": config.rows, "precision": precision, "subnormals": config.subnormals}
    result = golden.matmul(left, right, **options, operand=config.operand.name, result=config.result.name)
    return golden.to_bits(result) >> np.uint32(32 - config.result.width)


def check(
    engine: Callable[..., Run],
    config: MxuConfig,
    *sizes: int,
    stalls: Stalls | None = None,
    precision: str = "default",
    seed: int = 1,
    other: Callable[..., Run] | None = None,
) -> Run:
    """Compare bits with the golden model, cycles with the formula, and everything with another engine."""
    m, k, n = sizes
    a, b = operands(config, m, k, n, seed)
    stimuli = stimulus(config, a, b, precision)
    reports: list[tuple[int, int]] = []
    run = engine(stimuli, stalls=stalls, progress=lambda *state: reports.append(state))
    same_bits(collect(config, run.beats, m, k, n), product(config, a, b, precision), note=f"{sizes=}, {seed=}")
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
    """The text of a compiler that changes a source by ``sed`` before it compiles it."""
    return f"for each; do case $each in *.c) sed -i '{command}' $each;; esac; done\nexec cc \"$@\""


def hide_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compiler is to be found from here on, in no package, either."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("openmxu.runtime.native.find_spec", lambda name: None)
