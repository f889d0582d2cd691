"""The Python interface: what it takes, what it gives, what it refuses."""

import time
from dataclasses import replace
from inspect import signature
from itertools import product as pairs
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FORMATS, FP32, TF32, FloatFormat
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles
from openmxu_sim import engines, golden, matmul, simulate
from openmxu_sim.cosim import simulators
from openmxu_sim.engines import CLOCKED
from openmxu_sim.engines.compiled import Window
from openmxu_sim.engines.compiled.model import load_model
from openmxu_sim.engines.model.kernel import load_kernel

from ..bits import matrices, same_bits
from ..conftest import needs_compiler, slow

_A = np.float32([[1.5, -2], [3, 4], [0.1, 7]])
_B = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
_WINDOW = Window(range(2), range(2), range(9))
_SHAPES = r"the shapes \(M, K\) and \(K, N\), or others that numpy.matmul takes"


@pytest.mark.parametrize("engine", ["golden", "model", "pysim", "compiled"])
def test_result_and_statistics(engine: str) -> None:
    start = time.perf_counter()
    product = simulate(_A, _B, rows=2, columns=2, engine=engine, stages=3)
    most = time.perf_counter() - start
    same_bits(product.result, golden.matmul(_A, _B, rows=2))
    statistics = product.statistics
    assert (statistics.engine, statistics.reason) == (engine, "requested")
    assert (statistics.config.rows, statistics.config.columns, statistics.config.stages) == (2, 2, 3)
    assert (statistics.m, statistics.k, statistics.n) == (3, 2, 4)
    assert statistics.cycles == cycles(statistics.config, 3, 2, 4)
    assert statistics.cycles_source == ("measured" if engine in CLOCKED else "formula")
    assert statistics.utilisation == pytest.approx(3 * 2 * 4 / (4 * statistics.cycles))
    assert statistics.as_dict()["cycles"] == statistics.cycles
    assert 0 < statistics.seconds < most


@pytest.mark.parametrize("engine", ["golden", slow("compiled")])
def test_a_unit_of_ones_own(engine: str) -> None:
    shape: dict[str, Any] = {"rows": 2, "columns": 3, "stages": 2, "subnormals": "ieee", "splitter": True}
    unit = MxuConfig(**shape, depth=4, result=BF16)
    product = simulate(_A, _B, unit=unit, precision="high", engine=engine)
    same = simulate(_A, _B, **shape, output="bf16", precision="high", engine=engine)
    same_bits(product.result, same.result)
    assert product.statistics.config == replace(unit, status=True)
    assert same.statistics.config == replace(unit, status=True, depth=512)
    shown = shape | {"source": "fp32", "operand": "bf16", "accumulate": "fp32", "output": "bf16", "depth": 4}
    shown |= {"precision": "high", "products": 1, "passes": 3, "units": 1, "m": 3, "k": 2, "n": 4}
    assert product.statistics.as_dict().items() >= shown.items()
    a, b = (each.astype(ml_dtypes.bfloat16) for each in (_A, _B))
    narrow = matmul(a, b, unit=MxuConfig(2, 2, source=BF16), engine=engine)
    same_bits(narrow, matmul(_A, _B, rows=2, columns=2, engine=engine))


def test_matmul_takes_what_simulate_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And hands it on."""
    assert signature(matmul).parameters == signature(simulate).parameters
    given: dict[str, Any] = {name: object() for name in signature(matmul).parameters}
    name = "openmxu_sim.product.on_units.simulate"
    monkeypatch.setattr(name, lambda a, b, **others: SimpleNamespace(result={"a": a, "b": b, **others}))
    assert matmul(**given) == given


def test_bf16_operands_bit_for_bit(mode: str) -> None:
    bits = np.array([[0x3F80, 0x7F81, 0x0001], [0x8000, 0xFF80, 0x4049]], dtype=np.uint16)
    operand = bits.view(ml_dtypes.bfloat16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    other = np.ones((3, 2), np.float32)
    options: dict[str, Any] = {"rows": 3, "columns": 2, "subnormals": mode, "engine": "golden"}
    for a in (wide, bits.view("V2")):
        same_bits(matmul(a, other, **options), matmul(operand, other, **options), note=mode)


@pytest.mark.parametrize(
    ("mode", "engine"),  # other engines are compared with compiled
    [*pairs(("flush", "ieee"), ("golden", "model")), ("flush", "compiled"), slow("ieee", "compiled")],
)
@pytest.mark.parametrize("precision", PASSES)
@pytest.mark.parametrize(
    ("output", "splitter", "units"),
    [("fp32", False, 1), ("bf16", True, 2), slow("fp32", True, 2), slow("bf16", False, 1)],
)
def test_passes(precision: str, mode: str, engine: str, output: str, splitter: bool, units: int) -> None:
    a, b = matrices(5, 8, 5)
    options: dict[str, Any] = {"precision": precision, "subnormals": mode}
    expected = golden.matmul(a, b, rows=3, result=output, **options)
    unit: dict[str, Any] = {"rows": 3, "columns": 2, "splitter": splitter, "units": units}
    found = simulate(a, b, **unit, output=output, engine=engine, **options)
    same_bits(found.result, expected, note=f"{options}, {output=}, {splitter=}, {units=}")
    assert found.statistics.cycles == cycles(MxuConfig(rows=3, columns=2), 5, 8, 5, precision, units)
    assert found.statistics.passes == len(PASSES[precision])


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        slow(name, engine) if engine in ("pysim", "compiled") else (name, engine)
        for name in ("fp16", "fp8_e4m3", "tf32", "e5f9")
        for engine in ("golden", "model", "pysim", "compiled")
        if engine != "pysim" or name in ("fp8_e4m3", "e5f9")
    ],
)
def test_other_operands(name: str, engine: str) -> None:
    """As fp32, and as arrays of their own type on streams of it, where numpy has one; results in both formats."""
    a, b = matrices(3, 4, 2)
    own = name in golden.DTYPES
    narrow = (golden.convert(golden.to_bits(each), "fp32", name) for each in (a, b))
    given = [golden.to_array(each, name) for each in narrow] if own else [a, b]
    streams = simulate(*given, rows=2, columns=2, operand=name, engine=engine).statistics.config.source
    assert streams == (FORMATS[name] if own else FP32)
    for output in ("fp32", name):
        expected = golden.matmul(a, b, rows=2, operand=name, result=output)
        for pair in ((a, b), given):
            found = simulate(*pair, rows=2, columns=2, operand=name, output=output, engine=engine)
            assert found.result.dtype == golden.DTYPES.get(output, np.float32)
            same_bits(found.result, expected, note=f"{name} {output} {pair[0].dtype}")
    assert found.statistics.as_dict()["operand"] == name


@pytest.mark.parametrize("engine", ["golden", "model", "auto"])
def test_narrow_sums(engine: str) -> None:
    a, b = matrices(5, 5, 5, kind="normal")
    found = simulate(a, b, rows=2, columns=2, accumulate="bf16", engine=engine)
    same_bits(found.result, golden.matmul(a, b, rows=2, accumulate="bf16"))
    assert golden.to_bits(found.result).any()
    assert not (golden.to_bits(found.result) & 0xFFFF).any()
    assert found.statistics.accumulate == "bf16"
    assert found.statistics.reason == ("auto: the hardware has fp32 sums" if engine == "auto" else "requested")


@pytest.mark.parametrize("engine", ["golden", "model", "compiled"])
@pytest.mark.parametrize(
    ("left", "right", "products"),
    [
        ((3,), (3,), 1),
        ((3,), (3, 4), 1),
        ((5, 3), (3,), 1),
        ((2, 5, 3), (3, 4), 1),
        ((2, 5, 3), (3,), 1),
        ((3,), (2, 3, 4), 2),
        ((5, 3), (2, 3, 4), 2),
        ((2, 1, 5, 3), (3, 3, 4), 6),
        ((0, 5, 3), (3, 4), 1),
        ((0, 5, 3), (0, 3, 4), 0),
        ((2, 5, 0), (2, 0, 4), 2),
        *(((m, k), (k, n), 1) for m, k, n in ((0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0))),
    ],
)
def test_stacks_and_vectors(left: tuple[int, ...], right: tuple[int, ...], products: int, engine: str) -> None:
    """By numpy's rules: small integers, so that its own product is exact."""
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-8, 9, shape).astype(np.float32) for shape in (left, right))
    found = simulate(a, b, rows=2, columns=2, engine=engine)
    same_bits(found.result, np.matmul(a, b) + np.float32(0))
    statistics = found.statistics
    assert statistics.products == products
    assert statistics.cycles == products * cycles(statistics.config, statistics.m, statistics.k, statistics.n)
    if 0 in left + right:
        assert (statistics.cycles, statistics.utilisation) == (0, 0.0)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *pairs(("HIGH", "bf16x3", "bfloat16_3x", "BF16_BF16_F32_X3"), ("high",)),
        *pairs(("bf16x6", "float32", SimpleNamespace(name="HIGHEST")), ("highest",)),
        ("bfx9", "exact9"),
        ("medium", "default"),
    ],
)
def test_precisions_of_others(name: Any, meant: str) -> None:
    found = simulate(_A / 3, _B / 7, rows=2, columns=2, precision=name, engine="golden")
    assert found.statistics.precision == meant
    same_bits(found.result, golden.matmul(_A / 3, _B / 7, rows=2, precision=meant))


@pytest.mark.parametrize("units", [1, 2, 3])
def test_statistics_of_several_units(units: int) -> None:
    """Five columns of results on units of 3x2: each unit multiplies whole tiles of its share, 3 rows at a time."""
    m, k, n = 5, 8, 5
    told: list[float] = []
    options: dict[str, Any] = {"rows": 3, "columns": 2, "units": units, "precision": "high", "engine": "compiled"}
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    found = simulate(a, b, **options, progress=lambda done, total: told.append(done / total)).statistics
    assert told == sorted(told), "progress is that of all units"
    assert told[-1] == 1
    assert found.cycles == cycles(MxuConfig(rows=3, columns=2), m, k, n, "high", units)
    assert found.utilisation == pytest.approx(3 * m * k * n / (units * 3 * 2 * found.cycles), rel=1e-12)
    tiles = {1: 3, 2: 2 + 1, 3: 1 + 1 + 1}[units]  # of two columns, in the shares 5; 4, 1; 2, 2, 1
    assert found.busy == 3 * 3 * tiles * m  # passes, tiles of the inner dimension


@pytest.mark.parametrize("engine", ["verilator", "icarus"])
def test_what_an_engine_lacks_is_said_before_any_work(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = simulators.find_spec
    monkeypatch.setattr(simulators, "find_spec", lambda name: None if name == "cocotb" else find_spec(name))
    monkeypatch.setattr("openmxu.export.verilog.to_verilog", lambda *given, **options: pytest.fail("work was done"))
    with pytest.raises((OSError, ImportError, ValueError), match=r"cocotb.* pip install .*\["):
        simulate(_A, _B, engine=engine)


def test_bf16_stays_bf16() -> None:
    a, b = _A.astype(ml_dtypes.bfloat16), _B.astype(ml_dtypes.bfloat16)
    narrow = simulate(a, b, rows=2, columns=2, output="bf16", engine="compiled")
    wide = simulate(a.astype(np.float32), b.astype(np.float32), rows=2, columns=2, engine="compiled")
    same_bits(narrow.result, wide.result.astype(ml_dtypes.bfloat16))
    assert (narrow.statistics.config.source, wide.statistics.config.source) == (BF16, FP32)
    for name in ("weight_bytes", "activation_bytes", "result_bytes"):
        assert 2 * getattr(narrow.statistics, name) == getattr(wide.statistics, name)


def test_stalls_change_counters_only() -> None:
    """Free: busy with each beat. A source or a sink that waits: that is what it is put down to; no bit changes."""
    a, b = np.ones((40, 8), np.float32), np.ones((8, 6), np.float32)
    runs = [simulate(a, b, rows=4, columns=3, engine="compiled", stalls=stalls) for stalls in (None, 2)]
    same_bits(runs[1].result, runs[0].result)
    free, stalled = (run.statistics for run in runs)
    assert (free.busy, free.input_stalls, free.output_stalls) == (160, 0, 0)
    assert stalled.busy == 160
    assert 0 < stalled.input_stalls <= stalled.cycles - 160
    assert stalled.cycles > free.cycles
    assert simulate(a, b, rows=4, columns=3, engine="golden").statistics.busy is None


def test_other_dtypes_are_converted_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    same_bits(matmul([[1, 2]], [[3], [4]], rows=2, columns=1, engine="golden"), np.float32([[11]]))
    assert "a: int64 converted to float32" in caplog.text


_REAL = "must be an array of real numbers, not of"
_MASK = "must be an array without a mask, not a masked array: fill it "
_WAVE = {"engine": "compiled", "vcd": Path("x")}
_CLOCK = "needs an engine with a clock .*"
_WINDOWED = "requires vcd and engine 'compiled'"
_PRECISIONS = "'default', 'high', 'highest', 'exact9'"
_ONE_PASS = "precision must be 'default' for"
_ODD = FloatFormat("odd", 4, 2, has_infinity=False)
_FINITE = "operands in fp8_e4m3 or in a format with infinities, not in odd_e4f2_finite"
_FP32 = "must have fp32 streams"
_BF16 = "requires bfloat16 a and b"
_FORMAT, _COMPILED = "must be a format, or one of MX, on an engine with a clock, not", {"engine": "compiled"}


_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"engine": "vcs"}, "engine must be 'auto' or 'golden' .*, not 'vcs'"),
    ({"precision": "best"}, f"precision must be {_PRECISIONS}, or what JAX or PyTorch call it, not 'best'"),
    ({"output": "fp8"}, "output must be 'fp32' or 'bf16', not 'fp8'"),
    ({"rows": 10**9}, "rows must be an integer from 1 to 65536, not 1000000000"),
    ({"units": 0}, "units must be an integer >= 1, not 0"),
    ({**_WAVE, "units": 2}, "units must be 1 for a waveform, not 2"),
    ({"subnormals": "x"}, "subnormals must be 'flush' or 'ieee', not 'x'"),
    ({"unit": MxuConfig(2, 2), "stages": 1}, "stages must not be given together with unit"),
    ({"output": "bf16", "operand": "fp16"}, "output must be 'fp32' or 'fp16', not 'bf16'"),
    ({"operand": "fp64"}, r"operand must be one of bf16, fp16, .* or eXfY .*, not 'fp64'"),
    ({"accumulate": "fp64"}, r"accumulate must be one of .*, not 'fp64'"),
    ({"accumulate": "bf16", "engine": "pysim"}, "accumulate must be 'fp32' on an engine with a clock, not 'bf16'"),
    ({"accumulate": "bf16", "precision": "high"}, f"{_ONE_PASS} sums in bf16, not 'high'"),
    ({"unit": MxuConfig(2, 2, operand=_ODD), "engine": "pysim"}, f"unit must have {_FINITE}"),
    ({"unit": MxuConfig(2, 2, operand=TF32, source=TF32)}, f"unit {_FP32}, as there are no arrays of tf32"),
    ({"unit": MxuConfig(2, 2, source=BF16)}, f"a unit with bf16 streams {_BF16} and precision 'default'"),
    ({"engine": "golden", "stalls": 3}, f"stalls {_CLOCK}, not 'golden'"),
    ({"engine": "golden", "vcd": Path("x")}, f"vcd {_CLOCK} 'golden'"),
    ({"engine": "pysim", "vcd": Path("x"), "window": _WINDOW}, f"^window {_WINDOWED}, not engine 'pysim'$"),
    ({"engine": "compiled", "window": _WINDOW}, f"^window {_WINDOWED}, not vcd=None$"),
    ({"engine": "pysim", "stalls": -1}, "stalls must be an integer >= 0, not -1"),
    ({"operand": "nvfp4", **_COMPILED}, f"^operand {_FORMAT} 'nvfp4'$"),
    ({"weight": "bf16/row", **_COMPILED}, f"^weight {_FORMAT} 'bf16/row'$"),
    ({"terms": 16, **_COMPILED}, "^terms must be 1, 2, 4 or 8 on an engine with a clock, not 16$"),
    ({"terms": 32, "engine": "board"}, "^terms must be 1, 2, 4 or 8 on engine 'board', not 32$"),
    ({"terms": 32, "subnormals": "ieee"}, "^terms must be 1 with gradual underflow, .*, not 32$"),
    ({"terms": 16, "rows": 4}, "^rows must be a multiple of terms=16, not 4$"),
    ({"terms": 16, "unit": MxuConfig(16, 2)}, "^terms must not be given together with unit$"),
    ({"between": "bf16", **_COMPILED}, "^between must be 'fp32' on an engine with a clock, not 'bf16'$"),
]


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "message"),
    [
        (_A.T, _B.T, {}, ValueError, rf"a and b must have {_SHAPES}, not \(2, 3\) and \(4, 2\)"),
        (_A[0], _B.T, {}, ValueError, rf"a and b must have {_SHAPES}, not \(2,\) and \(4, 2\)"),
        (_A, 2.0, {}, ValueError, rf"a and b must have {_SHAPES}, not \(3, 2\) and \(\)"),
        ([_A] * 2, [_B] * 3, {}, ValueError, rf"{_SHAPES}, not \(2, 3, 2\) and \(3, 2, 4\)"),
        (_A * 1j, _B, {}, TypeError, f"a {_REAL} complex64"),
        (_A, [["x"]], {}, TypeError, f"b {_REAL} <U1"),
        (np.array([[None]]), _B, {}, TypeError, f"a {_REAL} object"),
        (np.ma.masked_equal(_A, 0), _B, {}, TypeError, f"a {_MASK}"),
        (_A, np.ma.masked_equal(_B, 0), {}, TypeError, f"b {_MASK}"),
        (_A, _B, {"splitter": 1}, TypeError, "splitter must be True or False, not 1"),
        (_A, _B, {"terms": 16.0}, TypeError, "terms must be 1, 2, 4 or 8, not 16.0"),
        (_A, _B, {"unit": "2x2"}, TypeError, "unit must be an MxuConfig, not '2x2'"),
        ([_A] * 2, [_B] * 2, _WAVE, ValueError, "a and b must be one product for a waveform, not 2"),
        *((_A, _B, options, ValueError, message) for options, message in _OPTIONS),
    ],
)
def test_messages(a: Any, b: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulate(a, b, **options)


def test_precisions_are_refused_before_an_engine_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmxu_sim.product.sessions._engine", pytest.fail)
    with pytest.raises(ValueError, match=f"{_ONE_PASS} operands in fp16, not 'high'"):
        simulate(_A, _B, operand="fp16", precision="high")


# The engine that auto means


@needs_compiler
def test_auto_is_the_compiled_engine() -> None:
    product = simulate(_A, _B, rows=2, columns=2, stalls=1)
    assert (product.statistics.engine, product.statistics.cycles_source) == ("compiled", "measured")
    assert product.statistics.reason == "auto: the unit's own netlist, compiled"
    other = simulate(_A, _B, rows=2, columns=2, stalls=1, engine="pysim")
    same_bits(product.result, other.result)
    assert product.statistics.cycles == other.statistics.cycles


@pytest.mark.parametrize(
    ("size", "clocked", "verilator", "kernel", "engine"),
    [
        (8, True, True, True, "verilator"),
        (9, True, True, True, "pysim"),
        (8, True, False, True, "pysim"),
        (8, False, True, True, "verilator"),
        (9, False, True, True, "model"),
        (9, False, True, False, "golden"),
        (8, False, False, False, "golden"),
    ],
)
def test_auto_without_a_c_compiler(
    size: int, clocked: bool, verilator: bool, kernel: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernel()
    monkeypatch.setenv("CC", "/no/cc")
    load_model.cache_clear()
    monkeypatch.setattr(simulators, "find_simulator", lambda name: "5" if verilator else None)
    if not kernel:
        load_kernel.cache_clear()
    reason = "auto: not compiled, as CC must name a C compiler that is installed, not '/no/cc'"
    assert engines.choose(MxuConfig(rows=size, columns=8), clocked=clocked) == (engine, reason)


def test_what_auto_falls_back_to_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/cc")
    load_model.cache_clear()
    load_kernel.cache_clear()
    statistics = simulate(_A, _B).statistics
    assert (statistics.engine, statistics.cycles_source) == ("golden", "formula")
    assert statistics.reason.startswith("auto: not compiled, as CC must name a C compiler")
    with pytest.raises(ValueError, match=r"^CC must name a C compiler"):
        simulate(_A, _B, engine="compiled")


def test_what_counts_no_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boards without counters: the formula's cycles, called so, and no counts of stalls."""
    real = engines.load("pysim")
    load = "openmxu_sim.product.sessions.load"
    monkeypatch.setattr(load, lambda _: lambda *given, **more: replace(real(*given, **more), cycles=0, counters=None))
    a, b = np.ones((2, 1), np.float32), np.ones((1, 1), np.float32)
    statistics = simulate(a, b, rows=1, columns=1, engine="pysim").statistics
    monkeypatch.undo()
    measured = simulate(a, b, rows=1, columns=1, engine="pysim").statistics
    assert (statistics.cycles, statistics.cycles_source) == (measured.cycles, "formula")
    assert (statistics.busy, statistics.input_stalls, statistics.output_stalls) == (None, None, None)


@pytest.mark.parametrize("operand", ["bf16/stochastic", "fp8_e4m3/tensor", "nvfp4", "mxfp4", "int8/row"])
def test_stacks_of_specified_operands(operand: str) -> None:
    """The same bits on both engines without a clock: seeds go on, and a tensor's scale is the stack's."""
    choose = np.random.default_rng(4)
    a, b = (choose.standard_normal(shape).astype(np.float32) for shape in ((3, 5, 64), (3, 64, 7)))
    a[1] *= 100
    given = {"rows": 32, "columns": 4, "operand": operand, "seed": 3}
    results = [simulate(a, b, engine=engine, **given).result for engine in ("golden", "model")]
    same_bits(*results, note=operand)
    if "stochastic" in operand:
        same_bits(results[0][2], golden.matmul(a[2], b[2], rows=32, operand=operand, seed=5))


def test_blocks_on_a_clock() -> None:
    a = np.ones((2, 32), np.float32)
    decoded = simulate(a, a.T, rows=2, columns=2, engine="compiled", operand="mxfp4", weight="mxfp8_e5m2", seed=9)
    assert decoded.result.tolist() == [[32.0, 32.0], [32.0, 32.0]]
