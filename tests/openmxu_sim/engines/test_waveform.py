"""Waveforms of the compiled engine: what Amaranth's simulator shows of the same run."""

import io
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP32, FloatFormat
from openmxu_sim.engines import compiled, pysim
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.operands.stimulus import Stalls, stimulus

from ...conftest import needs_compiler, slow
from .runs import operands

pytestmark = needs_compiler

Levels = dict[str, tuple[list[int], list[int]]]


def read(path: Path) -> Levels:
    """Signals by name: when they change, and to what."""
    scope: list[str] = []
    codes: dict[str, str] = {}
    changes: Levels = defaultdict(lambda: ([], []))
    now = 0
    # Amaranth calls signals without a name $1, $2 and so on, which this reader does not take for names.
    content = re.sub(rb"(\$var \w+ \d+ \S+ )\$", rb"\1_", path.read_bytes())
    for token in tokenize(io.BytesIO(content)):
        data: Any = token.data
        match token.kind:
            case TokenKind.SCOPE:
                scope.append(data.ident)
            case TokenKind.UPSCOPE:
                scope.pop()
            case TokenKind.VAR:
                codes[".".join([*scope, data.ref_str])] = data.id_code
            case TokenKind.CHANGE_TIME:
                now = data
            case TokenKind.CHANGE_SCALAR | TokenKind.CHANGE_VECTOR:
                times, values = changes[data.id_code]
                times.append(now)
                values.append(int(data.value))
    return {name: changes[code] for name, code in codes.items()}


def at(levels: Levels, name: str, times: np.ndarray) -> list[int]:
    """The values of a signal at some times, after what changes then."""
    changes, values = levels[name]
    return [values[place - 1] for place in np.searchsorted(changes, times, side="right")]


def rising(levels: Levels, name: str) -> np.ndarray:
    times, values = levels[name]
    return np.array([time for time, value in zip(times, values, strict=True) if value])


E4F2 = FloatFormat.parse("e4f2")
UNITS = [
    slow(MxuConfig(rows=3, columns=2)),
    slow(MxuConfig(rows=2, columns=3, stages=6, depth=4, operand=FP32)),  # registers of more than 32 bits
    slow(MxuConfig(rows=2, columns=2, stages=2, source=BF16, depth=4, subnormals="ieee")),
    MxuConfig(rows=1, columns=1, stages=3, operand=E4F2, source=E4F2, depth=2),
]


@pytest.mark.parametrize("config", UNITS, ids=str)
def test_the_same_as_in_amaranth(config: MxuConfig, tmp_path: Path) -> None:
    given, stalls = stimulus(config, *operands(config, 7, 2 * config.rows + 1, config.columns + 1)), Stalls(5)
    paths = tmp_path / "ours.vcd", tmp_path / "theirs.vcd"
    whole = Window(range(config.rows), range(config.columns), range(4096))
    compiled.run(given, stalls=stalls, vcd=paths[0], window=whole)
    pysim.run(given, stalls=stalls, vcd=paths[1])
    ours, theirs = (read(path) for path in paths)
    edges = rising(ours, "mxu.clk"), rising(theirs, "bench.top.clk") - 1
    taken = [
        np.nonzero(np.array(at(levels, f"{top}.weights__valid", times)) & at(levels, f"{top}.weights__ready", times))[0]
        for levels, top, times in ((ours, "mxu", edges[0]), (theirs, "bench.top", edges[1]))
    ]
    times, other = (cycles[first[0] :] for cycles, first in zip(edges, taken, strict=True))
    assert len(times) > 30
    count = min(len(times), len(other))
    assert abs(len(times) - len(other)) <= 1
    registers = compiled.record(given, whole)[1].registers
    assert len(ours) == 1 + 10 + 6 + config.rows + 2 * config.columns + config.rows * config.columns * len(registers)
    for name in ours.keys() - {"mxu.clk"}:
        assert at(ours, name, times[:count]) == at(theirs, name.replace("mxu", "bench.top", 1), other[:count]), name


def test_a_window_shows_a_part(tmp_path: Path) -> None:
    config = MxuConfig(rows=20, columns=5)
    given = stimulus(config, *operands(config, 30, 40, 5))
    part = Window(range(17, 19), range(2, 5), range(31, 60))
    _, everything = compiled.record(given, Window(range(20), range(5), range(4096)))
    compiled.run(given, vcd=tmp_path / "part.vcd", window=part)
    text = (tmp_path / "part.vcd").read_text()
    assert "unit: 20x5, bf16, flush, stages 1; window: rows 17 to 18, columns 2 to 4, cycles 31 to 59" in text
    levels = read(tmp_path / "part.vcd")
    assert {name.split(".")[2] for name in levels if ".array." in name} == {"row_17", "row_18"}
    times = rising(levels, "mxu.clk")
    assert times.tolist() == [10 * cycle for cycle in part.cycles]
    assert levels["mxu.clk"][0][1] == 315
    for name in everything.registers:
        values = everything.register(name)[31:60]
        for row in part.rows:
            for column in part.columns:
                shown = at(levels, f"mxu.array.row_{row}.pe_{column}.{name}", times)
                assert shown == values[:, row, column].tolist()
    assert at(levels, "mxu.activations__payload.data[17]", times) == everything.activations[31:60, 17].tolist()
    compiled.run(given, vcd=tmp_path / "again.vcd", window=part)
    assert (tmp_path / "again.vcd").read_text() == text


def test_a_window_behind_the_end(tmp_path: Path) -> None:
    config = MxuConfig(rows=2, columns=2)
    given = stimulus(config, *operands(config, 2, 2, 2))
    run, trace = compiled.record(given, Window(range(2), range(2), range(9999)))
    assert trace.ran == run.cycles == len(trace.streams)
    message = f"cycles of a trace must begin within the run, which had {run.cycles}, not at {run.cycles}"
    with pytest.raises(ValueError, match=message):
        compiled.run(given, vcd=tmp_path / "w.vcd", window=Window(range(2), range(2), range(run.cycles, 9999)))
    assert not list(tmp_path.iterdir())


def test_wide_registers() -> None:
    config = MxuConfig(rows=1, columns=1, stages=6, operand=FP32)
    _, trace = compiled.record(stimulus(config, *operands(config, 4, 1, 1)), Window(range(1), range(1), range(64)))
    name, width = max(trace.registers.items(), key=lambda item: item[1])
    limbs = trace.limbs(name)
    assert limbs.shape == (len(trace.streams), 1, 1, -(-width // 32))
    assert limbs.any()
    with pytest.raises(ValueError, match=rf"register must be of at most 32 bits, not '{name}' of {width}: see limbs"):
        trace.register(name)
    with pytest.raises(ValueError, match=r"register must be one of .*o_psum.*, not 'psum'"):
        trace.register("psum")
