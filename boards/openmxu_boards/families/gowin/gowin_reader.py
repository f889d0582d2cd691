"""The circuit of a Gowin GW1N or GW2A after routing, from the netlist that nextpnr writes and gowin_pack reads.

The cells are those that nextpnr has packed, placed and connected. The step from there to the bitstream is gowin_pack's,
and is not undone here.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import as_file, files
from itertools import product
from typing import Any, ClassVar

from openmxu_boards import tools
from openmxu_boards.families.circuit import ONE, ZERO, Circuit, CircuitError
from openmxu_boards.families.netlist import NetlistReader, Part, inverse, parse, port_names

_ALU_TABLES: Mapping[int | str, int] = {
    "C2L": 0, "ONE2C": 0x000F, 0: 0x606A, 1: 0x909A, 2: 0x609A, 3: 0x909F, 4: 0x909A, 6: 0xA0A0, 7: 0x505F, 8: 0xA05A
}  # fmt: skip
"""The table of an ALU by its mode, as gowin_pack writes it. Mode 5 exchanges inputs, mode 9 sets constants;
nextpnr does neither."""

_SET_RESET = {"S": "SET", "R": "RESET", "P": "PRESET", "C": "CLEAR"}
"""The port by a letter in the name of a flip-flop; the last two are asynchronous."""

_FLIP_FLOPS = ["".join(("DFF", *each)) for each in product(("", "N"), ("", *_SET_RESET), ("", "E"))]

_BYTES = {8: 9, 16: 18, 32: 36}
"""Widths with eight bits in a byte, and those with nine: at the ports, nextpnr leaves a place for the ninth bit."""

_MODES = {
    "SDP": ("READ_MODE", "", "BLKSELA BLKSELB"),
    "DP": ("READ_MODE0 READ_MODE1", "WRITE_MODE0 WRITE_MODE1", "BLKSELA BLKSELB"),
    "SP": ("READ_MODE", "WRITE_MODE WRITE_MODE", "BLKSEL BLKSELB"),
}
"""Modes of reads and of writes, and the selects, by kind of block RAM."""

_EDGES = re.compile(r"IO([TBLR])(\d+)([A-Z])")


def read_circuit(text: str, clock: str) -> Circuit:
    module = parse(text)
    reader = _GowinReader(module, clock)
    reader.pins = _pins(*(str(module["settings"].get(f"packer.{name}")) for name in ("chipdb", "partno")))
    return reader.read()


@cache
def _pins(chip: str, part: str) -> Mapping[str, str]:
    """The pins of a part by the places of their cells."""
    tools.check(["gowin_pack"])
    missing = "the routed netlist is for a {}, which Project Apicula does not have"
    table = files("apycula") / f"{chip}.msgpack.xz"
    if not table.is_file():
        raise CircuitError(missing.format(chip))
    with as_file(table) as path:
        device = import_module("apycula.chipdb").load_chipdb(str(path))
    if part not in device.packages:
        raise CircuitError(missing.format(part))
    package, variant, _ = device.packages[part]
    pins = {}
    for pin, (name, _) in device.pinout[variant][package].items():
        if edge := _EDGES.fullmatch(name):
            along = int(edge[2]) - 1
            x = {"L": 0, "R": device.cols - 1}.get(edge[1], along)
            y = {"T": 0, "B": device.rows - 1}.get(edge[1], along)
            pins[f"X{x}Y{y}/IOB{edge[3]}"] = str(pin)
    return pins


class _GowinReader(NetlistReader):
    pins: Mapping[str, str]

    def _global_set_reset(self, part: Part) -> None:
        if part.wire("GSRI") != ONE:
            raise part.no_model("is used")

    def _pll(self, part: Part) -> None:
        self._multiply(part, ("CLKOUT", "CLKOUTP", "CLKOUTD", "CLKOUTD3"), ("LOCK",))

    def _pll_resets(self, part: Part) -> None:
        if any(part.input(port, ZERO) != ZERO for port in ("RESET", "RESET_P")):
            raise part.no_model("has a reset")

    def _pin(self, part: Part) -> None:
        if "DIFF" in part.parameters:
            raise part.no_model("is half of a pair")
        bel = str(part.attributes.get("NEXTPNR_BEL", ""))
        if bel not in self.pins:
            raise CircuitError(f"cell {part.name}, a {part.kind}, is at {bel or 'no place'}, which is no pin")
        pin = self.pins[bel]
        if part.kind in ("IBUF", "IOBUF") and (wire := part.net("O")):
            self._add_input(pin, wire)
        if part.kind != "IBUF":
            enable = ONE if part.kind == "OBUF" else inverse(part.wire("OEN"))
            self._outputs[pin] = (part.wire("I"), enable)

    def _lut(self, part: Part) -> None:
        if part.net("F"):
            ports = tuple(port_names("I", int(part.kind[3])))
            truth = part.constant("INIT") & (1 << (1 << len(ports))) - 1
            inputs = part.look_up(truth, ports) + (ZERO,) * (4 - len(ports))
            self._add("gowin_lut", {"o": part.net("F")}, {"truth": f"16'd{truth}", "inputs": inputs})

    def _multiplexer(self, part: Part) -> None:
        ports = {"select": part.wire("S0"), "zero": part.wire("I0"), "one": part.wire("I1")}
        self._add("gowin_mux", {"o": part.net("O")}, ports)

    def _alu(self, part: Part) -> None:
        """An ALU. nextpnr assumes a carry of zero into the first one of a chain, if nothing drives it."""
        part.require(CIN_NETTYPE="LOGIC")
        outputs = {"o": part.net("SUM"), "co": part.net("COUT")}
        if not any(outputs.values()):
            return
        if "RAW_ALU_LUT" in part.parameters:
            truth = part.constant("RAW_ALU_LUT") & 0xFFFF
        else:
            mode = part.parameter("ALU_MODE", "")
            # A value that was no number is a text, perhaps of one digit, which gowin_pack reads differently.
            key = int(mode, 2) if re.fullmatch("[01]{2,}", mode) else mode
            if key not in _ALU_TABLES:
                raise part.no_model(f"has ALU_MODE={mode}")
            truth = _ALU_TABLES[key]
        part.look_up(truth, ("I0", "I1"))  # the inputs of the carry
        inputs = part.look_up(truth, ("I0", "I1", "I2", "I3"))
        self._add("gowin_alu", outputs, {"truth": f"16'd{truth}", "inputs": inputs, "ci": part.input("CIN", ZERO)})

    def _flip_flop(self, part: Part) -> None:
        if "LATCH" in part.attributes:
            raise part.no_model("is a latch")
        letters = part.kind.removeprefix("DFF")
        reset = next((letter for letter in letters if letter in _SET_RESET), "")
        initial = int(reset in ("S", "P"))
        if part.number("INIT", initial) != initial:
            raise part.no_model(f"has INIT={part.parameter('INIT', '')}")
        clock = part.wire("CLK")
        ports = {
            "clk": inverse(clock) if "N" in letters else clock,
            "enable": part.wire("CE") if "E" in letters else ONE,
            "sr": part.wire(_SET_RESET[reset]) if reset else ZERO,
            "d": part.wire("D"),
        }
        model = "gowin_ff_async" if reset in ("P", "C") else "gowin_ff"
        self._add(model, {"q": part.net("Q")}, ports, SET=f"1'b{initial}")

    def _lutram(self, part: Part) -> None:
        if part.wire("CE") != ONE:
            raise part.no_model("has an enable")
        width = int(part.kind[-1])
        ports: dict[str, Any] = {"clk": part.wire("CLK"), "we": part.wire("WRE")}
        ports |= {"waddr": part.wires("WAD", 4), "raddr": part.wires("RAD", 4)}
        for number, data in enumerate(part.wires("DI", width)):
            content = f"16'd{part.constant(f'INIT_{number}')}"
            output = {"o": part.net(f"DO{number}" if width > 1 else "DO")}
            self._add("gowin_lutram", output, ports | {"content": content, "d": data})

    def _semi_dual_port(self, part: Part) -> None:
        """Port A writes, port B reads."""
        widths = self._widths(part, "BIT_WIDTH_0", "BIT_WIDTH_1")
        ports = self._port(part, "a", "A", "DI", "WREA") | self._port(part, "b", "B")
        # The lower half of the wires is the other port's; words of 36 bits take both.
        turn = 0 if widths[1] == 36 else 18
        shown = [f"DO{(number + turn) % 36}" for number in range(36)]
        self._memory(part, ports, {"dob": part.outputs(shown)}, widths)

    def _dual_port(self, part: Part) -> None:
        widths = self._widths(part, "BIT_WIDTH_0", "BIT_WIDTH_1")
        ports = self._port(part, "a", "A", "DIA", "WREA") | self._port(part, "b", "B", "DIB", "WREB")
        outputs = {f"do{port}".lower(): part.outputs(port_names(f"DO{port}", 36)) for port in "AB"}
        self._memory(part, ports, outputs, widths)

    def _single_port(self, part: Part) -> None:
        """Words of 36 bits are halves at both ports, of which port B's has addresses and controls of its own."""
        [width] = self._widths(part, "BIT_WIDTH")
        ports, shown = self._port(part, "a", "", "DI", "WRE"), part.outputs(port_names("DO", 36))
        outputs = {"doa": shown}
        if width == 36:
            width, unused = 18, [None] * 18
            ports |= self._port(part, "b", "B", "", "WREB")
            ports["dib"] = part.inputs(port_names("DI", 18, 18)) + (ZERO,) * 18
            outputs = {"doa": (*shown[:18], *unused), "dob": (*shown[18:], *unused)}
        else:
            ports |= {"clkb": ZERO, "ceb": ZERO, "web": ZERO, "adb": (ZERO,) * 14, "dib": (ZERO,) * 36}
        self._memory(part, ports, outputs, (width, width))

    def _widths(self, part: Part, *names: str) -> tuple[int, ...]:
        """Bits of a word at each port, where bytes have nine."""
        widths = {name: part.constant(name) for name in names}
        for name, width in widths.items():
            if width not in ((9, 18, 36) if _has_nine(part) else (1, 2, 4, 8, 16, 32)):
                raise part.no_model(f"has {name}={width}")
        return tuple(_BYTES.get(width, width) for width in widths.values())

    def _port(self, part: Part, model: str, port: str, data: str = "", write: str = "") -> dict[str, Any]:
        """Clock, enable, address, data and write enable of one port."""
        return {
            f"clk{model}": part.wire(f"CLK{port}"),
            f"ce{model}": part.wire(f"CE{port}"),
            f"ad{model}": part.wires(f"AD{port}", 14),
            f"di{model}": part.inputs(port_names(data, 36)) if data else (ZERO,) * 36,
            f"we{model}": part.wire(write) if write else ZERO,
        }

    def _memory(
        self, part: Part, ports: Mapping[str, Any], outputs: Mapping[str, Any], widths: tuple[int, ...]
    ) -> None:
        """A block RAM, without output registers and resets, always selected."""
        reads, writes, selects = _MODES[part.kind]
        part.require(**dict.fromkeys(reads.split(), "0"))
        if any(part.input(port, ZERO) != ZERO for port in ("RESET", "RESETA", "RESETB")):
            raise part.no_model("has a reset")
        for number, port in enumerate(selects.split()[: 1 + ("dob" in outputs)]):
            wanted = part.number(f"BLK_SEL_{number}", part.number("BLK_SEL", 0))
            if part.wires(port, 3) != tuple(ONE if wanted >> bit & 1 else ZERO for bit in range(3)):
                raise part.no_model(f"is not selected at {port}")
        modes = [part.number(name, 0) for name in writes.split()] or [0, 0]
        if unknown := set(modes) - {0, 1, 2}:
            raise part.no_model(f"has a write mode of {min(unknown)}")
        # 2048 bytes of nine bits, 32 to a parameter; bytes of eight lack the highest.
        size = 9 if _has_nine(part) else 8
        content = f"18432'h{part.content('INIT_RAM', 64, 32, (size, size, 9)):x}"
        numbers = dict(zip(("WIDTH_A", "WIDTH_B", "WRITE_A", "WRITE_B"), map(str, (*widths, *modes)), strict=True))
        outputs = {"doa": [None] * 36, "dob": [None] * 36} | dict(outputs)
        self._add("gowin_bsram", outputs, ports, **numbers, CONTENT=content)

    rules: ClassVar = {
        "GOWIN_GND": (lambda self, part: self._set(part, "G", ZERO), None),
        "GOWIN_VCC": (lambda self, part: self._set(part, "V", ONE), None),
        "BUFG": (lambda self, part: self._pass(part, "I", "O"), None),
        "GSR": (None, _global_set_reset),
        "rPLL": (_pll, _pll_resets),
        # Blockers keep places free.
        **dict.fromkeys(("BLOCKER_LUT", "BLOCKER_FF"), (None, None)),
        **dict.fromkeys(("IBUF", "OBUF", "TBUF", "IOBUF"), (None, _pin)),
        **dict.fromkeys(port_names("LUT", 4, 1), (None, _lut)),
        **dict.fromkeys(port_names("MUX2_LUT", 4, 5), (None, _multiplexer)),
        "ALU": (None, _alu),
        **dict.fromkeys(_FLIP_FLOPS, (None, _flip_flop)),
        **dict.fromkeys(("RAM16SDP1", "RAM16SDP2", "RAM16SDP4"), (None, _lutram)),
        "SDP": (None, _semi_dual_port),
        "DP": (None, _dual_port),
        "SP": (None, _single_port),
    }


def _has_nine(part: Part) -> bool:
    """Whether a memory's bytes have nine bits."""
    return str(part.attributes.get("BSRAM_SUBTYPE", "")).strip() == "X9"
