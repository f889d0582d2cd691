"""The host's driver on a simulated board, at the pins of its UART."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import crc

from openmxu.runtime import process
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu_boards import find_board
from openmxu_boards.host import BoardError, Host, SerialLink, connect
from openmxu_boards.host.check import check
from openmxu_boards.protocol import Command, request
from openmxu_boards.simulated import Terminal, new_program, simulated_link
from openmxu_boards.simulated.campaign import campaign
from openmxu_boards.simulated.faults import FAULTS
from openmxu_boards.simulated.pin_link import Disturbance, PinLink
from openmxu_boards.simulated.pins import AmaranthPins, CircuitPins, Levels, levels_of
from openmxu_boards.simulated.throughput import measure
from openmxu_boards.simulated.verilated import Program
from openmxu_boards.soc import Buffers, UartSoc, machine
from openmxu_sim import golden, simulate
from openmxu_sim.operands.stimulus import stimulus

from ...conftest import Said, thorough
from ..testbenches import small_system, verilated

CONFIG = MxuConfig(rows=2, columns=2, stages=1, source=BF16, depth=4)
CLOCK, BAUD = 1_000_000, 250_000


@cache
def program() -> Program[Any]:
    """The system, made once: each simulation of it begins anew."""
    return new_program(small_system())


@pytest.fixture
def link() -> Iterator[PinLink]:
    with closing(PinLink(CircuitPins(program().start()), clock=CLOCK, baud=BAUD)) as found:
        yield found


@pytest.fixture
def terminal(link: PinLink) -> Iterator[Terminal]:
    with Terminal(link) as found:
        yield found


OPERANDS = np.random.default_rng(3).integers(0, 1 << 32, (5, 7), dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The operands, and where their product will be."""
    a, b, c = (str(tmp_path / f"{name}.npy") for name in "abc")
    np.save(a, OPERANDS)
    np.save(b, OPERANDS.T)
    return [a, b, "-o", c]


def modified(monkeypatch: pytest.MonkeyPatch, component: Any, change: Callable[[Any], Any]) -> None:
    """Add a statement to what a component is made of."""
    original = component.elaborate

    def elaborate(self: Any, platform: object) -> Module:
        m: Module = original(self, platform)
        m.d.comb += change(self)
        return m

    monkeypatch.setattr(component, "elaborate", elaborate)


@pytest.mark.slow
def test_amaranths_simulator() -> None:
    """Time is the design's."""
    system = small_system()
    link = PinLink(AmaranthPins(system), clock=CLOCK, baud=BAUD)
    start = time.monotonic()
    assert link.receive(0.01) == b""
    assert link.now() >= 0.01
    assert time.monotonic() - start < 60
    host = Host(link)
    assert host.identity == system.soc.identity
    assert host.counters() == (0, 0, 0, 0, 0)


@verilated
def test_random_products(link: PinLink) -> None:
    found = check(Host(link), 40, seed=1)
    assert found.right
    assert (found.products, found.retries) == (40, 0)
    assert found.words > 400


@pytest.mark.slow
@verilated
@pytest.mark.parametrize("count", [30, thorough(120)])
def test_a_campaign_of_faults(count: int, link: PinLink) -> None:
    done = campaign(link.pins, count, clock=CLOCK, baud=BAUD)
    assert done.passed
    assert done.counts.total() >= count
    assert len(done.counts) == len(FAULTS) + 2
    assert done.words > count
    assert done.retries > 2
    assert done.gave_up < 5


@pytest.mark.slow
@verilated
def test_without_crc_faults_make_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above would see if the board took every frame for sound."""
    modified(monkeypatch, crc.Processor, lambda processor: processor.match_detected.eq(1))
    with Host(simulated_link(small_system(), disturbance=Change())) as host:
        assert not check(host, 40, seed=2).right


class Change(Disturbance):
    """Another byte among the beats of each load, the first time that it is sent."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def sent(self, data: bytes, divisor: float) -> Levels:
        spoilt = bytearray(data)
        loads = data[1] in (Command.WEIGHTS, Command.ACTIVATIONS)
        # Not where a byte has or gets an escape: the frame would be longer or shorter than it was.
        if loads and data not in self._seen and 0x7D not in data[-12:] and data[-9] >> 1 not in (0x7C >> 1, 0x7E >> 1):
            spoilt[-9] ^= 1
        self._seen.add(data)
        return levels_of(bytes(spoilt), divisor)


@pytest.mark.slow
@verilated
def test_a_unit_with_a_wrong_bit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    modified(monkeypatch, machine.Mxu, lambda unit: unit.results.payload.data[1][3].eq(0))
    found = check(Host(simulated_link(small_system())), 5)
    assert not found.right
    assert 0 < found.wrong < found.words / 2


@verilated
@pytest.mark.parametrize("precision", ["default", "highest"])
def test_matmul_on_a_port(terminal: Terminal, precision: str) -> None:
    a, b = OPERANDS, OPERANDS.T
    port = f"{terminal.port}@{BAUD}"
    product = simulate(a, b, engine="board", port=port, precision=precision)
    expected = golden.matmul(a, b, rows=2, precision=precision)
    assert np.array_equal(golden.to_bits(product.result), golden.to_bits(expected))
    statistics = product.statistics
    assert (statistics.engine, statistics.reason) == ("board", f"requested, on {terminal.port}")
    assert (statistics.config.rows, statistics.config.depth, statistics.cycles_source) == (2, 4, "measured")
    assert statistics.cycles > 5 * 7


@verilated
def test_bfloat16_arrays_and_parameters_that_agree_or_not(terminal: Terminal) -> None:
    a = OPERANDS.astype(golden.DTYPES["bf16"])
    multiply = partial(simulate, engine="board", port=f"{terminal.port}@{BAUD}")
    product = multiply(a, a.T, rows=2, operand="bf16", unit=None)
    assert np.array_equal(golden.to_bits(product.result), golden.to_bits(golden.matmul(a, a.T, rows=2)))
    assert multiply(a, a.T, unit=replace(CONFIG, status=True)).statistics.config.source == BF16
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"rows": 4}, "rows must be 2, as of the board on /dev/.*, not 4"),
        ({"operand": "fp16"}, "operand must be 'bf16', as of the board on /dev/.*, not 'fp16'"),
        ({"subnormals": "ieee"}, "subnormals must be 'flush', as of the board"),
        ({"unit": MxuConfig(rows=2, columns=2)}, "unit must be the one of the board on /dev/.*, MxuConfig"),
    ]
    for options, message in mistakes:
        with pytest.raises(ValueError, match=message):
            multiply(OPERANDS, OPERANDS.T, **options)


def test_ports_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "port /dev/nowhere cannot be opened: No such file or directory"
    with pytest.raises(OSError, match=nowhere):
        connect("/dev/nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot be opened: it is no serial port"):
        connect(str(tmp_path / "file"))
    for ports, reason in (([], "no known USB converter is plugged in"), (["/dev/nowhere"], nowhere)):
        monkeypatch.setattr("openmxu_boards.host.host.candidates", ports.copy)
        with pytest.raises(OSError, match=f"port must be given: {reason}"):
            connect()


@verilated
def test_a_port_is_found_and_is_one_program_s(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmxu_boards.host.host.candidates", lambda: ["/dev/nowhere", terminal.port])
    with connect(f"auto@{BAUD}") as host, pytest.raises(OSError, match="another program uses it"):
        SerialLink(terminal.port)
    assert host.port == terminal.port


@pytest.mark.slow
@pytest.mark.thorough
def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    """Amaranth's simulator takes its time, and the host waits in the board's."""
    monkeypatch.setattr("openmxu_boards.simulated.is_available", lambda: False)
    assert "answers on /dev/" in shown("board info --simulate icebreaker")


@verilated
def test_a_client_that_does_not_listen(link: PinLink) -> None:
    with Terminal(link) as terminal:  # which would raise its thread's error
        client = os.open(terminal.port, os.O_RDWR | os.O_NOCTTY)
        for _ in range(100):
            os.write(client, request(Command.IDENTIFY, 0, 0))
            time.sleep(0.02)
    os.close(client)


@verilated
@pytest.mark.parametrize("second", [98, 99, 100, 101, 102, 500])
def test_a_session_number_that_is_drawn_again(link: PinLink, monkeypatch: pytest.MonkeyPatch, second: int) -> None:
    """The last number of the first session is 101, that of its counters."""
    drawn = iter([41, 100, 41, second, 42, second])
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(drawn))
    Host(link)
    assert check(Host(link), 1).right


@verilated
def test_two_hosts_another_baud_rate_and_a_pulled_cable(link: PinLink) -> None:
    first = Host(link)
    assert check(first, 1).right
    second = Host(link)
    with pytest.raises(BoardError, match="it was reset, or another host has opened a session on it"):
        check(first, 1)
    assert check(second, 2).right
    with pytest.raises(BoardError, match=r"does not answer at 125000 baud \(4 tries"):
        Host(PinLink(link.pins, clock=CLOCK, baud=BAUD // 2))
    assert check(Host(link, tries=16), 1).right
    terminal = Terminal(link)
    with connect(f"{terminal.port}@{BAUD}") as host:
        assert check(host, 1).right
        terminal.close()
        with pytest.raises(OSError, match=f"port {terminal.port} is gone"):
            check(host, 1)


@verilated
def test_a_cable_pulled_within_a_request(
    link: PinLink, files: list[str], monkeypatch: pytest.MonkeyPatch, refused: Said
) -> None:
    """One line, and no result; the board has half a request, and is there for who plugs it in again."""
    monkeypatch.setattr(PinLink, "close", lambda self: None)  # the board goes on
    terminal = Terminal(link)
    send = SerialLink.send

    def pull(port: SerialLink, data: bytes) -> None:
        if data[1] != Command.RUN:
            send(port, data)
            return
        heard = link.sent
        send(port, data[: len(data) // 2])
        while link.sent == heard or not link.idle:  # on its way
            time.sleep(0.001)
        terminal.close()

    with monkeypatch.context() as patch:
        patch.setattr(SerialLink, "send", pull)
        said = refused("board run", *files, "--port", f"{terminal.port}@{BAUD}").splitlines()[-1]
    assert said.startswith(f"openmxu board run: port {terminal.port} is gone: ")
    with Terminal(PinLink(link.pins, clock=CLOCK, baud=BAUD)) as again, connect(f"{again.port}@{BAUD}") as host:
        assert check(host, 2).right


@pytest.mark.slow
@verilated
def test_buffers_that_are_too_small() -> None:
    small = UartSoc(CONFIG, Buffers(2, 2, 2), clock=CLOCK, baud=BAUD)
    with pytest.raises(ValueError, match="the board must have room for a tile of 4 beats, not for 2"):
        Host(simulated_link(small))


@pytest.mark.slow  # in `make test`, of the system above
@verilated
@pytest.mark.parametrize("board", ["icebreaker", pytest.param("ulx3s-12f", marks=pytest.mark.thorough)])
def test_commands(board: str, files: list[str]) -> None:
    """None imports cocotb."""
    program = (
        "import sys; from openmxu.cli.frame import main; code = main(sys.argv[1:]);"
        "sys.exit(code or 10 * any(name.partition('.')[0] == 'cocotb' for name in sys.modules))"
    )
    tested = ", 0 wrong; 0 requests sent again"
    commands = {"answers on /dev/": ["info"], "": ["run", *files], tested: ["selftest", "--products", "2"]}
    for said, arguments in commands.items():
        command = [sys.executable, "-c", program, "board", *arguments, "--simulate", board]
        done = process.run(command, what="the command", limit=300)
        assert done.code == 0, done.errors
        assert said in done.output
    expected = golden.matmul(OPERANDS, OPERANDS.T, rows=find_board(board).config.rows)
    assert np.array_equal(golden.to_bits(np.load(files[-1])), golden.to_bits(expected))


@pytest.mark.slow
@pytest.mark.thorough
def test_lights() -> None:
    system = small_system()
    pins = AmaranthPins(system)
    seen: list[tuple[int, ...]] = []

    async def look(ctx: Any) -> None:
        async for _, _, *levels in ctx.tick().sample(system.pass_, system.fail, system.heartbeat):
            if not seen or seen[-1] != tuple(levels):
                seen.append(tuple(levels))

    pins._simulator.add_testbench(look, background=True)
    host = Host(PinLink(pins, clock=CLOCK, baud=BAUD))
    one = np.full((1, 1), 0x3F80, dtype=np.uint32)
    for _ in range(2):
        host.run(stimulus(replace(CONFIG, status=True), one, one))
    assert seen == [(0, 0, 0), (1, 0, 0), (1, 0, 1), (1, 0, 0)]
    with pytest.raises(BoardError, match="goes beyond a buffer"):
        host._session.ask(Command.RESULTS, b"\xff\xff\x01\x00")
    assert seen[4:] == [(0, 1, 0)]


@pytest.mark.slow
@verilated
def test_throughput() -> None:
    """A UART limits small arrays: it is busy most of the time, the array next to never."""
    board = replace(find_board("icebreaker"), frequency=12_000_000)
    found = measure(board, 8)
    bits = 10 * (found.sent + found.received)
    assert found.line == pytest.approx(bits / found.baud / (found.cycles / found.clock))
    assert 0.7 < found.line < 1
    assert 0 < found.unit < 0.05
    # 8x8x8 on 2x2: four tiles of weights for each two columns, and eight rows for each of them.
    assert found.busy == 4 * 4 * 8
    assert found.flops == pytest.approx(2 * 8**3 * found.clock / found.cycles)
