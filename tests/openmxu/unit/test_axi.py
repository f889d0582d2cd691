"""What the registers of a unit on a bus say of its size and formats."""

import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP32, FloatFormat
from openmxu.unit.axi import Register, Registers, axi_config, read_format

from ...clocked import clocked


def _read(config: MxuConfig, *registers: Register) -> list[int]:
    dut = Registers(axi_config(config))
    found = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.arvalid, 1)
        ctx.set(dut.rready, 1)
        for register in registers:
            ctx.set(dut.araddr, register)
            await ctx.tick()
            assert (ctx.get(dut.rvalid), ctx.get(dut.rresp)) == (1, 0)
            found.append(int(ctx.get(dut.rdata)))

    clocked(dut, bench)
    return found


@pytest.mark.parametrize(
    "fmt", [*FORMATS.values(), FloatFormat.parse("e6f9"), FloatFormat("mine", 3, 2, False)], ids=str
)
def test_size_and_formats_are_told(fmt: FloatFormat) -> None:
    """Units whose words are fp32 alike, of any operand; those on benches have as many rows as columns."""
    config = MxuConfig(rows=3, columns=5, stages=7, operand=fmt, subnormals="ieee")
    registers = Register.SIZE, Register.FORMAT, Register.ACCUMULATE, Register.VERSION
    size, formats, sums, version = _read(config, *registers)
    assert size == 0x0005_0003
    told = read_format(formats)
    assert told == (fmt if fmt.name in FORMATS else replace(fmt, name=told.name))
    assert formats & 0xFFFF030F == 0x20200107
    assert read_format(sums) == FP32
    assert [*version.to_bytes(4)] == [0, *map(int, metadata.version("openmxu").split(".")[:3])]


def test_the_format_of_weights_is_told() -> None:
    """In the upper half of a register whose lower half stays the same, as do the terms."""
    one, two = (MxuConfig(rows=4, columns=1, operand=BF16, weight=fmt, terms=4) for fmt in (BF16, FP8_E4M3))
    [[before], [sums]] = (_read(config, Register.ACCUMULATE) for config in (one, two))
    assert (before, sums & 0x3FFFF) == (0x0002_5C80, before)
    assert read_format(sums >> 16) == FP8_E4M3


def test_formats_are_those_of_the_page() -> None:
    """A unit that is older than these fields says none."""
    page = (Path(__file__).parents[3] / "docs/reference/axi.md").read_text()
    table = dict(re.findall(r"^\| `(\w+)` \| (0x\w{4}) \|$", page, re.MULTILINE))
    assert {name: read_format(int(word, 16)) for name, word in table.items()} == FORMATS
    with pytest.raises(ValueError, match="exponent_width must be an integer from 2 to 8, not 0"):
        read_format(0x20200001)
