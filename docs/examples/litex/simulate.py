"""The SoC in Verilator, its UART behind a TCP port: what runs against a board runs against this, without one."""

import argparse
import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.soc.integration.export import get_csr_csv
from soc import MatrixSoC

from openmxu_sim.cosim.build import verilator_environment, workspace
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator

CLOCK = 50e6
CYCLES_PER_BIT = 8
"""Of the simulated UART: few, as each is a cycle to simulate."""

PINS = [("sys_clk", 0, Pins(1)), ("serial", 0, Subsignal("tx", Pins(1)), Subsignal("rx", Pins(1)))]


def generate(unit: Path, folder: Path) -> None:
    """Write soc.v, what it loads, and csr.csv."""
    platform = SimPlatform("SIM", list(PINS))
    soc = MatrixSoC(platform, platform.request("sys_clk"), CLOCK, CLOCK / CYCLES_PER_BIT, unit)
    soc.finalize()
    with contextlib.chdir(folder):
        Path("csr.csv").write_text(get_csr_csv(soc.csr_regions, soc.constants, soc.mem_regions))
        fragment = soc.get_fragment()
        platform.finalize(fragment)
        platform.get_verilog(fragment, name="soc").write("soc.v")


def build(unit: Path, folder: Path) -> Path:
    """The simulation as a program, which has the UART at its standard input and output."""
    generate(unit, folder)
    return verilate(folder, unit)


def verilate(folder: Path, *sources: Path) -> Path:
    """Make a program of soc.v in a folder and the Verilog that it needs."""
    # How LiteX writes Verilog: non-blocking assignments in combinational logic, which Verilator executes as blocking
    # ones; constants and selections without widths; cases without a default; one process for signals of which one
    # needs another by way of a third, which Verilator evaluates again.
    silent = [f"-Wno-{name}" for name in ("COMBDLY", "WIDTHEXPAND", "WIDTHTRUNC", "CASEINCOMPLETE", "UNOPTFLAT")]
    files = [path.resolve() for path in (folder / "soc.v", *sources, Path(__file__).with_name("uart.cpp"))]
    with workspace() as work:
        environment = os.environ | verilator_environment(load_simulator("verilator"), work)
        command = ["verilator", "--cc", "--exe", "--build", "-O3", "-CFLAGS", "-O1", "--output-split", "0", *silent]
        command += ["--top-module", "soc", "--Mdir", work / "build", "-o", (folder / "soc").resolve(), *files]
        done = subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"{Path(sys.argv[0]).name}: Verilator ended with {done.returncode}")
    return folder / "soc"


def serve(program: Path) -> None:
    """Each connection has a SoC of its own, from power-on until the host hangs up."""
    with socket.create_server(("localhost", 0)) as server:
        print(f"socket://localhost:{server.getsockname()[1]}", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # answers are a few bytes each
                command = [f"./{program.name}", str(CYCLES_PER_BIT)]
                # In its folder: there is the file that its memory for the SoC's name is loaded from.
                subprocess.run(command, check=True, cwd=program.parent, stdin=connection, stdout=connection)


def main() -> None:
    """Build the SoC in Verilator and serve its UART; the first line printed is the port to connect to."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--unit", type=Path, default=Path("mxu_axi.v"), help="what openmxu verilog has written")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/litex"), help="folder for what is built")
    options = parser.parse_args()
    if not options.unit.is_file():
        parser.error(f"--unit must be a file that openmxu verilog mxu --bus axi has written, not {options.unit}")
    options.output.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.INFO)  # LiteX tells all it does
    try:
        serve(build(options.unit, options.output))
    except SimulatorNotFoundError as error:
        parser.error(str(error))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
