"""Counters and the error code: by their definitions, alone."""

from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.unit.status import COUNTERS, Error, Status

from ...clocked import clocked

_STREAMS = ("weights", "activations", "results")
_EVENTS = ("go", "waits_input", "waits_output", "clear")


def _watch(*cycles: dict[str, int]) -> list[list[int]]:
    """What a status shows after each cycle: its counters and the error; inputs that are not named are low."""
    dut = Status(MxuConfig(rows=2, columns=1, depth=2, status=True))
    inputs = [name for name in dut.signature.members if name.startswith("i_")]
    shown = []

    async def bench(ctx: Any) -> None:
        for cycle in cycles:
            for name in inputs:
                ctx.set(getattr(dut, name), cycle.get(name.removeprefix("i_"), 0))
            await ctx.tick()
            shown.append([int(ctx.get(getattr(dut, f"o_{name}"))) for name in (*COUNTERS, "error")])

    clocked(dut, bench)
    return shown


def _beat(stream: str, **marks: int) -> dict[str, int]:
    return {f"{stream}_valid": 1, f"{stream}_ready": 1, **marks}


def test_definitions() -> None:
    """Of random events: from the first beat on either input to the last result, since the last clear with its cycle."""
    generator = np.random.default_rng(1)
    names = [f"{stream}_{side}" for stream in _STREAMS for side in ("valid", "ready")]
    shares = dict.fromkeys(names, 0.3) | dict.fromkeys(_EVENTS, 0.4) | {"clear": 0.06}
    history = [{name: int(generator.random() < share) for name, share in shares.items()} for _ in range(1500)]
    for end, shown in enumerate(_watch(*history), start=1):
        start = max((cycle for cycle in range(end) if history[cycle]["clear"]), default=0)
        taken = {
            stream: [t for t in range(start, end) if history[t][f"{stream}_valid"] & history[t][f"{stream}_ready"]]
            for stream in _STREAMS
        }
        first = min([*taken["weights"], *taken["activations"]], default=end)
        cycles = max((cycle + 1 - first for cycle in taken["results"] if cycle >= first), default=0)
        counts = [sum(each[name] for each in history[start:end]) for name in _EVENTS[:-1]]
        assert shown[:-1] == [cycles, *counts], f"cycle {end}, cleared in {start}"


def test_a_tile_that_keeps_its_weights_is_counted() -> None:
    """From its first beat on: no beat of weights comes after the clear."""
    tile = [_beat("activations", first=1, last=1, keep=1), {"go": 1}, {}, _beat("results")]
    weights = [_beat("weights"), _beat("weights", weights_last=1)]
    before = [*weights, _beat("activations", first=1, last=1), {"go": 1}, _beat("results")]
    assert _watch(*before, {"clear": 1}, *tile)[-1] == [4, 1, 0, 0, Error.NONE]


_SHORT = _beat("weights", weights_last=1)


@pytest.mark.parametrize(
    ("cycles", "error"),
    [
        ([_SHORT, {}, {"clear": 1}], Error.NONE),
        ([_SHORT, _SHORT, {"clear": 1, **_beat("activations")}], Error.TILE_UNBEGUN),
        # Two mistakes at once.
        ([{**_SHORT, **_beat("activations")}], Error.WEIGHTS_SHORT),
        # `keep` before any tile has taken weights, within a tile that is a mistake itself, but forgotten.
        ([_beat("activations"), {"clear": 1}, _beat("activations", first=1, keep=1)], Error.TILE_CUT),
        # A bank has two places.
        ([_beat("activations", first=1), _beat("activations"), _beat("activations", add=1)], Error.TILE_LONG),
    ],
    ids=["cleared", "in the cycle of clear", "1 before 4", "3 before 7", "5 before 6"],
)
def test_the_error_that_is_shown(cycles: list[dict[str, int]], error: Error) -> None:
    assert _watch(*cycles)[-1][-1] == error
