"""Small designs through the real tools and back: at their pins they must be what Amaranth's simulator says."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Const, Elaboratable, Instance, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from openmxu.export.verilog import to_rtlil
from openmxu.runtime import process
from openmxu.yosys import yowasp
from openmxu_boards.replay import Circuit, CircuitError, Simulation, compile_circuit, ecp5, gatemate, gowin, ice40
from openmxu_boards.replay.bitmap import Bitmap, read_bitmap
from openmxu_boards.replay.chip import find_chip
from openmxu_boards.replay.folder import unpack

from .conftest import needs_chip, needs_simulator

# Their tools would have to be compiled for this machine in `make test`, for a minute or two.
pytestmark = [needs_simulator, pytest.mark.slow]

CYCLES = 1500


class Small(wiring.Component):
    """Carries, multiplexers, two memories and a multiplier, with resets and enables."""

    i: Value
    o: Value

    def __init__(self, width: int = 16, words: int = 200) -> None:
        super().__init__({"i": In(4), "o": Out(8)})
        draw = random.Random(7)
        self.width, self.contents = width, [draw.getrandbits(width) for _ in range(words)]
        self.script = ""

    def elaborate(self, platform: object) -> Module:
        """Inputs: faster, write, add, clear."""
        m = Module()
        faster, write, add, clear = self.i
        m.submodules.rom = rom = Memory(
            shape=self.width, depth=len(self.contents), init=self.contents, attrs={"rom_style": "block"}
        )
        m.submodules.ram = ram = Memory(shape=self.width, depth=64, init=[], attrs={"ram_style": "block"})
        m.submodules.file = file = Memory(shape=4, depth=16, init=range(16))
        known, read, store = rom.read_port(), ram.read_port(), ram.write_port()
        shown, kept = file.read_port(domain="comb"), file.write_port()
        count = Signal(range(len(self.contents)))
        total = Signal(24, init=0x5A5A5A)
        m.d.sync += count.eq(count + 1 + faster)
        with m.If(add):
            m.d.sync += total.eq(total + known.data[:8] * (read.data[:8] ^ shown.data))
        with m.If(clear):
            m.d.sync += total.eq(0x123456)
        m.d.comb += [
            known.addr.eq(count),
            # Never the place that is written, which is the next one to read.
            read.addr.eq(count),
            store.addr.eq(count + 1),
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
    """A memory with one port, or two that are never at the same place, which write parts of words and read.

    Parameters
    ----------
    width, granularity
        Bits of a word, and of its parts.
    ports
        How many.
    reads
        What is read while a port writes: ``"old"``, ``"new"`` or ``"nothing"``. Of two ports nothing is looked at.
    """

    i: Value
    o: Value

    def __init__(self, width: int, granularity: int, ports: int = 1, reads: str = "old") -> None:
        super().__init__({"i": In(4), "o": Out(8)})
        draw = random.Random(10)
        self.width, self.granularity, self.ports, self.reads = width, granularity, ports, reads
        self.contents = [draw.getrandbits(width) for _ in range(512)]

    @property
    def script(self) -> str:
        """What tells Yosys that the ports never meet, and that nothing is looked at."""
        masks = {"rd": {"COLLISION_X_MASK": 3, "TRANSPARENCY_MASK": 0}, "wr": {"PRIORITY_MASK": 0}}
        said = [
            f"setparam -set {name} {value} */t:$mem{kind}_v2;" for kind in masks for name, value in masks[kind].items()
        ]
        return " ".join(said) if self.ports > 1 else ""

    def elaborate(self, platform: object) -> Module:
        """Inputs: faster, write, another noise, nothing."""
        m = Module()
        faster, write, turn, _ = self.i
        m.submodules.ram = ram = Memory(
            shape=self.width, depth=len(self.contents), init=self.contents, attrs={"ram_style": "block"}
        )
        count = Signal(range(len(self.contents)))
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


def stimulus(cycles: int = CYCLES) -> list[int]:
    draw = random.Random(8)
    return [(draw.getrandbits(3) | (draw.random() < 0.02) << 3) for _ in range(cycles)]


def expected(design: Small | Shared) -> list[int]:
    """The outputs after each cycle."""
    seen = []

    async def testbench(ctx: Any) -> None:
        for word in stimulus():
            ctx.set(design.i, word)
            await ctx.tick()
            seen.append(ctx.get(design.o))

    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    return seen


def played(circuit: Circuit, inputs: list[str], outputs: list[str]) -> list[int | None]:
    """The same at the pins; ``None``: a pin is not driven."""
    simulation = compile_circuit(circuit, quick=True).start()
    return [_cycle(simulation, word, inputs, outputs) for word in stimulus()]


def _cycle(simulation: Simulation, word: int, inputs: list[str], outputs: list[str]) -> int | None:
    for number, pin in enumerate(inputs):
        if pin in simulation.inputs:
            simulation.drive(pin, word >> number & 1)
    simulation.run(1)
    levels = [simulation.read(pin) for pin in outputs]
    return None if None in levels else sum(bool(level) << number for number, level in enumerate(levels))


def made(design: str, files: dict[str, str], *commands: list[str], result: str) -> bytes:
    """What tools make of a design in RTLIL."""
    with process.workspace() as work:
        (work / "design.il").write_text(design)
        for name, text in files.items():
            (work / name).write_text(text)
        for tool, *arguments in commands:
            yowasp.run(tool, arguments, work, lambda line: None)
        return (work / result).read_bytes()


ICE40_ROUTE = ["nextpnr-ice40", "--up5k", "--package", "sg48"]
ECP5_ROUTE = ["nextpnr-ecp5", "--12k", "--package", "CABGA381", "--lpf", "pins.lpf", "--lpf-allow-unconstrained"]

ICE40_INPUTS, ICE40_OUTPUTS = ["2", "46", "47", "45"], ["48", "3", "4", "44", "43", "38", "34", "31"]


@pytest.fixture(scope="module")
def bitmap() -> Bitmap:
    """A bitstream of :class:`Small` for the UP5K."""
    pins = {"clk": "35", "rst": "36"}
    pins |= {f"i[{n}]": pin for n, pin in enumerate(ICE40_INPUTS)}
    pins |= {f"o[{n}]": pin for n, pin in enumerate(ICE40_OUTPUTS)}
    bits = made(
        to_rtlil(Small(), name="small"),
        {"pins.pcf": "".join(f"set_io {net} {pin}\n" for net, pin in pins.items())},
        ["yosys", "-q", "-p", "read_rtlil design.il; synth_ice40 -dsp -device u -top small -json small.json"],
        [*ICE40_ROUTE, "--pcf", "pins.pcf", "--json", "small.json", "--asc", "small.asc"],
        ["icepack", "small.asc", "small.bin"],
        result="small.bin",
    )
    return read_bitmap(unpack(bits, lambda line: None))


def ice40_outputs(bitmap: Bitmap) -> list[int | None]:
    circuit = ice40.read_circuit(find_chip(bitmap.device), bitmap, "sg48", "35")
    return played(circuit, ICE40_INPUTS, ICE40_OUTPUTS)


def flipped(bitmap: Bitmap, tile: tuple[int, int], row: int, column: int) -> Bitmap:
    """With one bit of a tile changed."""
    rows = list(bitmap.tiles[tile])
    bit = "10"[int(rows[row][column])]
    rows[row] = rows[row][:column] + bit + rows[row][column + 1 :]
    return replace(bitmap, tiles={**bitmap.tiles, tile: tuple(rows)})


@needs_chip
def test_ice40(bitmap: Bitmap) -> None:
    circuit = ice40.read_circuit(find_chip(bitmap.device), bitmap, "sg48", "35")
    kinds = {"ice40_lut", "ice40_carry", "ice40_ff", "ice40_ram", "ice40_mac16"}
    assert set(circuit.census) == kinds
    assert played(circuit, ICE40_INPUTS, ICE40_OUTPUTS) == expected(Small())


def _place(name: str) -> list[int]:
    """The numbers in the name of a cell or of its output."""
    return [int(part) for part in name.split("_") if part.isdigit()]


@needs_chip
def test_ice40_broken(bitmap: Bitmap) -> None:
    """One bit of a bitstream makes the difference: of a LUT, of a memory, of a multiplier, of a switch."""
    chip = find_chip(bitmap.device)
    circuit = ice40.read_circuit(chip, bitmap, "sg48", "35")
    right = expected(Small())

    # A sum of bits, whose inputs all come to be low.
    x, y, number = _place(circuit.outputs[ICE40_OUTPUTS[0]][0])
    bit = chip.functions["logic"][f"LC_{number}"][4]
    assert ice40_outputs(flipped(bitmap, (x, y), *bit)) != right

    place = next(place for place, content in bitmap.memories.items() if content)
    memories = {**bitmap.memories, place: bitmap.memories[place] ^ 1}
    assert ice40_outputs(replace(bitmap, memories=memories)) != right

    x, y = _place(next(cell.name for cell in circuit.cells if cell.model == "ice40_mac16"))
    tile = chip.cells["MAC16", x, y]["A_REG"]
    [bit] = chip.functions[chip.tiles[tile[:2]]][f"IpConfig.{tile[2]}"]
    assert ice40_outputs(flipped(bitmap, tile[:2], *bit)) != right


@needs_chip
def test_ice40_rerouted(bitmap: Bitmap) -> None:
    """Switches that choose another wire: the outputs differ, or there is no circuit at all."""
    chip, right = find_chip(bitmap.device), expected(Small())
    circuit = ice40.read_circuit(chip, bitmap, "sg48", "35")
    luts = {tuple(map(int, cell.name.split("_")[1:3])) for cell in circuit.cells if cell.model == "ice40_lut"}
    into = [
        (tile, bits) for tile, _, bits, _ in chip.switches(luts) if "1" in bitmap.read(tile, bits) and len(bits) == 5
    ]
    seen = []
    for tile, bits in random.Random(9).sample(into, 6):
        try:
            # The enable stays, one of four bits of the choice does not.
            seen.append(ice40_outputs(flipped(bitmap, tile, *bits[0])) != right)
        except CircuitError:
            seen.append(True)
    assert sum(seen) >= 4, seen


def routed(design: Small) -> str:
    """The netlist of a small design after routing for ECP5."""
    return made(
        to_rtlil(design, name="small"),
        {"pins.lpf": 'LOCATE COMP "clk" SITE "G2";\n'},
        ["yosys", "-q", "-p", "read_rtlil design.il; synth_ecp5 -top small -json small.json"],
        [*ECP5_ROUTE, "--json", "small.json", "--textcfg", "small.config", "--write", "routed.json"],
        result="routed.json",
    ).decode()


@pytest.fixture(scope="module")
def netlist() -> str:
    return routed(Small())


def ecp5_outputs(text: str) -> list[int | None]:
    circuit = ecp5.read_circuit(text, "G2")
    return played(circuit, *_places(text, {"i": 4, "o": 8}))


def _places(text: str, ports: dict[str, int]) -> list[list[str]]:
    """The pins of the bits of some ports, which nextpnr has chosen."""
    [module] = json.loads(text)["modules"].values()
    nets = {bit: f"{net}[{n}]" for net, port in module["ports"].items() for n, bit in enumerate(port["bits"])}
    places = {
        nets[cell["connections"]["B"][0]]: cell["attributes"].get("LOC", name)
        for name, cell in module["cells"].items()
        if cell["type"] == "TRELLIS_IO"
    }
    return [[places[f"{port}[{n}]"] for n in range(width)] for port, width in ports.items()]


def test_ecp5(netlist: str) -> None:
    kinds = {"ecp5_lut", "ecp5_carry", "ecp5_mux", "ecp5_ff", "ecp5_lutram", "ecp5_dp16kd", "ecp5_mult18"}
    assert set(ecp5.read_circuit(netlist, "G2").census) == kinds
    assert ecp5_outputs(netlist) == expected(Small())


@pytest.mark.parametrize("width", [8, 9, 18, 36])
def test_ecp5_memory_widths(width: int) -> None:
    design = Small(width, 400 if width < 18 else 600)
    assert ecp5_outputs(routed(design)) == expected(design)


def test_ecp5_broken(netlist: str) -> None:
    """A bit of a LUT, of a memory, of a multiplier's sign; two nets exchanged."""
    right = expected(Small())

    def changed(kind: str, change: Callable[[Any], bool]) -> bool:
        """Whether the outputs differ where the first cell that can be is changed."""
        data = json.loads(netlist)
        [module] = data["modules"].values()
        assert any(change(cell) for cell in module["cells"].values() if cell["type"] == kind)
        return ecp5_outputs(json.dumps(data)) != right

    def invert(cell: Any) -> bool:
        truth = cell["parameters"]["INITVAL"]
        if len(set(truth)) == 1 or cell["parameters"].get("MODE"):
            return False
        cell["parameters"]["INITVAL"] = truth.translate(str.maketrans("01", "10"))
        return True

    def remember(cell: Any) -> bool:
        row = cell["parameters"].get("INITVAL_00", "0")
        cell["parameters"]["INITVAL_00"] = row[:-1] + "10"[int(row[-1])]
        return "1" in row

    def exchange(cell: Any) -> bool:
        ports = cell["connections"]
        ports["A0"], ports["A1"] = ports["A1"], ports["A0"]
        return True

    assert changed("TRELLIS_COMB", invert)
    assert changed("DP16KD", remember)
    assert changed("MULT18X18D", exchange)


def test_ecp5_messages(netlist: str) -> None:
    for text in ("", "{}", '{"modules": {"a": {}, "b": {}}}'):
        with pytest.raises(CircuitError, match=r"^the routed netlist is none that nextpnr has written$"):
            ecp5.read_circuit(text, "G2")
    with pytest.raises(CircuitError, match=r"^nothing in the routed netlist is clocked by pin B2$"):
        ecp5.read_circuit(netlist, "B2")
    data = json.loads(netlist)
    [module] = data["modules"].values()
    cell = next(cell for cell in module["cells"].values() if cell["type"] == "MULT18X18D")
    cell["parameters"]["REG_INPUTA_CLK"] = "CLK0"
    with pytest.raises(CircuitError, match=r"^cell .*, a MULT18X18D, has REG_INPUTA_CLK=CLK0: no model$"):
        ecp5.read_circuit(json.dumps(data), "G2")
    cell["type"] = "ALU54B"
    with pytest.raises(CircuitError, match=r"^cell .* is a ALU54B, for which there is no model$"):
        ecp5.read_circuit(json.dumps(data), "G2")


GOWIN_ROUTE = {
    "GW1N-9C": ["nextpnr-himbaechel-gowin", "--device", "GW1NR-LV9QN88PC6/I5", "--vopt", "family=GW1N-9C"],
    "GW2A-18C": ["nextpnr-himbaechel-gowin", "--device", "GW2AR-LV18QN88C8/I7", "--vopt", "family=GW2A-18C"],
}
GOWIN_CLOCK, GOWIN_INPUTS = "52", ["25", "26", "27", "28"]
GOWIN_OUTPUTS = [str(number) for number in range(30, 38)]


def gowin_routed(design: str, pins: dict[str, str], chip: str = "GW1N-9C", script: str = "") -> str:
    """The netlist of a design in RTLIL after routing."""
    return made(
        design,
        {"pins.cst": "".join(f'IO_LOC "{net}" {pin};\n' for net, pin in pins.items())},
        ["yosys", "-q", "-p", f"read_rtlil design.il; {script} synth_gowin -nodsp -top small -json small.json"],
        [
            *GOWIN_ROUTE[chip],
            "--timing-allow-fail",
            "--vopt",
            "cst=pins.cst",
            "--json",
            "small.json",
            "--write",
            "routed.json",
        ],
        result="routed.json",
    ).decode()


def gowin_small(design: Small | Shared, chip: str = "GW1N-9C") -> str:
    pins = {"clk": GOWIN_CLOCK, "rst": "29"}
    pins |= {f"i[{n}]": pin for n, pin in enumerate(GOWIN_INPUTS)}
    pins |= {f"o[{n}]": pin for n, pin in enumerate(GOWIN_OUTPUTS)}
    return gowin_routed(to_rtlil(design, name="small"), pins, chip, design.script)


@pytest.fixture(scope="module")
def gowin_netlist() -> str:
    return gowin_small(Small())


def gowin_outputs(text: str) -> list[int | None]:
    return played(gowin.read_circuit(text, GOWIN_CLOCK), GOWIN_INPUTS, GOWIN_OUTPUTS)


def test_gowin(gowin_netlist: str) -> None:
    kinds = {"gowin_lut", "gowin_alu", "gowin_mux", "gowin_ff", "gowin_lutram", "gowin_bsram"}
    assert set(gowin.read_circuit(gowin_netlist, GOWIN_CLOCK).census) == kinds
    assert gowin_outputs(gowin_netlist) == expected(Small())


@pytest.mark.parametrize("width", [2, 4, 8, 9, 18, 36])
def test_gowin_memory_widths(width: int) -> None:
    design = Small(width, 400 if width < 18 else 600)
    assert gowin_outputs(gowin_small(design)) == expected(design)


def test_gowin_broken(gowin_netlist: str) -> None:
    """Another mode of a carry, a LUT inverted, a bit of a memory, exchanged wires of an address, a set for a reset."""
    right = expected(Small())

    def changed(kind: str, change: Callable[[Any], bool]) -> bool:
        """Whether the outputs differ where the first cell that can be is changed."""
        data = json.loads(gowin_netlist)
        [module] = data["modules"].values()
        assert any(change(cell) for cell in module["cells"].values() if cell["type"] == kind)
        return gowin_outputs(json.dumps(data)) != right

    def subtract(cell: Any) -> bool:
        found = cell["parameters"].get("ALU_MODE") == f"{2:032b}" and "RAW_ALU_LUT" not in cell["parameters"]
        if found:
            cell["parameters"]["ALU_MODE"] = f"{1:032b}"
        return found

    def invert(cell: Any) -> bool:
        found = len(cell["connections"]) == 5
        if found:
            cell["parameters"]["INIT"] = cell["parameters"]["INIT"].translate(str.maketrans("01", "10"))
        return found

    def remember(cell: Any) -> bool:
        row = cell["parameters"]["INIT_RAM_00"]
        cell["parameters"]["INIT_RAM_00"] = row[:-1] + "10"[int(row[-1])]
        return True

    def misplace(cell: Any) -> bool:
        ports = cell["connections"]
        ports["AD4"], ports["AD5"] = ports["AD5"], ports["AD4"]
        return True

    def preset(cell: Any) -> bool:
        cell["type"] = "DFFSE"
        cell["connections"]["SET"] = cell["connections"].pop("RESET")
        return True

    assert changed("ALU", subtract)
    assert changed("LUT4", invert)
    assert changed("SP", remember)
    assert changed("SP", misplace)
    assert changed("DFFRE", preset)


def test_gowin_dropped(gowin_netlist: str) -> None:
    """A connection less is an error that names the cell and the port."""
    data = json.loads(gowin_netlist)
    [module] = data["modules"].values()
    name, cell = next(
        (name, cell)
        for name, cell in module["cells"].items()
        if cell["type"] == "MUX2_LUT5" and cell["connections"]["O"]
    )
    cell["connections"]["S0"] = []
    with pytest.raises(CircuitError, match=rf"^cell {re.escape(name)}, a MUX2_LUT5, has nothing at S0: no model$"):
        gowin.read_circuit(json.dumps(data), GOWIN_CLOCK)


@pytest.mark.parametrize(
    ("chip", "kind", "memory"),
    [
        ("GW1N-9C", "SP", (18, 9)),
        ("GW1N-9C", "SP", (36, 9)),
        ("GW2A-18C", "SP", (36, 9, 1, "new")),
        ("GW2A-18C", "SP", (32, 8, 1, "nothing")),
        ("GW1N-9C", "SP", (4, 4, 1, "new")),
        ("GW1N-9C", "DP", (18, 9, 2)),
        ("GW2A-18C", "DP", (9, 9, 2)),
        ("GW1N-9C", "DP", (4, 4, 2)),
    ],
)
def test_gowin_memories(chip: str, kind: str, memory: tuple[Any, ...]) -> None:
    """Memories with one port and with two, that write bytes; a block with words of 36 bits uses both of its ports."""
    design = Shared(*memory)
    text = gowin_small(design, chip)
    [module] = json.loads(text)["modules"].values()
    assert [cell["type"] for cell in module["cells"].values() if cell["type"] in ("SP", "DP", "SDP")] == [kind]
    outputs = played(gowin.read_circuit(text, GOWIN_CLOCK), GOWIN_INPUTS, GOWIN_OUTPUTS)
    assert outputs == expected(design)


# Near each other: nextpnr as WebAssembly follows a net's lines by recursion, and has little room for that.
GATEMATE_CLOCK, GATEMATE_RESET = "IO_SB_A8", "IO_SB_B6"
GATEMATE_INPUTS = [f"IO_SB_{pin}" for pin in ("A0", "B0", "A1", "B1")]
GATEMATE_OUTPUTS = [f"IO_SB_{bank}{number}" for number in range(2, 6) for bank in "AB"]


def gatemate_routed(design: str, pins: dict[str, str], script: str = "") -> str:
    """The netlist of a design in RTLIL after routing for a CCGM1A1."""
    synthesis = "synth_gatemate -luttree -nomx8 -top small -json small.json"
    return made(
        design,
        {"pins.ccf": "".join(f'Net "{net}" Loc = "{pin}";\n' for net, pin in pins.items())},
        ["yosys", "-q", "-p", f"read_rtlil design.il; {script} {synthesis}"],
        [
            *("nextpnr-himbaechel-gatemate", "--device", "CCGM1A1", "--timing-allow-fail", "--vopt", "ccf=pins.ccf"),
            *("--vopt", "out=small.config", "--json", "small.json", "--write", "routed.json"),
        ],
        result="routed.json",
    ).decode()


def gatemate_small(design: Small | Shared) -> str:
    pins = {"clk": GATEMATE_CLOCK, "rst": GATEMATE_RESET}
    pins |= {f"i[{n}]": pin for n, pin in enumerate(GATEMATE_INPUTS)}
    pins |= {f"o[{n}]": pin for n, pin in enumerate(GATEMATE_OUTPUTS)}
    return gatemate_routed(to_rtlil(design, name="small"), pins, design.script)


@pytest.fixture(scope="module")
def gatemate_netlist() -> str:
    return gatemate_small(Small())


def gatemate_outputs(text: str) -> list[int | None]:
    return played(gatemate.read_circuit(text, GATEMATE_CLOCK), GATEMATE_INPUTS, GATEMATE_OUTPUTS)


def test_gatemate(gatemate_netlist: str) -> None:
    names = ("lut", "adder", "mult", "ff", "ram")
    census = set(gatemate.read_circuit(gatemate_netlist, GATEMATE_CLOCK).census)
    assert census - {"gatemate_mux4"} == {f"gatemate_{name}" for name in names}
    assert gatemate_outputs(gatemate_netlist) == expected(Small())


@pytest.mark.parametrize(("width", "words"), [(5, 400), (20, 600), (36, 600), (80, 200)])
def test_gatemate_memory_widths(width: int, words: int) -> None:
    design = Small(width, words)
    assert gatemate_outputs(gatemate_small(design)) == expected(design)


@pytest.mark.parametrize("memory", [(18, 9, 1, "new"), (20, 10, 2), (40, 10, 2), (5, 5, 2)])
def test_gatemate_memories(memory: tuple[Any, ...]) -> None:
    """Memories with one port and with two, that write parts of words, in halves of block RAMs and whole ones."""
    design = Shared(*memory)
    assert gatemate_outputs(gatemate_small(design)) == expected(design)


def test_gatemate_broken(gatemate_netlist: str) -> None:
    """A table inverted, a bit of a memory, exchanged wires of a sum and of a product, a line from elsewhere."""
    right = expected(Small())

    def changed(kind: str, change: Callable[[Any], bool]) -> bool:
        """Whether the outputs differ, or there is no circuit, where the first cell that can be is changed."""
        data = json.loads(gatemate_netlist)
        [module] = data["modules"].values()
        assert any(change(cell) for cell in module["cells"].values() if cell["type"] == kind)
        try:
            return gatemate_outputs(json.dumps(data)) != right
        except CircuitError:
            return True

    def invert(cell: Any) -> bool:
        table = cell["parameters"]["INIT_L10"]
        cell["parameters"]["INIT_L10"] = table.translate(str.maketrans("01", "10"))
        return True

    def remember(cell: Any) -> bool:
        row = cell["parameters"]["INIT_00"]
        found = "1" in row
        if found:
            cell["parameters"]["INIT_00"] = row.replace("1", "0", 1)
        return found

    def exchange(one: str, other: str) -> Callable[[Any], bool]:
        def change(cell: Any) -> bool:
            ports = cell["connections"]
            # The upper place of a multiplier may make nothing but signs.
            found = bool(ports.get(one) and ports.get(other)) and cell["parameters"].get("C_PY1_I") != "1"
            if found:
                ports[one], ports[other] = ports[other], ports[one]
            return found

        return change

    def divert(cell: Any) -> bool:
        found = "C_CY1_I" in cell["parameters"] and bool(cell["connections"].get("OUT1"))
        if found:
            cell["parameters"]["C_SELY1"] = "10"[int(cell["parameters"].get("C_SELY1", "0"))]
        return found

    assert changed("CPE_L2T4", invert)
    assert changed("RAM", remember)
    assert changed("CPE_ADDF2", exchange("OUT1", "OUT2"))
    assert changed("CPE_MULT", exchange("CPOUT1", "CPOUT2"))
    assert changed("CPE_CPLINES", divert)


class Multiplied(Elaboratable):
    """A counter behind a PLL, on a board's pins."""

    def __init__(self, pll: str, ports: dict[str, str], **more: Any) -> None:
        self.clk, self.o = Signal(name="clk"), Signal(4, name="o")
        self._pll = (pll, dict(more), ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.fast = fast = ClockDomain(reset_less=True)
        lock, count = Signal(), Signal(4)
        name, parameters, ports = self._pll
        wires = {"clk": self.clk, "fast": fast.clk, "lock": lock, "0": Const(0), "1": Const(1)}
        m.submodules.pll = Instance(name, **parameters, **{port: wires[wire] for port, wire in ports.items()})
        with m.If(lock):
            m.d.fast += count.eq(count + 1)
        m.d.comb += self.o.eq(count)
        return m

    @property
    def ports(self) -> list[Signal]:
        return [self.clk, self.o]


def _rtlil(design: Multiplied) -> str:
    return rtlil.convert(design, name="small", ports=design.ports, emit_src=False)


@needs_chip
def test_ice40_pll() -> None:
    """Its output is the clock of the simulation, and it has locked."""
    ports = {"i_PACKAGEPIN": "clk", "o_PLLOUTGLOBAL": "fast", "o_LOCK": "lock", "i_RESETB": "1", "i_BYPASS": "0"}
    design = Multiplied(
        "SB_PLL40_PAD", ports, p_FEEDBACK_PATH="SIMPLE", p_DIVR=0, p_DIVF=63, p_DIVQ=5, p_FILTER_RANGE=1
    )
    places = {"clk": "35", **{f"o[{n}]": pin for n, pin in enumerate(ICE40_OUTPUTS[:4])}}
    bits = made(
        _rtlil(design),
        {"pins.pcf": "".join(f"set_io {net} {pin}\n" for net, pin in places.items())},
        ["yosys", "-q", "-p", "read_rtlil design.il; synth_ice40 -device u -top small -json small.json"],
        [*ICE40_ROUTE, "--pcf", "pins.pcf", "--json", "small.json", "--asc", "small.asc"],
        ["icepack", "small.asc", "small.bin"],
        result="small.bin",
    )
    bitmap = read_bitmap(unpack(bits, lambda line: None))
    circuit = ice40.read_circuit(find_chip(bitmap.device), bitmap, "sg48", "35")
    assert circuit.clock.source == "the PLL"
    assert not circuit.inputs
    assert played(circuit, [], ICE40_OUTPUTS[:4])[:20] == [n % 16 for n in range(1, 21)]


def test_ecp5_pll() -> None:
    ports = {"i_CLKI": "clk", "i_CLKFB": "fast", "o_CLKOP": "fast", "o_LOCK": "lock", "i_RST": "0", "i_STDBY": "0"}
    design = Multiplied(
        "EHXPLLL", ports, p_CLKI_DIV=1, p_CLKFB_DIV=2, p_CLKOP_DIV=12, p_FEEDBK_PATH="CLKOP", p_CLKOP_ENABLE="ENABLED"
    )
    text = made(
        _rtlil(design),
        {"pins.lpf": 'LOCATE COMP "clk" SITE "G2";\n'},
        ["yosys", "-q", "-p", "read_rtlil design.il; synth_ecp5 -top small -json small.json"],
        [*ECP5_ROUTE, "--json", "small.json", "--textcfg", "small.config", "--write", "routed.json"],
        result="routed.json",
    ).decode()
    circuit = ecp5.read_circuit(text, "G2")
    assert circuit.clock.source == "the PLL"
    assert played(circuit, [], _places(text, {"o": 4})[0])[:20] == [n % 16 for n in range(1, 21)]


def test_gowin_pll() -> None:
    ports = {"i_CLKIN": "clk", "o_CLKOUT": "fast", "o_LOCK": "lock", "i_CLKFB": "0", "i_RESET": "0", "i_RESET_P": "0"}
    design = Multiplied("rPLL", ports, p_FCLKIN="27", p_IDIV_SEL=0, p_FBDIV_SEL=1, p_ODIV_SEL=16)
    pins = {"clk": GOWIN_CLOCK, **{f"o[{n}]": pin for n, pin in enumerate(GOWIN_OUTPUTS[:4])}}
    circuit = gowin.read_circuit(gowin_routed(_rtlil(design), pins), GOWIN_CLOCK)
    assert circuit.clock.source == "the PLL"
    assert played(circuit, [], GOWIN_OUTPUTS[:4])[:20] == [n % 16 for n in range(1, 21)]


def test_gatemate_pll() -> None:
    ports = {"i_CLK_REF": "clk", "o_CLK0": "fast", "o_USR_PLL_LOCKED": "lock", "i_CLK_FEEDBACK": "0"}
    ports |= {"i_USR_CLK_REF": "0", "i_USR_LOCKED_STDY_RST": "0"}
    filters = {"p_CI_FILTER_CONST": 2, "p_CP_FILTER_CONST": 4}
    design = Multiplied("CC_PLL", ports, p_REF_CLK="10.0", p_OUT_CLK="20.0", p_PERF_MD="ECONOMY", **filters)
    pins = {"clk": GATEMATE_CLOCK, **{f"o[{n}]": pin for n, pin in enumerate(GATEMATE_OUTPUTS[:4])}}
    circuit = gatemate.read_circuit(gatemate_routed(_rtlil(design), pins), GATEMATE_CLOCK)
    assert circuit.clock.source == "the PLL"
    # Flip-flops without a value at power-up begin at zero.
    assert played(circuit, [], GATEMATE_OUTPUTS[:4])[:20] == [n % 16 for n in range(1, 21)]
