"""Small designs through the real tools and back: at their pins they must be what Amaranth's simulator says."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import io, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.export.verilog import to_rtlil
from openmxu.runtime import process
from openmxu.yosys import yowasp
from openmxu_boards.families.ecp5 import ecp5_reader as ecp5
from openmxu_boards.families.ecp5.ecp5_pll import Ecp5Pll
from openmxu_boards.families.gatemate import gatemate_reader as gatemate
from openmxu_boards.families.gatemate.gatemate_pll import GateMatePll
from openmxu_boards.families.gowin import gowin_reader as gowin
from openmxu_boards.families.gowin.gowin_pll import GowinPll
from openmxu_boards.families.ice40 import ice40_reader as ice40
from openmxu_boards.families.ice40 import unpack
from openmxu_boards.families.ice40.bitmap import Bitmap, read_bitmap
from openmxu_boards.families.ice40.chip import find_chip
from openmxu_boards.families.ice40.ice40_pll import Ice40Pll
from openmxu_boards.families.pll import Pll
from openmxu_boards.replay import Circuit, CircuitError, compile_circuit

from ...clocked import clocked
from ...conftest import thorough
from ..testbenches import needs_chip, verilated
from .pairs import words

# Their tools would have to be compiled for this machine in `make test`, for a minute or two.
pytestmark = [verilated, pytest.mark.slow]


class Small(wiring.Component):
    """Carries, multiplexers, two memories and a multiplier, with resets and enables."""

    script = ""
    i: Value
    o: Value

    def __init__(self, width: int = 16, words: int = 200) -> None:
        super().__init__({"i": In(4), "o": Out(8)})
        draw = random.Random(7)
        self.width, self.contents = width, [draw.getrandbits(width) for _ in range(words)]

    def elaborate(self, platform: object) -> Module:
        """Inputs: faster, write, add, clear."""
        m, words = Module(), self.contents
        faster, write, add, clear = self.i
        m.submodules.rom = rom = Memory(shape=self.width, depth=len(words), init=words, attrs={"rom_style": "block"})
        m.submodules.ram = ram = Memory(shape=self.width, depth=64, init=[], attrs={"ram_style": "block"})
        m.submodules.file = file = Memory(shape=4, depth=16, init=range(16))
        known, read, store = rom.read_port(), ram.read_port(), ram.write_port()
        shown, kept = file.read_port(domain="comb"), file.write_port()
        count = Signal(range(len(words)))
        total = Signal(24, init=0x5A5A5A)
        m.d.sync += count.eq(count + 1 + faster)
        with m.If(add):
            m.d.sync += total.eq(total + known.data[:8] * (read.data[:8] ^ shown.data))
        with m.If(clear):
            m.d.sync += total.eq(0x123456)
        m.d.comb += [
            known.addr.eq(count),
            read.addr.eq(count),
            store.addr.eq(count + 1),  # the next place to read
            store.data.eq(total ^ known.data),
            store.en.eq(write),
            kept.addr.eq(count),
            kept.data.eq(total),
            kept.en.eq(write),
            shown.addr.eq(total[:4]),
            self.o.eq(Cat(*((known.data ^ total)[n::8].xor() for n in range(8)))),
        ]
        return m


class Shared(wiring.Component):
    """A memory with ports that are never at the same place, which write parts of words (``granularity``) and read.

    While a port writes, it reads ``"old"``, ``"new"`` or ``"nothing"``; of two ports nothing is looked at then.
    """

    i: Value
    o: Value

    def __init__(self, width: int, granularity: int, ports: int = 1, reads: str = "old") -> None:
        super().__init__({"i": In(4), "o": Out(8)})
        draw = random.Random(10)
        self.width, self.granularity, self.ports, self.reads = width, granularity, ports, reads
        self.contents = [draw.getrandbits(width) for _ in range(512)]
        # What tells Yosys that the ports never meet, and that nothing is looked at.
        said = "setparam -set COLLISION_X_MASK 3 -set TRANSPARENCY_MASK 0 */t:$memrd_v2; "
        self.script = said + "setparam -set PRIORITY_MASK 0 */t:$memwr_v2;" if ports > 1 else ""

    def elaborate(self, platform: object) -> Module:
        """Inputs: faster, write, another noise, nothing."""
        m, words = Module(), self.contents
        faster, write, turn, _ = self.i
        m.submodules.ram = ram = Memory(shape=self.width, depth=len(words), init=words, attrs={"ram_style": "block"})
        count = Signal(range(len(words)))
        noise = Signal(36, init=0x123456789)
        m.d.sync += [count.eq(count + 1 + faster), noise.eq(Cat(noise[35] ^ noise[24] ^ turn, noise[:35]))]
        shown = Signal(self.width)
        for number in range(self.ports):
            store = ram.write_port(granularity=self.granularity)
            read = ram.read_port(transparent_for=[store] if self.reads == "new" else [])
            wrote = Signal()
            m.d.comb += [
                store.addr.eq(count ^ number << 8),
                store.data.eq(noise[::-1] if number else noise),
                store.en.eq(Mux(write, noise[3 * number + 5 :], 0)),
                read.addr.eq(store.addr),
                read.en.eq(~store.en.any() if self.reads == "nothing" else 1),
            ]
            m.d.sync += wrote.eq(store.en.any())
            before, shown = shown, Signal(self.width)
            seen = Mux(wrote & (self.ports > 1), 0, read.data.rotate_left(3 * number))
            m.d.comb += shown.eq(before ^ seen)
        m.d.comb += self.o.eq(Cat(*(shown[n::8].xor() for n in range(8))))
        return m


def stimulus() -> list[int]:
    draw = random.Random(8)
    return [(draw.getrandbits(3) | (draw.random() < 0.02) << 3) for _ in range(1500)]


def expected(design: Small | Shared) -> list[int]:
    """The outputs after each cycle."""
    seen = []

    async def testbench(ctx: Any) -> None:
        for word in stimulus():
            ctx.set(design.i, word)
            await ctx.tick()
            seen.append(ctx.get(design.o))

    clocked(design, testbench)
    return seen


class Multiplied(Elaboratable):
    """A counter behind a PLL that makes 24 MHz, on a board's pins."""

    script = ""

    def __init__(self, pll: type[Pll], source: int) -> None:
        self.clk, self.o = io.IOPort(1, name="clk"), Signal(4, name="o")
        self._pll = pll(io.SingleEndedPort(self.clk, direction="i"), source * 1_000_000, 24_000_000)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pll = self._pll
        m.domains.fast = fast = ClockDomain(reset_less=True)
        m.d.comb += fast.clk.eq(self._pll.o)
        with m.If(self._pll.o_locked):
            m.d.fast += self.o.eq(self.o + 1)
        return m


class Family(NamedTuple):
    """The tools from a design to what is read back, and the pins that it has on the way."""

    read: Callable[[Any, str], Circuit]
    """The circuit of a result, clocked by a pin."""
    synthesis: str
    router: str
    constraint: str
    """The line for a net and a pin, in the file ``pins``."""
    pins: str
    """Those of clock, reset, four inputs and eight outputs."""

    def make(self, design: Small | Shared | Multiplied) -> Any:
        """The netlist after routing; of iCE40 the bits."""
        nets = ["clk", "rst", *(f"i[{n}]" for n in range(4)), *(f"o[{n}]" for n in range(8))]
        pins = dict(zip(nets, words(self.pins), strict=True))
        if isinstance(design, Multiplied):
            text = rtlil.convert(design, name="small", ports=[design.clk, design.o], emit_src=False)
            pins = {net: pins[net] for net in ("clk", "o[0]", "o[1]", "o[2]", "o[3]")}
        else:
            text = to_rtlil(design, name="small")
        script = f"read_rtlil design.il; {design.script} {self.synthesis} -top small -json small.json"
        tool, *options = words(self.router)
        with process.workspace() as work:
            (work / "design.il").write_text(text)
            (work / "pins").write_text("".join(f"{self.constraint.format(*pin)}\n" for pin in pins.items()))
            yowasp.run("yosys", ["-q", "-p", script], work, print)
            yowasp.run(tool, [*options, "--json", "small.json", "--write", "routed.json"], work, print)
            if self.read is _read_ice40:
                yowasp.run("icepack", ["small.asc", "small.bin"], work, print)
                return read_bitmap(unpack((work / "small.bin").read_bytes(), print))
            return (work / "routed.json").read_text()

    def circuit(self, result: Any) -> Circuit:
        return self.read(result, words(self.pins)[0])

    def play(self, result: Any, count: int = 8) -> list[int | None]:
        """So many outputs after each cycle; ``None``: one is not driven."""
        simulation = compile_circuit(self.circuit(result), quick=True).start()
        _, _, *pins = words(self.pins)
        seen: list[int | None] = []
        for word in stimulus():
            for number, pin in enumerate(pins[:4]):
                if pin in simulation.inputs:
                    simulation.drive(pin, word >> number & 1)
            simulation.run(1)
            levels = [simulation.read(pin) for pin in pins[4 : 4 + count]]
            seen.append(None if None in levels else sum(bool(level) << n for n, level in enumerate(levels)))
        return seen


def _read_ice40(bitmap: Bitmap, clock: str) -> Circuit:
    return ice40.read_circuit(find_chip(bitmap.device), bitmap, "sg48", clock)


GOWIN = Family(
    gowin.read_circuit,
    "synth_gowin -nodsp",
    "nextpnr-himbaechel-gowin --timing-allow-fail --vopt cst=pins",
    'IO_LOC "{}" {};',
    "52 29 25 26 27 28 30 31 32 33 34 35 36 37",
)
FAMILIES = {
    "ice40": Family(
        _read_ice40,
        "synth_ice40 -dsp -device u",
        "nextpnr-ice40 --up5k --package sg48 --pcf pins --asc small.asc",
        "set_io {} {}",
        "35 36 2 46 47 45 48 3 4 44 43 38 34 31",
    ),
    "ecp5": Family(
        ecp5.read_circuit,
        "synth_ecp5",
        "nextpnr-ecp5 --12k --package CABGA381 --lpf pins --textcfg small.config",
        'LOCATE COMP "{}" SITE "{}";',
        "G2 D6 R1 T1 R18 V1 B2 C2 C1 D2 D1 E2 E1 H3",
    ),
    "GW1N": GOWIN._replace(router=f"{GOWIN.router} --device GW1NR-LV9QN88PC6/I5 --vopt family=GW1N-9C"),
    "GW2A": GOWIN._replace(router=f"{GOWIN.router} --device GW2AR-LV18QN88C8/I7 --vopt family=GW2A-18C"),
    # Near each other: nextpnr as WebAssembly follows a net's lines by recursion, and has little room for that.
    "gatemate": Family(
        gatemate.read_circuit,
        "synth_gatemate -luttree -nomx8",
        "nextpnr-himbaechel-gatemate --device CCGM1A1 --timing-allow-fail --vopt ccf=pins --vopt out=small.config",
        'Net "{}" Loc = "{}";',
        " ".join(f"IO_SB_{pin}" for pin in words("A8 B6 A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5")),
    ),
}


@cache
def small(family: str) -> Any:
    return FAMILIES[family].make(Small())


@cache
def right() -> list[int]:
    return expected(Small())


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        pytest.param("ice40", "lut carry ff ram mac16", marks=needs_chip),
        ("ecp5", "lut carry mux ff lutram dp16kd mult18"),
        ("GW1N", "lut alu mux ff lutram bsram"),
        ("gatemate", "lut adder mult ff ram"),
    ],
)
def test_small(family: str, kinds: str) -> None:
    model = "gowin" if family == "GW1N" else family
    census = set(FAMILIES[family].circuit(small(family)).census)
    assert census - {"gatemate_mux4"} == {f"{model}_{kind}" for kind in kinds.split()}
    assert FAMILIES[family].play(small(family)) == right()


@pytest.mark.parametrize(
    ("family", "width", "words"),
    [
        *(("ecp5", width, 400 if width < 18 else 600) for width in (8, 9, 18, 36)),
        ("GW1N", 2, 400),
        *(thorough("GW1N", width, 400 if width < 18 else 600) for width in (4, 8, 9, 18, 36)),
        ("gatemate", 80, 200),
        *(thorough("gatemate", width, words) for width, words in ((5, 400), (20, 600), (36, 600))),
    ],
)
def test_memory_widths(family: str, width: int, words: int) -> None:
    design = Small(width, words)
    assert FAMILIES[family].play(FAMILIES[family].make(design)) == expected(design)


@pytest.mark.parametrize(
    ("family", "kind", "memory"),
    [
        ("GW1N", "SP", (18, 9)),
        ("GW1N", "SP", (36, 9)),
        ("GW2A", "SP", (36, 9, 1, "new")),
        ("GW1N", "DP", (18, 9, 2)),
        ("gatemate", "RAM", (20, 10, 2)),
        thorough("GW2A", "SP", (32, 8, 1, "nothing")),
        thorough("GW1N", "SP", (4, 4, 1, "new")),
        thorough("GW2A", "DP", (9, 9, 2)),
        thorough("GW1N", "DP", (4, 4, 2)),
        thorough("gatemate", "RAM", (18, 9, 1, "new")),
        thorough("gatemate", "RAM", (5, 5, 2)),
    ],
)
def test_memories(family: str, kind: str, memory: tuple[Any, ...]) -> None:
    """With one port and with two, that write parts of words; Gowin's words of 36 bits use both ports of a block."""
    design = Shared(*memory)
    text = FAMILIES[family].make(design)
    [module] = json.loads(text)["modules"].values()
    assert [cell["type"] for cell in module["cells"].values() if cell["type"] in ("SP", "DP", "SDP", "RAM")] == [kind]
    assert FAMILIES[family].play(text) == expected(design)


def changed(how: str, cell: Any, name: str = "", other: str = "") -> bool:
    """Change a cell, if that makes a difference; whether it does."""
    parameters, ports = cell["parameters"], cell["connections"]
    match how:
        case "table" if not parameters.get("MODE") and len(ports) >= 5 and len(set(parameters[name])) > 1:  # all in use
            parameters[name] = parameters[name].translate(str.maketrans("01", "10"))
        case "bit" if "1" in parameters.get(name, ""):
            parameters[name] = parameters[name].replace("1", "0", 1)
        # The upper place of GateMate's multiplier may make nothing but signs.
        case "wires" if ports.get(name) and ports.get(other) and parameters.get("C_PY1_I") != "1":
            ports[name], ports[other] = ports[other], ports[name]
        case "carry" if parameters.get("ALU_MODE") == f"{2:032b}" and "RAW_ALU_LUT" not in parameters:
            parameters["ALU_MODE"] = f"{1:032b}"  # subtracting
        case "line" if "C_CY1_I" in parameters and ports.get("OUT1"):  # from elsewhere
            parameters["C_SELY1"] = "10"[int(parameters.get("C_SELY1", "0"))]
        case "reset":  # a set for it
            cell["type"], ports["SET"] = "DFFSE", ports.pop("RESET")
        case _:
            return False
    return True


@pytest.mark.parametrize(
    ("family", "kind", "how", "names"),
    [
        ("ecp5", "TRELLIS_COMB", "table", ["INITVAL"]),
        ("ecp5", "DP16KD", "bit", ["INITVAL_00"]),
        ("ecp5", "MULT18X18D", "wires", ["A0", "A1"]),
        ("GW1N", "ALU", "carry", []),
        ("GW1N", "LUT4", "table", ["INIT"]),
        ("GW1N", "SP", "bit", ["INIT_RAM_00"]),
        ("GW1N", "SP", "wires", ["AD4", "AD5"]),
        ("GW1N", "DFFRE", "reset", []),
        thorough("gatemate", "CPE_L2T4", "table", ["INIT_L10"]),
        ("gatemate", "RAM", "bit", ["INIT_00"]),
        ("gatemate", "CPE_ADDF2", "wires", ["OUT1", "OUT2"]),
        ("gatemate", "CPE_MULT", "wires", ["CPOUT1", "CPOUT2"]),
        ("gatemate", "CPE_CPLINES", "line", []),
    ],
)
def test_broken(family: str, kind: str, how: str, names: list[str]) -> None:
    """The outputs differ, or of GateMate's there is no circuit, where the first cell that can be is changed."""
    data = json.loads(small(family))
    [module] = data["modules"].values()
    assert any(changed(how, cell, *names) for cell in module["cells"].values() if cell["type"] == kind)
    try:
        assert FAMILIES[family].play(json.dumps(data)) != right()
    except CircuitError:
        assert family == "gatemate"


def flipped(bitmap: Bitmap, tile: tuple[int, int], row: int, column: int) -> Bitmap:
    """With one bit of a tile changed."""
    rows = [list(line) for line in bitmap.tiles[tile]]
    rows[row][column] = "10"[int(rows[row][column])]
    return replace(bitmap, tiles={**bitmap.tiles, tile: tuple(map("".join, rows))})


def _place(name: str) -> list[int]:
    """The numbers in the name of a cell or of its output."""
    return [int(part) for part in name.split("_") if part.isdigit()]


@needs_chip
@pytest.mark.parametrize("part", [thorough("LUT"), "memory", "multiplier"])
def test_ice40_broken(part: str) -> None:
    """One bit of a bitstream makes the difference."""
    bitmap: Bitmap = small("ice40")
    chip, circuit = find_chip(bitmap.device), FAMILIES["ice40"].circuit(bitmap)
    if part == "LUT":
        # A sum of bits, whose inputs all come to be low.
        x, y, number = _place(circuit.outputs["48"][0])
        bit = chip.functions["logic"][f"LC_{number}"][4]
        broken = flipped(bitmap, (x, y), *bit)
    elif part == "memory":
        place = next(place for place, content in bitmap.memories.items() if content)
        broken = replace(bitmap, memories={**bitmap.memories, place: bitmap.memories[place] ^ 1})
    else:
        x, y = _place(next(cell.name for cell in circuit.cells if cell.model == "ice40_mac16"))
        tile = chip.cells["MAC16", x, y]["A_REG"]
        [bit] = chip.functions[chip.tiles[tile[:2]]][f"IpConfig.{tile[2]}"]
        broken = flipped(bitmap, tile[:2], *bit)
    assert FAMILIES["ice40"].play(broken) != right()


@needs_chip
def test_ice40_rerouted() -> None:
    """Switches that choose another wire: the outputs differ, or there is no circuit at all."""
    bitmap: Bitmap = small("ice40")
    chip, circuit = find_chip(bitmap.device), FAMILIES["ice40"].circuit(bitmap)
    luts = {(x, y) for cell in circuit.cells if cell.model == "ice40_lut" for x, y, _ in [_place(cell.name)]}
    into = [(tile, bits) for tile, _, bits, _ in chip.switches(luts) if "1" in bitmap.read(tile, bits)]
    seen = []
    for tile, bits in random.Random(9).sample([each for each in into if len(each[1]) == 5], 6):
        try:
            # The enable stays, one of four bits of the choice does not.
            seen.append(FAMILIES["ice40"].play(flipped(bitmap, tile, *bits[0])) != right())
        except CircuitError:
            seen.append(True)
    assert sum(seen) >= 4, seen


def test_ecp5_messages() -> None:
    text = small("ecp5")
    with pytest.raises(CircuitError, match=r"^nothing in the routed netlist is clocked by pin B2$"):
        ecp5.read_circuit(text, "B2")
    data = json.loads(text)
    [module] = data["modules"].values()
    cell = next(cell for cell in module["cells"].values() if cell["type"] == "MULT18X18D")
    cell["parameters"]["REG_INPUTA_CLK"] = "CLK0"
    with pytest.raises(CircuitError, match=r"^cell .*, a MULT18X18D, has REG_INPUTA_CLK=CLK0: no model$"):
        ecp5.read_circuit(json.dumps(data), "G2")
    cell["type"] = "ALU54B"
    with pytest.raises(CircuitError, match=r"^cell .* is a ALU54B, for which there is no model$"):
        ecp5.read_circuit(json.dumps(data), "G2")


PLLS = {"ice40": (Ice40Pll, 12), "ecp5": (Ecp5Pll, 25), "GW1N": (GowinPll, 27), "gatemate": (GateMatePll, 10)}


@pytest.mark.parametrize("family", [pytest.param("ice40", marks=needs_chip), "ecp5", "GW1N", "gatemate"])
def test_pll(family: str) -> None:
    """Its output is the clock of the simulation, and it has locked."""
    result = FAMILIES[family].make(Multiplied(*PLLS[family]))
    circuit = FAMILIES[family].circuit(result)
    assert circuit.clock.source == "the PLL"
    assert family != "ice40" or not circuit.inputs
    # Flip-flops without a value at power-up begin at zero.
    assert FAMILIES[family].play(result, 4)[:20] == [n % 16 for n in range(1, 21)]
    if family == "ecp5":  # whose one output may be its feedback, too
        data = json.loads(result)
        [module] = data["modules"].values()
        [pll] = (cell["connections"] for cell in module["cells"].values() if cell["type"] == "EHXPLLL")
        pll["CLKFB"] = pll["CLKOP"] = pll.pop("CLKOS")
        assert FAMILIES[family].play(json.dumps(data), 4)[:20] == [n % 16 for n in range(1, 21)]
