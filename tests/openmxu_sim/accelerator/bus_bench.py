"""cocotb bench of an accelerator on its bus: a host at its registers, a memory at its manager, both not ours on AXI."""

import os
import random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from cocotbext.axi.memory import Memory

from openmxu.accelerator.bus.control import Register
from openmxu_sim.cosim.stream import random_pauses

CASES = np.load(os.environ["OPENMXU_CASES"])
"""Programs (n, words), and the words of the memory before and after each, (n, words)."""

WINDOW, ROOM = 0x4000_0000, 1 << 13  # cocotbext's memory is as large as the window and repeats beyond it
IS_AXI = bool(int(os.environ["OPENMXU_AXI"]))


class _Axi:
    """cocotbext-axi on all ports."""

    def __init__(self, dut: Any) -> None:
        self.memory = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.aclk, dut.aresetn, False, size=ROOM)
        self._host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, dut.aresetn, False)
        self.clock, self._reset = dut.aclk, dut.aresetn
        write, read = self.memory.write_if, self.memory.read_if
        channels = write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(random_pauses(seed))

    def reset(self, now: bool) -> None:
        self._reset.value = not now

    async def write(self, register: int, word: int) -> None:
        answer = await self._host.write(register, word.to_bytes(4, "little"))
        assert answer.resp == 0, register

    async def read(self, register: int) -> int:
        answer = await self._host.read(register, 4)
        assert answer.resp == 0, register
        return int.from_bytes(answer.data, "little")

    async def refuses(self, register: int, *, write: int | None = None) -> bool:
        word = None if write is None else write.to_bytes(4, "little")
        answer = await (self._host.read(register, 4) if word is None else self._host.write(register, word))
        return int(answer.resp) == 2


class _Wishbone:
    """A host and a memory that follow Wishbone's registered feedback cycles."""

    def __init__(self, dut: Any) -> None:
        self._dut, self.clock = dut, dut.clk
        self.memory = Memory(ROOM)
        self._random = random.Random(1)
        cocotb.start_soon(self._serve())
        for name in ("cyc", "stb", "we", "sel", "adr", "dat_w", "cti", "bte"):
            getattr(dut, f"s_wb_{name}").value = 0
        dut.m_wb_ack.value = dut.m_wb_err.value = 0

    def reset(self, now: bool) -> None:
        self._dut.rst.value = now

    async def _request(self, register: int, word: int | None) -> int | None:
        dut = self._dut
        await FallingEdge(self.clock)
        dut.s_wb_adr.value, dut.s_wb_sel.value = register >> 2, 15
        dut.s_wb_we.value, dut.s_wb_dat_w.value = word is not None, word or 0
        dut.s_wb_cyc.value = dut.s_wb_stb.value = 1
        while not (dut.s_wb_ack.value or dut.s_wb_err.value):
            await FallingEdge(self.clock)
        shown = int(dut.s_wb_dat_r.value) if dut.s_wb_ack.value else None
        dut.s_wb_cyc.value = dut.s_wb_stb.value = 0
        return shown

    async def write(self, register: int, word: int) -> None:
        assert await self._request(register, word) is not None, register

    async def read(self, register: int) -> int:
        shown = await self._request(register, None)
        assert shown is not None, register
        return shown

    async def refuses(self, register: int, *, write: int | None = None) -> bool:
        return await self._request(register, write) is None

    async def _serve(self) -> None:
        """Answer at random; a burst's next address is that of the beat before and one, up to its end."""
        dut, expected = self._dut, None
        count = len(dut.m_wb_dat_w) // 8
        while True:
            await FallingEdge(self.clock)
            dut.m_wb_ack.value = 0
            if not (dut.m_wb_cyc.value and dut.m_wb_stb.value) or self._random.random() < 0.3:
                continue
            word, ends = int(dut.m_wb_adr.value), int(dut.m_wb_cti.value)
            assert ends in (2, 7)
            assert expected in (None, word)
            expected = word + 1 if ends == 2 else None
            at = word * count - WINDOW
            assert 0 <= at < ROOM
            if dut.m_wb_we.value:
                data, select = int(dut.m_wb_dat_w.value).to_bytes(count, "little"), int(dut.m_wb_sel.value)
                for index in range(count):
                    if select >> index & 1:
                        self.memory.write_byte(at + index, data[index])
            else:
                dut.m_wb_dat_r.value = int.from_bytes(self.memory.read(at, count), "little")
            dut.m_wb_ack.value = 1


def _fill(host: Any, words: np.ndarray) -> None:
    host.memory.write(0, words.astype("<u2").tobytes())


def _holds(host: Any, words: np.ndarray) -> bool:
    return bool((np.frombuffer(host.memory.read(0, 2 * words.size), "<u2") == words).all())


async def _started(dut: Any, *, enable: int = 0, length: int = 0, program: int | None = None) -> Any:
    """A host after a reset; with what is enabled, a window, and a program, but for those that tests write."""
    host = (_Axi if IS_AXI else _Wishbone)(dut)
    Clock(host.clock, 10, unit="ns").start()
    for now in (True, False):
        host.reset(now)
        await ClockCycles(host.clock, 3)
    if enable:
        for register, word in ((Register.WINDOW, WINDOW), (Register.LENGTH, length), (Register.ENABLE, enable)):
            await host.write(register, word)
    if program is not None:
        await _write(host, program)
    return host


async def _write(host: Any, program: int) -> None:
    for word in CASES["programs"][program]:
        await host.write(Register.DATA, int(word))


async def _run(dut: Any, host: Any) -> None:
    """Start the program, and wait for the interrupt."""
    await host.write(Register.CONTROL, 1)
    await with_timeout(RisingEdge(dut.irq), 1, "ms")


@cocotb.test()
async def programs_leave_what_the_definition_says(dut: Any) -> None:
    host = await _started(dut, enable=3, length=ROOM)
    for number, (before, after) in enumerate(zip(CASES["before"], CASES["after"], strict=True)):
        _fill(host, before)
        await host.write(Register.ADDRESS, 0)
        await _write(host, number)
        await _run(dut, host)
        assert await host.read(Register.STATUS) & 0xF == 0b1010, number
        assert await host.read(Register.TAG) == number
        assert _holds(host, after), number
        await host.write(Register.INTERRUPT, 3)
        await ClockCycles(host.clock, 2)
        assert not dut.irq.value


@cocotb.test()
async def a_window_is_kept(dut: Any) -> None:
    """A program that leaves it stops with an interrupt; after a reset the next one runs."""
    host = await _started(dut, enable=2, program=0)
    await _run(dut, host)
    assert await host.read(Register.STATUS) & 0xF == 0b1100
    assert await host.read(Register.STOP) == 8  # of command 0
    await host.write(Register.CONTROL, 4)
    await ClockCycles(host.clock, 5)
    assert await host.read(Register.STATUS) & 0x1F == 0b1000
    _fill(host, CASES["before"][0])
    await host.write(Register.LENGTH, ROOM)
    await host.write(Register.INTERRUPT, 3)
    await host.write(Register.CONTROL, 1)
    while not await host.read(Register.STATUS) & 2:
        pass
    assert _holds(host, CASES["after"][0])


@cocotb.test()
async def registers_are_as_described(dut: Any) -> None:
    """Each address of the page: what it shows after a reset, whether it is refused, and what it keeps."""
    host = await _started(dut)
    size, bus = (int(os.environ[name]) for name in ("OPENMXU_SIZE", "OPENMXU_BUS"))
    constant = [0x4D584131, size | 1 << 16 | bus // 8 << 24, 16, 64, 64, 1024]
    for address in range(0, 0x80, 4):
        if address in (0x1C, Register.DATA) or address > Register.CYCLES:
            assert await host.refuses(address), address
        else:
            shown = await host.read(address)
            assert address // 4 >= len(constant) or shown == constant[address // 4], address
            assert address < Register.CONTROL or shown == (8 if address == Register.STATUS else 0), address
        kept = address in (Register.START, Register.ENABLE, Register.WINDOW, Register.LENGTH, Register.ADDRESS)
        assert await host.refuses(address, write=8) == (
            not kept and address not in (Register.CONTROL, Register.INTERRUPT, Register.DATA)
        ), address
        if kept:
            word = 1023 if address in (Register.START, Register.ADDRESS) else 0x1234_5FFF
            await host.write(address, word)
            pages = address in (Register.WINDOW, Register.LENGTH)
            assert await host.read(address) == (3 if address == Register.ENABLE else word & ~(0xFFF * pages))
            await host.write(address, 0)


@cocotb.test()
async def a_program_that_is_too_long_is_refused(dut: Any) -> None:
    """Words behind the memory of commands do not exist, and the first ones stay as they are."""
    host = await _started(dut, enable=3, length=ROOM, program=1)
    for register in (Register.ADDRESS, Register.START):
        for word in (1024, 1 << 31):
            assert await host.refuses(register, write=word), word
    await host.write(Register.ADDRESS, 1022)
    for _ in range(2):
        await host.write(Register.DATA, 0)
    for _ in range(2):
        assert await host.refuses(Register.DATA, write=1)
        assert await host.read(Register.ADDRESS) == 1024
    _fill(host, CASES["before"][1])
    await _run(dut, host)
    assert await host.read(Register.TAG) == 1
    assert _holds(host, CASES["after"][1])


@cocotb.test()
async def a_program_is_stopped_or_reset(dut: Any) -> None:
    """In its midst, while bursts are under way: what is read back is a code, and the next program is right."""
    host = await _started(dut, enable=3, length=ROOM, program=1)
    for cycles in range(20, 400, 40):
        _fill(host, CASES["before"][1])
        await host.write(Register.CONTROL, 1)
        await ClockCycles(host.clock, cycles)
        assert await host.read(Register.STATUS) & 7 == 1
        if cycles % 80 == 20:
            await host.write(Register.CONTROL, 2)
            assert await host.read(Register.STOP) & 0xFF == 11
            assert await host.refuses(Register.DATA)
        await host.write(Register.CONTROL, 4)
        while await host.read(Register.STATUS) & 16:
            pass
        assert await host.read(Register.STATUS) & 0x1F == 8
        await host.write(Register.INTERRUPT, 3)
        _fill(host, CASES["before"][1])
        await _run(dut, host)
        assert await host.read(Register.INTERRUPT) == 1
        assert _holds(host, CASES["after"][1]), cycles
        await host.write(Register.INTERRUPT, 3)
