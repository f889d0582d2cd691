"""The unit's netlist as machine code: the bits and cycles of the other engines, for any unit."""

import io
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from openmxu.runtime import cache, native
from openmxu.runtime.native import CompilationError, CompilerNotFoundError
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FP16, FP32, FloatFormat
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import Tile
from openmxu_sim import golden, simulate
from openmxu_sim.engines import compiled, library, model, pysim
from openmxu_sim.engines.compiled.model import _text, load_model
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.engines.known_answer import hardware_differs
from openmxu_sim.operands.stimulus import Stalls, Stimulus, stimulus

from ...bits import matrices, same_bits
from ...conftest import needs_compiler, slow
from ..networks.programs import run_python
from .runs import changing, check, hanging, hide_compilers, operands, product, program, same_runs

pytestmark = needs_compiler


SMALL = MxuConfig(rows=2, columns=2)
DEEP = MxuConfig(rows=5, columns=16, stages=7, depth=8)
UNITS = [
    slow(MxuConfig(rows=1, columns=1, depth=2)),
    slow(MxuConfig(rows=1, columns=33, stages=5, subnormals="ieee", depth=4)),
    slow(MxuConfig(rows=34, columns=1, stages=2)),
    MxuConfig(rows=17, columns=70, subnormals="ieee", depth=16),
    DEEP,
    slow(MxuConfig(rows=3, columns=4, operand=FP16, source=FP16, subnormals="ieee")),
    slow(MxuConfig(rows=4, columns=3, operand=FP32, stages=3, depth=4)),
    slow(MxuConfig(rows=2, columns=5, operand=FloatFormat.parse("e4f2"), source=FloatFormat.parse("e4f2"))),
    slow(MxuConfig(rows=6, columns=6, source=BF16, depth=64)),
    MxuConfig(),
]


@pytest.mark.parametrize("config", UNITS, ids=str)
def test_bits_and_cycles_of_any_unit(config: MxuConfig) -> None:
    m, k, n = 2 * config.depth + 3 if config.depth < 32 else 21, 2 * config.rows + 1, config.columns + 2
    for stalls in (None, Stalls(1), Stalls(2)):
        check(compiled.run, config, m, k, n, stalls=stalls)


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        (MxuConfig(rows=2, columns=2, depth=4, status=True, splitter=True), 3),
        slow(MxuConfig(rows=3, columns=2, stages=7, depth=4, subnormals="ieee", status=True), 3),
        slow(MxuConfig(rows=1, columns=3, stages=2, depth=2, result=BF16), None),
        slow(MxuConfig(rows=4, columns=1, stages=4, depth=8, source=BF16), 3),
    ],
)
def test_the_same_as_amaranth_simulates(config: MxuConfig, seed: int | None) -> None:
    precision = "default" if config.source == BF16 else "high"
    stalls = None if seed is None else Stalls(seed)
    check(compiled.run, config, 5, 5, 4, stalls=stalls, precision=precision, other=pysim.run)


@pytest.mark.parametrize("operand", [slow("fp16"), slow("fp8_e4m3")])
@pytest.mark.parametrize("size", [4, 128])
def test_operand_formats_of_the_model(mode: str, size: int, operand: str) -> None:
    a, b = matrices(40, 2 * size + 3, 150, 9)
    options = {"rows": size, "operand": operand, "subnormals": mode}
    found = simulate(a, b, columns=size, engine="compiled", **options)
    same_bits(found.result, model.matmul(a, b, **options))


@pytest.mark.slow
def test_marks_in_any_order() -> None:
    """Sums and weights that stay, NaN that is cleared, tiles of any length: also what no product asks for."""
    config = MxuConfig(rows=2, columns=3, depth=4)
    generator = np.random.default_rng(5)
    a, b = operands(config, 40, 2, 12)
    tiles, place = [], 0
    while place < 36:
        rows = range(place, place + int(generator.integers(1, 5)))
        add, clear, emit, keep = (bool(mark) for mark in generator.integers(0, 2, 4))
        start = int(generator.integers(10))
        marks = {"add": add and place > 0, "clear_nan": clear, "emit": emit, "keep": keep and place > 0}
        tiles.append(Tile(rows, range(2), range(start, start + 3), **marks))
        place = rows.stop
    assert 0 < sum(tile.keep for tile in tiles) < len(tiles) - 1
    tiles.append(Tile(range(4), range(2), range(3), add=False, clear_nan=False, emit=True))
    given = Stimulus(config, a, b, tuple(tiles))
    for stalls in (None, Stalls(7)):
        same_runs(compiled.run(given, stalls=stalls), pysim.run(given, stalls=stalls))


def test_rows_without_operands_keep_a_flushed_sum_negative() -> None:
    """They multiply +0 with -0; hardly any sum would show it if they did not."""
    a = golden.to_bits(np.float32([[-1.5 * 2.0**-63, 1.25 * 2.0**-63]]))
    b = golden.to_bits(np.float32([[2.0**-63], [2.0**-63]]))
    run = compiled.run(stimulus(DEEP, a, b))
    assert product(DEEP, a, b).tolist() == run.beats[:, :1].tolist() == [[0x80000000]]


WIDE = MxuConfig(rows=9, columns=40, depth=32)


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_threads_make_no_difference(threads: int) -> None:
    runs = (partial(compiled.run, threads=count) for count in (threads, 1))
    check(next(runs), WIDE, 70, 40, 90, other=next(runs))


def test_progress_and_interruption() -> None:
    ones = np.ones((1024, 1024), np.uint32)
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        told.append(done)
        assert total == 1024 * 26
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled.run(stimulus(WIDE, ones, ones), progress=tell)
    assert told == sorted(told)
    assert told[-1] < 1024 * 26


def test_a_unit_that_hangs_is_reported() -> None:
    given, stalls = hanging(SMALL)
    with pytest.raises(RuntimeError, match=r"^the unit hangs: nothing moved up to cycle \d+, 0 of 2 results are "):
        compiled.run(given, stalls=stalls)


# Compilers, and what they may do


Build = Callable[..., None]
text_of = lru_cache(_text)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Build:
    """Load a unit's model, whose C text is written once, with a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("openmxu_sim.engines.compiled.model._text", text_of)

    def run(compiler: str, config: MxuConfig = SMALL) -> None:
        monkeypatch.setenv("CC", compiler)
        load_model.cache_clear()
        try:
            load_model(config)
        finally:
            load_model.cache_clear()

    return run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "CC failed: "),
        ('[ "$1" = --version ] || { echo "cc: error: broken" >&2; exit 1; }', "CC failed: cc: error: broken"),
        ('[ "$1" = --version ]', "CC failed: exit code 1"),
        ("exit 0", "CC failed: exit code 0"),
        (
            'for each; do [ "$l" = -o ] && echo no > "$each"; l=$each; done',
            "made code that does not work: .*: file too short",
        ),
    ],
)
def test_a_compiler_that_fails(text: str, message: str, build: Build, tmp_path: Path) -> None:
    compiler = program(tmp_path / "cc", text)
    with pytest.raises(CompilationError, match=f"^C compiler {message.replace('CC', re.escape(compiler))}$"):
        build(compiler)


@pytest.mark.parametrize("flag", [slow("-ffast-math"), "-DNDEBUG"], ids=["fast", "define"])
@pytest.mark.parametrize("how", ["arguments", slow("same name")])
def test_each_command_of_a_compiler_has_its_own_library(
    how: str, flag: str, build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = Mock(side_effect=native.build_library)
    monkeypatch.setattr(native, "build_library", built)
    compiler = program(tmp_path / "compiler", 'exec cc "$@"')
    build(compiler)
    if how == "same name":
        program(tmp_path / "compiler", f'exec cc {flag} "$@"')
    build(f"{compiler} {flag}" if how == "arguments" else compiler)
    assert built.call_count == 2
    build(compiler)
    assert built.call_count == 2


@pytest.mark.parametrize("variable", ["CPATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH"])
def test_the_environment_of_a_compiler_is_in_the_key(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = native.compiler_identity()
    monkeypatch.setenv(variable, "/some/where/")
    assert native.compiler_identity() != before


@pytest.mark.parametrize(
    "change",
    [
        "s/-ffp-contract//; s/>> 1/>> 2/",
        slow("s/unit_run/unit_walk/"),
        slow("s/^static void decide.*/& if (u) __builtin_trap();/"),
        slow("s/^static void decide.*/& for (;;) if (!u) break;/"),
        slow("$ a void exit(int); __attribute__((constructor)) static void end(void) { exit(0); }"),
    ],
    ids=["wrong bits", "no function", "crash", "hang", "exit"],
)
def test_a_compiler_that_lies(change: str, build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it makes is tried, not kept; a good compiler's library is loaded afterwards."""
    monkeypatch.setattr(library, "_LIMIT", 5.0)
    with pytest.raises(CompilationError, match=r"^C compiler made code that does not work: "):
        build(program(tmp_path / "liar", changing(change)))
    assert not list((tmp_path / "cache" / "openmxu" / "models").glob("*"))
    build("cc")
    check(compiled.run, SMALL, 3, 5, 2)


def test_a_kept_library_that_does_not_open_is_made_again(build: Build, tmp_path: Path) -> None:
    build("cc")
    [entry] = (tmp_path / "cache" / "openmxu" / "models").iterdir()
    cache.discard("models", entry.name)
    cache.keep("models", entry.name, b"not a library at all")
    build("cc")
    check(compiled.run, SMALL, 3, 5, 2)


def test_a_warm_cache_needs_no_compiler(build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """But serves only who has it of a compiler without options, and of this unit."""
    three = MxuConfig(rows=2, columns=3)
    build("")
    build("cc -ffast-math", three)
    hide_compilers(monkeypatch, tmp_path)
    build("")
    check(compiled.run, SMALL, 3, 5, 2)
    for compiler, config in (("", MxuConfig(rows=3, columns=2)), ("", three), ("cc", SMALL)):
        with pytest.raises(CompilerNotFoundError):
            build(compiler, config)


def test_hardware_that_differs_from_the_definition_is_simulated(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody may be working on it: the compiler is not to blame."""
    monkeypatch.setattr("openmxu_sim.engines.known_answer._answer", lambda config, asked: np.zeros((3, 2), np.uint32))
    (tmp_path / "sitecustomize.py").write_text(
        "import numpy, openmxu_sim.engines.known_answer as it\n"
        "it._answer = lambda config, asked: numpy.zeros((3, 2), numpy.uint32)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    hardware_differs.cache_clear()
    try:
        build("")
        hide_compilers(monkeypatch, tmp_path)
        with pytest.raises(CompilerNotFoundError):  # but what it gave serves nobody without a compiler
            build("")
    finally:
        hardware_differs.cache_clear()


@pytest.mark.parametrize("flags", [slow("-march=x86-64-v3"), slow("-march=x86-64")])
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other processors have no such flags")
def test_narrower_vectors(flags: str, tmp_path: Path) -> None:
    """Processors with 256 or 128 bits; in a process of its own, as a library is never unloaded."""
    code = f"""
from openmxu.runtime import native
native.FLAGS = tuple("{flags}" if flag.startswith("-march") else flag for flag in native.FLAGS)
import pytest, sys
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", {__file__!r}, "-k", "any_unit and (17 or 70)"]))
"""
    assert "1 passed" in run_python("-c", code, XDG_CACHE_HOME=tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        MxuConfig(rows=1, columns=2, stages=4, depth=4, status=True),
        slow(MxuConfig(rows=5, columns=3, depth=64, status=True, splitter=True)),
        slow(MxuConfig(rows=4, columns=1, stages=7, depth=8, subnormals="ieee", status=True, result=BF16)),
        slow(MxuConfig(rows=3, columns=4, stages=3, depth=256, status=True)),
    ],
    ids=str,
)
def test_hundreds_of_shapes(config: MxuConfig) -> None:
    """Below and above the shortest tile without a bubble: golden bits, the formula's cycles, and counters to match."""
    generator = np.random.default_rng(9)
    for _ in range(80):
        most = [config.shortest_tile * generator.choice([1, 3]), 3 * config.rows, 3 * config.columns]
        m, k, n = generator.integers(1, most, endpoint=True).tolist()
        precision, seed = str(generator.choice(list(PASSES))), int(generator.integers(1 << 30))
        check(compiled.run, config, m, k, n, precision=precision, seed=seed)


# Waveforms: what Amaranth's simulator shows of the same run


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
TRACED = [
    slow(MxuConfig(rows=3, columns=2)),
    slow(MxuConfig(rows=2, columns=3, stages=6, depth=4, operand=FP32)),  # registers of more than 32 bits
    slow(MxuConfig(rows=2, columns=2, stages=2, source=BF16, depth=4, subnormals="ieee")),
    MxuConfig(rows=1, columns=1, stages=3, operand=E4F2, source=E4F2, depth=2),
]


@pytest.mark.parametrize("config", TRACED, ids=str)
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
    for name, row, column in itertools.product(everything.registers, part.rows, part.columns):
        shown = at(levels, f"mxu.array.row_{row}.pe_{column}.{name}", times)
        assert shown == everything.register(name)[31:60, row, column].tolist()
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
