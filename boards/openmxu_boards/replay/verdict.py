"""A build's self-test, simulated and watched at its lights; or its system, checked at its UART."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmxu.pages.tables import counted
from openmxu_boards.bitstream.plan import SUMMARY
from openmxu_boards.bitstream.top import blink_at
from openmxu_boards.devices.boards import Board, find_board
from openmxu_boards.families.circuit import Circuit
from openmxu_boards.host import BoardError, Host
from openmxu_boards.host.check import check as check_products
from openmxu_boards.host.network import check_network
from openmxu_boards.replay.folder import Pin, find_pin, read_build
from openmxu_boards.replay.simulator import compile_circuit
from openmxu_boards.simulated.pin_link import PinLink
from openmxu_boards.simulated.pins import CircuitPins
from openmxu_boards.simulated.verilated import Program, Simulation

_TRIES = 16
"""Number of times that the host sends a request before it gives up."""

CYCLES = 1000
"""Cycles within which a round must be complete; a round takes about half as many."""


_PRODUCTS = 5


@dataclass(frozen=True)
class Verdict:
    """The outcome of a simulation, read from the lights or at the UART."""

    count: int
    """Completed rounds of the self-test, a lower bound, as the heartbeat toggles once per batch; or products of a
    system."""
    cycles: int
    """Cycles of the clock since power-up."""
    problem: str
    """The failure, in words; empty if there was none."""
    noun: str = "round"
    """Noun of the count, for one."""


@dataclass(frozen=True)
class Checked:
    """The result of simulating a build."""

    board: Board
    file: str
    circuit: Circuit
    verdict: Verdict
    seconds: tuple[float, float]
    """Time to prepare the simulation, and to run it."""

    @property
    def passed(self) -> bool:
        return not self.verdict.problem

    def __str__(self) -> str:
        verdict = self.verdict
        what = "the netlist after routing" if self.file.endswith(".json") else "the bitstream"
        cells = ", ".join(f"{number:,} {model}" for model, number in self.circuit.census.items())
        outcome = f"{counted(verdict.count, verdict.noun)} passed" if self.passed else f"FAILED: {verdict.problem}"
        return "\n".join(
            [
                f"{self.board.name}: {outcome}",
                f"simulated: {self.file}, {what}, clocked by {self.circuit.clock.source}",
                f"cells: {cells}",
                f"{verdict.cycles:,} cycles in {self.seconds[1]:.1f} s, after {self.seconds[0]:.1f} s to prepare them",
            ]
        )


def simulate_bitstream(
    board: Board, folder: Path | str, *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> tuple[Program[Circuit], str]:
    """A build's circuit, as a program with the board's pins; and the name of the file that it was read from."""
    tell = progress or (lambda line: None)
    tell("reading the circuit, some seconds")
    circuit, file = read_build(board, Path(folder), tell)
    return compile_circuit(circuit, quick=quick, progress=tell), file


def check(
    board: str, folder: Path | str, rounds: int | None = None, *, progress: Callable[[str], None] | None = None
) -> Checked:
    """Simulate a build until its self-test has passed some rounds, or its system has computed as many products."""
    target = find_board(board)
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds must be 1 or more, not {rounds}")
    start = time.monotonic()
    program, file = simulate_bitstream(target, folder, progress=progress)
    ready = time.monotonic()
    report = json.loads((Path(folder) / SUMMARY).read_text())
    if progress is not None:
        progress(f"simulating the {report['design']}, half a minute")
    verdict = _play(target, program.start(), report, rounds)
    return Checked(target, file, program.circuit, verdict, (ready - start, time.monotonic() - ready))


def _play(board: Board, simulation: Simulation, report: Mapping[str, Any], rounds: int | None) -> Verdict:
    """The self-test at the lights, or the system at its UART."""
    platform = board.new_platform()
    if report["design"] in ("system", "network") and board.uart is not None:
        rx, tx = (find_pin(platform, *board.uart, name) for name in ("rx", "tx"))
        products = _PRODUCTS if rounds is None else rounds
        clock, baud = report["frequency"], board.baud
        pins = CircuitPins(simulation, rx.name, tx.name, (rx.inverted, tx.inverted))
        link = PinLink(pins, clock=clock, baud=baud)
        networks = report["design"] == "network"
        problem = _compute(link, products, networks=networks)
        return Verdict(products, link.cycles, problem, "program" if networks else "product")
    beat = 1 << blink_at(report["frequency"])
    lights = {name: find_pin(platform, *resource) for name, resource in board.leds.items()}
    return watch(simulation, lights, beat, beat if rounds is None else rounds)


def watch(simulation: Simulation, lights: Mapping[str, Pin], beat: int, rounds: int) -> Verdict:
    """Watch the lights until some rounds have passed, a light shows a failure, or none changes any more."""
    missing = [pin.name for pin in lights.values() if pin.name not in simulation.outputs]
    if missing:
        return Verdict(0, 0, f"nothing drives pin {', '.join(missing)}")
    patience = CYCLES * beat
    beating = lights.get("heartbeat", lights["pass"])
    steady = "heartbeat" in lights
    beats, alive = 0, _is_lit(simulation, beating)
    done = 0
    while True:
        if _is_lit(simulation, lights["fail"]):
            return Verdict(
                done, simulation.cycles, f"the light for a wrong result is on in cycle {simulation.cycles:,}"
            )
        if steady and done and not _is_lit(simulation, lights["pass"]):
            return Verdict(done, simulation.cycles, f"the light for a pass went off in cycle {simulation.cycles:,}")
        if _is_lit(simulation, beating) != alive:
            beats, alive = beats + 1, not alive
        done = beats * beat or int(steady and _is_lit(simulation, lights["pass"]))
        if done >= rounds:
            return Verdict(done, simulation.cycles, "")
        if simulation.run(patience, [pin.name for pin in lights.values()]) == patience:
            return Verdict(done, simulation.cycles, f"no light has changed for {patience:,} cycles")


def _is_lit(simulation: Simulation, pin: Pin) -> bool:
    level = simulation.read(pin.name)
    return level is not None and bool(level) != pin.inverted


def _compute(link: PinLink, count: int, *, networks: bool) -> str:
    """Multiply random matrices by a build's system at its UART, or run programs; the failure."""
    try:
        host = Host(link, tries=_TRIES)
        if networks:
            wrong, words = check_network(host, count)
        else:
            result = check_products(host, count)
            wrong, words = result.wrong, result.words
    except (BoardError, ValueError) as error:
        return str(error)
    return f"{wrong} of {words} words of results are wrong" if wrong else ""
