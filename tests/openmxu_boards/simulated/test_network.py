# amaranth: UnusedElaboratable=no
# (what is refused goes unused)
"""Programs on the accelerator of a simulated board, at the pins of its UART."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from openmxu.cli.frame import main
from openmxu.spec.commands import Command as Instruction
from openmxu.spec.commands import assemble
from openmxu_boards import find_board
from openmxu_boards.host import BoardError, Host, network
from openmxu_boards.host.network import check_network, play
from openmxu_boards.protocol import START, Command
from openmxu_boards.simulated import Terminal, new_program
from openmxu_boards.simulated.pin_link import PinLink
from openmxu_boards.simulated.pins import CircuitPins
from openmxu_boards.simulated.verilated import Program, is_available
from openmxu_boards.soc import UartSoc
from openmxu_boards.soc import network_machine as machine
from openmxu_boards.soc.network_machine import NetworkMachine
from openmxu_sim.accelerator.definition import Memories, run
from openmxu_sim.accelerator.simulation import SimulatedAccelerator
from openmxu_sim.accelerator.waits import with_waits

from ...openmxu_sim.accelerator.programs import MACHINE, random_program, random_words

CLOCK, BAUD = 1_000_000, 250_000
CONFIG = replace(MACHINE, program=256)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_available(), reason="Verilator or a C++ compiler is missing")]


@cache
def _program() -> Program[Any]:
    """The system, with an accelerator that is given up after 8,191 cycles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "PATIENCE", 13)
        return new_program(UartSoc(CONFIG, clock=CLOCK, baud=BAUD))


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(PinLink(CircuitPins(_program().start()), clock=CLOCK, baud=BAUD)) as found:
        yield found


def _memories(rng: np.random.Generator) -> Memories:
    return Memories(CONFIG, *(random_words(rng, rows, CONFIG.size) for rows in (CONFIG.weights, CONFIG.rows)))


def _check(host: Host, seed: int) -> None:
    """Words as the definition says, in the cycles of the accelerator alone."""
    rng = np.random.default_rng(seed)
    program, memories = with_waits(random_program(rng, 4, moves=False)), _memories(rng)
    alone = SimulatedAccelerator(CONFIG)
    alone.write(program, memories)
    cycles, scratchpad = play(host, program, memories)
    assert cycles == alone.run().cycles
    run(program, memories)
    assert (scratchpad == memories.scratchpad).all()


def test_random_programs(host: Host) -> None:
    assert host.identity.accelerator == CONFIG
    for seed in range(4):
        _check(host, seed)


def _play(host: Host, program: Sequence[Instruction], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that the host would refuse."""
    with monkeypatch.context() as patch:
        patch.setattr(network, "check_program", lambda *_: None)
        patch.setattr(network, "check_waits", lambda *_: None)
        play(host, program, _memories(np.random.default_rng(1)))


def test_programs_that_stop_or_never_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is told, and the next program is right."""
    pool = "pool reads=0 writes=40\n"
    with pytest.raises(BoardError, match=r"^command 1 stopped the accelerator of the board on .*: ENGINE$"):
        _play(host, assemble(f"{pool}load rows=0 valid=1 address=0\nend"), monkeypatch)
    _check(host, 5)
    with pytest.raises(BoardError, match="its unit hung and was reset"):
        _play(host, assemble(16 * pool), monkeypatch)  # which fills the memory of programs, and begins again
    _check(host, 6)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (Command.WEIGHTS, CONFIG.weights.to_bytes(2, "little") + bytes(4)),
        (Command.ACTIVATIONS, CONFIG.rows.to_bytes(2, "little") + bytes(4)),
        (Command.RUN, bytes(2) + CONFIG.program.to_bytes(2, "little") + bytes(4)),
        (Command.RUN, bytes(2) + START.to_bytes(2, "little") + CONFIG.program.to_bytes(4, "little")),
        (Command.RESULTS, CONFIG.rows.to_bytes(2, "little") + bytes([1, 0])),
    ],
)
def test_beyond_a_memory(host: Host, command: Command, arguments: bytes) -> None:
    with pytest.raises(BoardError, match="a request goes beyond a buffer"):
        host.ask(command, arguments)


def test_sizes_that_do_not_fit(host: Host) -> None:
    message = r"^the network must be compiled for 2x2, 256 bytes of scratchpad and 256 of weights, not 2x2, 512 bytes"
    with pytest.raises(ValueError, match=message):
        play(host, assemble("end"), Memories(replace(CONFIG, rows=128), np.zeros((0, 2), np.uint16)))
    with pytest.raises(ValueError, match=r"^program must be at most 65535 on a board, not 65536$"):
        NetworkMachine(replace(CONFIG, program=1 << 16))
    with pytest.raises(ValueError, match=r"^weights must be a power of two from 2 to 65536, not 100$"):
        NetworkMachine(replace(CONFIG, weights=100))
    with pytest.raises(ValueError, match=r"^board must have an accelerator, and icebreaker has none$"):
        find_board("icebreaker").network(CONFIG.unit, CLOCK)


def test_commands(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """Products are for boards with a unit alone; programs are for those with an accelerator."""
    np.save(tmp_path / "a.npy", np.ones((2, 2), np.float32))
    files = [str(tmp_path / "a.npy")] * 2
    with Terminal(PinLink(CircuitPins(_program().start()), clock=CLOCK, baud=BAUD)) as terminal:
        port = ["--port", f"{terminal.port}@{BAUD}"]
        assert main(["board", "info", *port]) == 0
        assert "accelerator: 16 commands, 64 rows of weights, 64 of data" in capsys.readouterr().out
        assert main(["board", "run", *files, *port]) == 2
        assert "must have a unit alone, not an accelerator: use run-network" in capsys.readouterr().err


def test_check_of_a_build(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are not sent are seen."""
    monkeypatch.setattr(network, "_PROGRAM", "matmul reads=0 writes=32 weights=0 emit x=4:1:1\nend")
    with monkeypatch.context() as patch:
        load = Host.load
        patch.setattr(Host, "load", lambda self, beats: None if beats.weights else load(self, beats))
        wrong, _ = check_network(host, 1)
        assert 0 < wrong <= 8
    assert check_network(host, 1) == (0, CONFIG.rows * CONFIG.size)
