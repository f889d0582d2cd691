# amaranth: UnusedElaboratable=no
# (what is refused goes unused)
"""Programs on the accelerator of a simulated board, at the pins of its UART."""

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from openmxu.spec.commands import assemble
from openmxu_boards.host import BoardError, Host, network
from openmxu_boards.host.network import check_network, play, play_picture
from openmxu_boards.protocol import KEEP, START
from openmxu_boards.protocol import Command as Request
from openmxu_boards.simulated import Terminal, new_program
from openmxu_boards.simulated.pin_link import PinLink
from openmxu_boards.simulated.pins import CircuitPins
from openmxu_boards.simulated.verilated import Program
from openmxu_boards.soc import UartSoc
from openmxu_boards.soc import network_machine as machine
from openmxu_sim.accelerator.container import CompiledNetwork, Input, MachinePart, Port, write_network
from openmxu_sim.accelerator.definition import Memories, run
from openmxu_sim.accelerator.lowering import Layer, lower
from openmxu_sim.accelerator.pictures import View
from openmxu_sim.accelerator.simulation import SimulatedAccelerator
from openmxu_sim.accelerator.waits import with_waits

from ...conftest import Command, Said
from ...openmxu_sim.accelerator.programs import MACHINE, check, random_memories, random_program
from ..testbenches import verilated

CLOCK, BAUD = 1_000_000, 250_000
CONFIG = replace(MACHINE, program=256)

pytestmark = [pytest.mark.slow, verilated]


@cache
def _program() -> Program[Any]:
    """The system, with an accelerator that is given up after 8,191 cycles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "PATIENCE", 13)
        return new_program(UartSoc(CONFIG, clock=CLOCK, baud=BAUD))


def _link() -> PinLink:
    return PinLink(CircuitPins(_program().start()), clock=CLOCK, baud=BAUD)


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(_link()) as found:
        yield found


def _check(host: Host, seed: int) -> None:
    """Words as the definition says, in the cycles of the accelerator alone."""
    rng = np.random.default_rng(seed)
    program, memories = with_waits(CONFIG, random_program(rng, 4, moves=False)), random_memories(rng, CONFIG)
    cycles, scratchpad = play(host, program, memories)
    assert cycles == check(SimulatedAccelerator(CONFIG), program, memories).cycles
    assert (scratchpad == memories.scratchpad).all()


def test_random_programs_and_such_that_stop_or_have_no_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host, which would refuse the latter, is told, and the next program is right."""
    assert host.identity.accelerator == CONFIG
    for seed in range(4):
        _check(host, seed)
    for name in ("check_program", "check_waits"):
        monkeypatch.setattr(network, name, lambda *_: None)
    pool, memories = "pool reads=0 writes=40\n", random_memories(np.random.default_rng(1), CONFIG)
    with pytest.raises(BoardError, match=r"^command 1 stopped the accelerator of the board on .*: ENGINE$"):
        play(host, assemble(f"{pool}load rows=0 valid=1 address=0\nend"), memories)
    _check(host, 5)
    with pytest.raises(BoardError, match=r"^command 16 stopped the accelerator of the board on .*: COMMAND$"):
        play(host, assemble(16 * pool), memories)  # which fills the memory of programs, and has no end
    _check(host, 6)


def test_beyond_a_memory_and_sizes_that_do_not_fit(host: Host) -> None:
    for request, arguments in (
        (Request.WEIGHTS, struct.pack("<HI", CONFIG.weights, 0)),
        (Request.ACTIVATIONS, struct.pack("<HI", CONFIG.rows, 0)),
        (Request.RUN, struct.pack("<HHI", 0, CONFIG.program, 0)),
        (Request.RUN, struct.pack("<HHI", 0, START, CONFIG.program)),
        (Request.RESULTS, struct.pack("<HH", CONFIG.rows, 1)),
    ):
        with pytest.raises(BoardError, match="a request goes beyond a buffer"):
            host.ask(request, arguments)
    message = r"^the network must be compiled for 2x2, 256 bytes of scratchpad and 256 of weights, not 2x2, 512 bytes"
    with pytest.raises(ValueError, match=message):
        play(host, assemble("end"), Memories(replace(CONFIG, rows=128), np.zeros((0, 2), np.uint16)))


def test_check_of_a_build(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are not sent are seen."""
    monkeypatch.setattr(network, "_PROGRAM", "matmul reads=0 writes=32 weights=0 emit x=4:1:1\nend")
    with monkeypatch.context() as patch:
        load = Host.load
        patch.setattr(Host, "load", lambda self, beats: None if beats.weights else load(self, beats))
        wrong, _ = check_network(host, 1)
        assert 0 < wrong <= 8
    assert check_network(host, 1) == (0, CONFIG.rows * CONFIG.size)


PICTURES = np.random.default_rng(7).normal(size=(4, 1, 4, 4)).astype(np.float32)


def _small(seed: int) -> MachinePart:
    """A convolution with padding, and a pool, in the same rows for all seeds."""
    kernel, bias = np.random.default_rng(seed).normal(size=(2, 1, 3, 3)).astype(np.float32), np.ones(2, np.float32)
    layers = [Layer("c", "x", (3, 3), (1, 1), (1, 1, 1, 1), kernel, bias), Layer("p", "c", (2, 2), (2, 2))]
    views = (View((1, *shape), (1, *shape)) for shape in ((1, 4, 4), (2, 2, 2)))
    source, result = (Port(*names, view) for names, view in zip((("x", "x"), ("y", "p")), views, strict=True))
    return MachinePart(lower(CONFIG, {"x": (1, 4, 4)}, layers), (source,), (result,))


def _defined(small: MachinePart, picture: np.ndarray) -> tuple[Memories, Memories]:
    """Memories before and after a run, as the definition says."""
    before, after = (Memories(CONFIG, small.lowered.weights) for _ in range(2))
    for memories in (before, after):
        small.lowered.put("x", picture, memories.scratchpad)
    run(small.lowered.program, after)
    return before, after


def _right(host: Host, small: MachinePart, picture: np.ndarray, *, whole: bool = True) -> int:
    """The bytes that a picture takes, whose words are the definition's."""
    (before, after), carried = _defined(small, picture), host.carried
    _, scratchpad = play_picture(host, small, before, whole=whole)
    rows = slice(None) if whole else slice(52, 56)
    assert (scratchpad[rows] == after.scratchpad[rows]).all()
    return host.carried - carried


def test_pictures_with_resident_weights() -> None:
    """All words are right; behind the first, picture and result alone are on the line, even for another host."""
    link, first, second = _link(), _small(1), _small(2)
    host = Host(link)
    for small in (first, second, first):
        assert _right(host, small, PICTURES[0]) > 64 * 3 * 4
        assert all(_right(host, small, picture) < 64 * 2 * 4 for picture in PICTURES[1:])
    # Four requests of 11 bytes and replies of 12; 22 rows from first to last pixel, 4 of the result, 4 bytes each.
    least = 4 * (11 + 12) + 2 + 22 * 4 + 2 + 12 + 4 + 17 + 17 + 4 * 4
    assert least <= _right(Host(link), first, PICTURES[2], whole=False) <= 1.2 * least  # with escapes


def test_a_word_is_kept_until_something_changes() -> None:
    """It is lost whatever is written or started, in whatever order, and by nothing else."""
    zero, start, keep = (struct.pack("<HI", *tile) for tile in ((0, 0), (START, 0), (KEEP, 0x12345678)))
    link, end = _link(), struct.pack("<HI", 0, assemble("end")[0].words[0])
    host = Host(link)
    assert host.ask(Request.COUNTERS, b"", reply=17)[12:16] == bytes(4)
    requests = [(Request.WEIGHTS, bytes(4)), (Request.WEIGHTS, bytes(5)), (Request.ACTIVATIONS, bytes(4))]
    requests += [(Request.RUN, tiles) for tiles in (zero, keep + zero, keep + start)]
    for command, arguments in requests:
        host.ask(Request.RUN, bytes(2) + end + start + keep)
        host.ask(Request.RESULTS, bytes([0, 0, 1, 0]))
        host = Host(link)  # resets the machine
        assert host.ask(Request.COUNTERS, b"", reply=17)[12:16] == keep[2:]
        with suppress(BoardError):
            host.ask(command, bytes(2) + arguments)
        assert host.ask(Request.COUNTERS, b"", reply=17)[12:16] == bytes(4), (command, arguments)


def test_a_load_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any request of it, nothing is taken for loaded."""
    link, first, second, ask = _link(), _small(1), _small(2), Host.ask
    for most in range(1, 6):
        left = [None] * most
        _right(Host(link), first, PICTURES[0])
        with monkeypatch.context() as patch:
            patch.setattr(Host, "ask", lambda *some, left=left, **more: (left.pop(), ask(*some, **more))[1])
            host, before = Host(link), _defined(second, PICTURES[1])[0]
            with pytest.raises(IndexError):
                play_picture(host, second, before, whole=False)
        for small in (second, first) if most % 2 else (first, second):
            _right(Host(link), small, PICTURES[most % 4])


def test_rows_that_a_run_changes_before_they_are_read(host: Host) -> None:
    """All is sent each time."""
    program = with_waits(CONFIG, assemble("pool reads=62 writes=63\npool reads=0 writes=62\nend"))
    bad = replace(_small(0), lowered=replace(_small(0).lowered, program=program))
    for picture in (*PICTURES[:2], PICTURES[0]):
        _right(host, bad, picture)


def test_commands(tmp_path: Any, command: Command, shown: Said, refused: Said) -> None:
    """Products are for boards with a unit alone; programs are for those with an accelerator."""
    np.save("a.npy", np.ones((2, 2), np.float32))
    small = _small(3)
    (tmp_path / "model.mxa").write_bytes(
        write_network(CompiledNetwork((Input("x", (1, 1, 4, 4), "float32"),), (small,), ("y",)))
    )
    for name, array in {"x": PICTURES, "empty": PICTURES[:0], "narrow": PICTURES[..., :3]}.items():
        np.savez(f"{name}.npz", x=array)
    with Terminal(_link()) as terminal:
        port = f"--port {terminal.port}@{BAUD}"
        assert "accelerator: 16 commands, 64 rows of weights, 64 of data" in shown(f"board info {port}")
        said = refused(f"board run a.npy a.npy {port}")
        assert "must have a unit alone, not an accelerator: use run-network" in said
        run = f"board run-network model.mxa {port} -o y.npz --input"
        assert "0 of 512 words of the scratchpad differ" in shown(f"{run} x.npz --check")
        code, _, said = command(f"{run} x.npz")
        first, later = (float(size) for size in re.findall(r": (\d+) bytes on the port", said))
        assert code == 0
        assert first < 1.2 * later < 400
        for name, message in (("empty", "have the shape P x 1 x 4 x 4"), ("narrow", "have the shape P x 1 x 4 x 4")):
            assert f"x must {message}, not (" in refused(f"{run} {name}.npz")
    found = [small.lowered.get("p", _defined(small, picture)[1].scratchpad) for picture in PICTURES]
    assert (np.load("y.npz")["y"] == np.stack(found)).all()
