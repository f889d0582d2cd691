"""Multiply numpy matrices on the unit in a LiteX SoC, by UARTBone, and compare each bit with the golden model."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from litex.tools.litex_client import RemoteClient
from litex.tools.remote.csr_builder import CSRBuilder
from serial import serial_for_url

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import PASSES
from openmxu.unit.axi import IDENTITY, Register, read_format
from openmxu.unit.status import Error
from openmxu_sim import golden
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Block, collect, stimulus

PATIENCE = 5.0
"""Seconds to wait for an answer, and for the DMAs."""

DMAS = ("weights", "activations", "results")
"""From bit 0 on, in the SoC's registers."""

BURST = 32
"""Words of one access. UARTBone forgets a command that takes longer than 100 ms: it lasts 12 ms at 115200 baud."""


class UartBone(CSRBuilder):
    """A client of UARTBone. LiteX's own waits for an answer for ever, and sends a command in pieces.

    Raises
    ------
    OSError
        The port cannot be opened, or csr.csv cannot be read.
    TimeoutError
        An answer does not come.
    """

    def __init__(self, port: str, baud: int, csr_csv: str) -> None:
        super().__init__(self, csr_csv)
        self._port = serial_for_url(port, baud)
        self._unanswered = 0

    def write(self, address: int, words: list[int] | int) -> None:
        """Write a word, or up to 255, from an address in bytes on."""
        words = [words] if isinstance(words, int) else words
        data = b"".join(word.to_bytes(4, "big") for word in words)
        self._send(bytes([1, len(words)]) + (address // 4).to_bytes(4, "big") + data)

    def read(self, address: int, length: int | None = None) -> Any:
        """Read a word, or a list of up to 255."""
        count = 1 if length is None else length
        self._port.reset_input_buffer()
        self._send(bytes([2, count]) + (address // 4).to_bytes(4, "big"))
        # What was written before may still be on its way, slowly where the SoC is simulated: time for it at 1200 baud.
        self._port.timeout = PATIENCE + self._unanswered * 10 / 1200
        data = self._port.read(4 * count)
        if len(data) < 4 * count:
            raise TimeoutError(f"UARTBone sent {len(data)} of {4 * count} bytes within {self._port.timeout:.1f} s")
        self._unanswered = 0
        words = np.frombuffer(data, dtype=">u4").tolist()
        return words[0] if length is None else words

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _send(self, command: bytes) -> None:
        self._port.write(command)
        self._unanswered += len(command)


def _format(width: int, operand: FloatFormat) -> FloatFormat:
    """The format of words of so many bits: fp32, or what the unit multiplies."""
    fmt = FP32 if width == FP32.width else operand
    if fmt.name not in golden.DTYPES:
        raise ValueError(f"words must be in one of {', '.join(golden.DTYPES)}, not {fmt}")
    return fmt


class Unit:
    """The unit behind a LiteX bus.

    Parameters
    ----------
    bus
        A client of LiteX that has read csr.csv: :class:`UartBone`, ``RemoteClient`` or another one.

    Attributes
    ----------
    config
        What the unit's registers say of it.
    cycles
        Those of the latest product, counted by the unit; they include its waits for the host.

    Raises
    ------
    ValueError
        csr.csv is of another SoC, or the unit's words are in a format of which NumPy has no arrays.
    """

    def __init__(self, bus: Any) -> None:
        if not hasattr(bus.regs, "mxu_enable") or not hasattr(bus.mems, "registers"):
            raise ValueError("csr.csv must be of a SoC with the unit; it has no mxu_enable or no registers")
        self._bus = bus
        self.cycles = 0
        self._write("enable", 0)
        self._write("reset", 1)
        self._write("reset", 0)
        if (identity := self.read(Register.ID)) != IDENTITY:
            raise ValueError(f"register ID must be {IDENTITY:#010x}, not {identity:#010x}: is it this SoC's csr.csv?")
        size, formats = self.read(Register.SIZE), self.read(Register.FORMAT)
        operand = read_format(formats)
        self.config = MxuConfig(
            rows=size & 0xFFFF,
            columns=size >> 16,
            stages=formats & 0xF,
            subnormals="ieee" if formats >> 8 & 1 else "flush",
            splitter=bool(formats >> 9 & 1),
            operand=operand,
            source=_format(formats >> 16 & 0xFF, operand),
            result=_format(formats >> 24, operand),
            depth=self.read(Register.DEPTH),
        )

    def read(self, register: Register) -> int:
        """What a register of the unit holds."""
        return int(self._bus.read(self._bus.mems.registers.base + register))

    def matmul(self, a: np.ndarray, b: np.ndarray, precision: str = "default") -> np.ndarray:
        """The product of two matrices of the unit's source format, in its result format.

        Raises
        ------
        ValueError
            An operand is no matrix of the source format, the matrices do not fit each other, the unit does not have
            this precision, or the SoC's memory does not hold a tile.
        RuntimeError
            The unit has seen a mistake on its streams.
        TimeoutError
            The SoC does not answer, or the product is not complete in time.
        """
        patterns = self._patterns("a", a), self._patterns("b", b)
        if a.shape[1] != b.shape[0] or not a.size or not b.size:
            raise ValueError(f"a and b must have shapes (M, K) and (K, N), none of them 0, not {a.shape} and {b.shape}")
        work = stimulus(self.config, *patterns, precision)
        self._bus.write(self._bus.mems.registers.base + Register.CONTROL, 1)
        beats = b"".join(self._run(*batch) for batch in self._batches(work.blocks()))
        self.cycles = self.read(Register.CYCLES)
        if error := self.read(Register.ERROR):
            raise RuntimeError(f"the unit shows error {Error(error).name}")
        words = np.frombuffer(beats, dtype=f"<u{self.config.result.width // 8}").astype(np.uint32)
        bits = collect(self.config, words.reshape(-1, self.config.columns), len(a), *b.shape)
        return golden.to_array(bits, self.config.result.name)

    def _patterns(self, name: str, operand: np.ndarray) -> np.ndarray:
        dtype = golden.DTYPES[self.config.source.name]
        if operand.dtype != dtype or operand.ndim != 2:
            raise ValueError(f"{name} must be a matrix of {dtype}, not {operand.dtype} of shape {operand.shape}")
        return np.ascontiguousarray(operand).view(f"u{dtype.itemsize}").astype(np.uint32)

    def _batches(self, blocks: Iterator[Block]) -> Iterator[tuple[bytes, bytes, int]]:
        """Weights and activations of as many tiles as fit the memory, and the bytes of their results."""
        memory = self._bus.mems.operands.size
        weights, activations, results = b"", b"", 0
        for block in blocks:
            marks = dict(zip(MARKS, block.marks[0].tolist(), strict=True))
            user = sum(marks[mark] << bit for bit, mark in enumerate(TILE_MARKS)) | block.activation_part << 4
            more = self._tile(block.weights, block.weight_part), self._tile(block.activations, user)
            emitted = marks["emit"] * len(block.activations) * self.config.columns * self.config.result.width // 8
            needed = sum(map(len, more)) + emitted
            if needed > memory:
                raise ValueError(f"the SoC's memory must have at least {needed} bytes for this tile, not {memory}")
            if len(weights) + len(activations) + results + needed > memory:
                yield weights, activations, results
                weights, activations, results = b"", b"", 0
            weights, activations, results = weights + more[0], activations + more[1], results + emitted
        yield weights, activations, results

    def _tile(self, words: np.ndarray, user: int) -> bytes:
        """A tile as the SoC reads it: a header, then the beats. Nothing where weights are kept."""
        data = words.astype(f"<u{self.config.source.width // 8}").tobytes()
        return (len(data) // 4 | user << 24).to_bytes(4, "little") + data if data else b""

    def _run(self, weights: bytes, activations: bytes, results: int) -> bytes:
        """Have a batch computed. The DMAs are independent of each other, as the unit's streams are."""
        base = self._bus.mems.operands.base
        operands = np.frombuffer(weights + activations, dtype="<u4").tolist()
        for start in range(0, len(operands), BURST):
            self._bus.write(base + 4 * start, operands[start : start + BURST])
        self._write("enable", 0)
        enable, address = 0, base
        for bit, (dma, length) in enumerate(zip(DMAS, (len(weights), len(activations), results), strict=True)):
            self._write(f"{dma}_base", address)
            self._write(f"{dma}_length", length)
            enable |= (length > 0) << bit  # at a length of 0 it would not end
            address += length
        self._write("enable", enable)
        self._wait(enable)
        return self._read_bytes(address - results, results)

    def _wait(self, enable: int) -> None:
        """Only reads: a write would be lost in part while a DMA has the bus."""
        end = time.monotonic() + PATIENCE
        while missing := enable & ~self._bus.regs.mxu_done.read():
            if time.monotonic() > end:
                names = ", ".join(name for bit, name in enumerate(DMAS) if missing >> bit & 1)
                raise TimeoutError(f"the DMA of {names} is not done after {PATIENCE:g} s")

    def _read_bytes(self, address: int, count: int) -> bytes:
        words: list[int] = []
        for start in range(0, count // 4, BURST):
            words += self._bus.read(address + 4 * start, min(BURST, count // 4 - start))
        return np.array(words, dtype="<u4").tobytes()

    def _write(self, name: str, value: int) -> None:
        getattr(self._bus.regs, f"mxu_{name}").write(value)


def check(unit: Unit, seed: int) -> tuple[str, int, int]:
    """Multiply matrices of all bit patterns; what was multiplied, the words of the result, and how many are wrong."""
    config, generator = unit.config, np.random.default_rng(seed)
    most = 2 * config.depth, 3 * config.rows, 3 * config.columns
    m, k, n = (int(size) for size in generator.integers(1, most, endpoint=True))
    precision = str(generator.choice(list(PASSES) if config.has_passes else ["default"]))
    fmt, kind = config.source.name, str(generator.choice(["all", "uniform"]))
    a = golden.to_array(vectors.matrix((m, k), fmt, 2 * seed, kind=kind), fmt)
    b = golden.to_array(vectors.matrix((n, k), fmt, 2 * seed + 1, kind=kind), fmt).T
    product = unit.matmul(a, b, precision)
    expected = golden.matmul(
        a,
        b,
        rows=config.rows,
        precision=precision,
        subnormals=config.subnormals,
        operand=config.operand.name,
        result=config.result.name,
    )
    wrong = golden.to_bits(product) != golden.to_bits(expected)
    return f"{m}x{k}x{n}, {precision}, {kind}", wrong.size, int(np.count_nonzero(wrong))


def check_all(unit: Unit, seeds: range) -> int:
    """Random products, a line each, and a line of them all; how many words are wrong."""
    words = wrong = 0
    for seed in seeds:
        start = time.monotonic()
        what, size, different = check(unit, seed)
        seconds = time.monotonic() - start
        print(f"seed {seed}: {what}: {different} of {size} words differ, {unit.cycles} cycles, {seconds:.2f} s")
        words, wrong = words + size, wrong + different
    print(f"{len(seeds)} products, {wrong} of {words} words differ from the golden model")
    return wrong


def connect(options: argparse.Namespace) -> Any:
    """The client that the options ask for."""
    if options.port:
        return UartBone(options.port, options.baud, options.csr)
    client = RemoteClient(csr_csv=options.csr)
    client.open()
    return client


def run(options: argparse.Namespace) -> int:
    """Connect and check; 1 if a word is wrong."""
    bus = connect(options)
    try:
        return min(1, check_all(Unit(bus), range(options.seed, options.seed + options.count)))
    finally:
        bus.close()


def main() -> int:
    """Multiply random matrices on the unit and compare each bit with the golden model."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", help="serial port, or the socket://... of a simulation; without, litex_server's")
    parser.add_argument("--baud", type=int, default=1_000_000, help="as the SoC was built with")
    parser.add_argument("--csr", default="csr.csv", help="what the SoC's build has written")
    parser.add_argument("--count", type=int, default=10, help="products")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    try:
        return run(parser.parse_args())
    except (OSError, ValueError, RuntimeError) as error:
        print(f"host.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
