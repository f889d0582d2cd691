"""The circuit of a Gowin GW1N or GW2A after routing, from the netlist that nextpnr writes and gowin_pack reads.

The cells are those that nextpnr has packed, placed and connected. The step from there to the bitstream is gowin_pack's,
and is not undone here.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import as_file, files
from typing import Any, ClassVar

from openmxu_boards import tools
from openmxu_boards.families.circuit import ONE, ZERO, Circuit, CircuitError
from openmxu_boards.families.netlist import Part, Reader, inverse, parse

_ALU_TABLES: Mapping[int | str, int] = {
    "C2L": 0x0000,
    "ONE2C": 0x000F,
    0: 0x606A,
    1: 0x909A,
    2: 0x609A,
    3: 0x909F,
    4: 0x909A,
    6: 0xA0A0,
    7: 0x505F,
    8: 0xA05A,
}
"""The table of an ALU by its mode, as gowin_pack writes it. Mode 5 exchanges inputs, mode 9 has constants at others;
nextpnr does neither."""

_SET_RESET = {"S": "SET", "R": "RESET", "P": "PRESET", "C": "CLEAR"}
"""The port by a letter in the name of a flip-flop; the last two are asynchronous."""

_FLIP_FLOPS = [
    f"DFF{falling}{reset}{enable}" for falling in ("", "N") for reset in ("", *_SET_RESET) for enable in ("", "E")
]

_BYTES = {8: 9, 16: 18, 32: 36}
"""Widths with eight bits in a byte, and those with nine: at the ports, nextpnr leaves a place for the ninth bit."""

_EDGES = re.compile(r"IO([TBLR])(\d+)([A-Z])")


def read_circuit(text: str, clock: str) -> Circuit:
    """The circuit of a routed netlist."""
    module = parse(text)
    settings = module.get("settings", {})
    return _Reader(module, clock, _pins(str(settings.get("packer.chipdb")), str(settings.get("packer.partno")))).read()


@cache
def _pins(chip: str, part: str) -> Mapping[str, str]:
    """The pins of a part by the places of their cells."""
    tools.check(["gowin_pack"])
    table = files("apycula") / f"{chip}.msgpack.xz"
    if not table.is_file():
        raise CircuitError(f"the routed netlist is for a {chip}, which Project Apicula does not have")
    with as_file(table) as path:
        device = import_module("apycula.chipdb").load_chipdb(str(path))
    if part not in device.packages:
        raise CircuitError(f"the routed netlist is for a {part}, which Project Apicula does not have")
    package, variant, _ = device.packages[part]
    pins = {}
    for pin, (name, _) in device.pinout[variant][package].items():
        if edge := _EDGES.fullmatch(name):
            along = int(edge[2]) - 1
            x = {"L": 0, "R": device.cols - 1}.get(edge[1], along)
            y = {"T": 0, "B": device.rows - 1}.get(edge[1], along)
            pins[f"X{x}Y{y}/IOB{edge[3]}"] = str(pin)
    return pins


class _Reader(Reader):
    def __init__(self, module: Mapping[str, Any], clock: str, pins: Mapping[str, str]) -> None:
        super().__init__(module, clock)
        self._pins = pins

    # Cells that pass wires on, or constants

    def _global_set_reset(self, part: Part) -> None:
        if part.wire("GSRI") != ONE:
            raise part.no_model("is used")

    def _pll(self, part: Part) -> None:
        made = [port for port in ("CLKOUT", "CLKOUTP", "CLKOUTD", "CLKOUTD3") if port in part.nets]
        self._multiply(part, made, ("LOCK",))

    def _pll_resets(self, part: Part) -> None:
        if any(part.input(port, ZERO) != ZERO for port in ("RESET", "RESET_P")):
            raise part.no_model("has a reset")

    # Pins

    def _place(self, part: Part) -> str:
        if "DIFF" in part.parameters:
            raise part.no_model("is half of a pair")
        bel = str(part.attributes.get("NEXTPNR_BEL", ""))
        if bel not in self._pins:
            raise CircuitError(f"cell {part.name}, a {part.kind}, is at {bel or 'no place'}, which is no pin")
        return self._pins[bel]

    def _input_pin(self, part: Part) -> None:
        pin = self._place(part)
        if wire := part.net("O"):
            self._add_input(pin, wire)

    def _output_pin(self, part: Part) -> None:
        enable = ONE if part.kind == "OBUF" else inverse(part.wire("OEN"))
        self._outputs[self._place(part)] = (part.wire("I"), enable)

    def _both(self, part: Part) -> None:
        self._input_pin(part)
        self._output_pin(part)

    # Cells with a model

    def _lut(self, part: Part) -> None:
        if part.net("F"):
            ports = tuple(f"I{number}" for number in range(int(part.kind[3])))
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
        ports = {"truth": f"16'd{truth}", "inputs": inputs, "ci": part.input("CIN", ZERO)}
        self._add("gowin_alu", outputs, ports)

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

    # Block RAMs

    def _semi_dual_port(self, part: Part) -> None:
        """Port A writes, port B reads."""
        writes, reads = self._width(part, "BIT_WIDTH_0"), self._width(part, "BIT_WIDTH_1")
        self._check_memory(part, ("READ_MODE",), ("BLKSELA", "BLKSELB"))
        inputs: dict[str, Any] = self._port(part, "a", "A", "DI") | {"wea": part.wire("WREA")}
        inputs |= self._port(part, "b", "B", "") | {"web": ZERO}
        # The lower half of the wires is the other port's; words of 36 bits take both.
        turn = 0 if reads == 36 else 18
        outputs = {"dob": part.outputs([f"DO{(number + turn) % 36}" for number in range(36)])}
        self._add_memory(part, inputs, outputs, (writes, reads), (0, 0))

    def _dual_port(self, part: Part) -> None:
        widths = (self._width(part, "BIT_WIDTH_0"), self._width(part, "BIT_WIDTH_1"))
        self._check_memory(part, ("READ_MODE0", "READ_MODE1"), ("BLKSELA", "BLKSELB"))
        inputs: dict[str, Any] = {}
        outputs = {}
        for port in "AB":
            inputs |= self._port(part, port.lower(), port, f"DI{port}") | {f"we{port.lower()}": part.wire(f"WRE{port}")}
            outputs[f"do{port}".lower()] = part.outputs([f"DO{port}{number}" for number in range(36)])
        self._add_memory(part, inputs, outputs, widths, (part.number("WRITE_MODE0", 0), part.number("WRITE_MODE1", 0)))

    def _single_port(self, part: Part) -> None:
        """Words of 36 bits are halves at both ports, of which port B's has addresses and controls of its own."""
        width = self._width(part, "BIT_WIDTH")
        mode = part.number("WRITE_MODE", 0)
        inputs: dict[str, Any] = self._port(part, "a", "", "DI") | {"wea": part.wire("WRE")}
        outputs = {"doa": part.outputs([f"DO{number}" for number in range(36)])}
        widths = (width, width)
        if width == 36:
            widths = (18, 18)
            inputs |= self._port(part, "b", "B", "") | {"web": part.wire("WREB")}
            inputs["dib"] = part.inputs([f"DI{number + 18}" for number in range(18)]) + (ZERO,) * 18
            outputs = {"doa": (*part.outputs([f"DO{number}" for number in range(18)]), *[None] * 18)}
            outputs |= {"dob": (*part.outputs([f"DO{number + 18}" for number in range(18)]), *[None] * 18)}
        else:
            inputs |= {"clkb": ZERO, "ceb": ZERO, "web": ZERO, "adb": (ZERO,) * 14, "dib": (ZERO,) * 36}
        self._check_memory(part, ("READ_MODE",), ("BLKSEL", "BLKSELB") if width == 36 else ("BLKSEL",))
        self._add_memory(part, inputs, outputs, widths, (mode, mode))

    def _width(self, part: Part, name: str) -> int:
        """Bits of a word, where bytes have nine."""
        width = part.constant(name)
        if width not in ((9, 18, 36) if _has_nine(part) else (1, 2, 4, 8, 16, 32)):
            raise part.no_model(f"has {name}={width}")
        return _BYTES.get(width, width)

    def _port(self, part: Part, model: str, port: str, data: str) -> dict[str, Any]:
        """Clock, enable, address and data of one port."""
        address = f"AD{port}"
        return {
            f"clk{model}": part.wire(f"CLK{port}"),
            f"ce{model}": part.wire(f"CE{port}"),
            f"ad{model}": part.wires(address, 14),
            f"di{model}": part.inputs([f"{data}{number}" for number in range(36)]) if data else (ZERO,) * 36,
        }

    def _check_memory(self, part: Part, modes: tuple[str, ...], selects: tuple[str, ...]) -> None:
        """Check that a memory has no output registers and no resets, and is always selected."""
        part.require(**dict.fromkeys(modes, "0"))
        if any(part.input(port, ZERO) != ZERO for port in ("RESET", "RESETA", "RESETB")):
            raise part.no_model("has a reset")
        for number, port in enumerate(selects):
            wanted = part.number(f"BLK_SEL_{number}", part.number("BLK_SEL", 0))
            if part.wires(port, 3) != tuple(ONE if wanted >> bit & 1 else ZERO for bit in range(3)):
                raise part.no_model(f"is not selected at {port}")

    def _add_memory(
        self,
        part: Part,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        widths: tuple[int, int],
        writes: tuple[int, int],
    ) -> None:
        for mode in writes:
            if mode not in (0, 1, 2):
                raise part.no_model(f"has a write mode of {mode}")
        parameters = {"WIDTH_A": str(widths[0]), "WIDTH_B": str(widths[1])}
        # 2048 bytes of nine bits, 32 to a parameter; bytes of eight lack the highest.
        size = 9 if _has_nine(part) else 8
        content = f"18432'h{part.content('INIT_RAM', 64, 32, (size, size, 9)):x}"
        parameters |= {"WRITE_A": str(writes[0]), "WRITE_B": str(writes[1]), "CONTENT": content}
        self._add("gowin_bsram", {"doa": [None] * 36, "dob": [None] * 36} | dict(outputs), inputs, **parameters)

    rules: ClassVar = {
        "GOWIN_GND": (lambda self, part: self._set(part, "G", ZERO), None),
        "GOWIN_VCC": (lambda self, part: self._set(part, "V", ONE), None),
        "BUFG": (lambda self, part: self._pass(part, "I", "O"), None),
        "GSR": (None, _global_set_reset),
        "rPLL": (_pll, _pll_resets),
        # Blockers keep places free.
        "BLOCKER_LUT": (None, None),
        "BLOCKER_FF": (None, None),
        "IBUF": (None, _input_pin),
        "OBUF": (None, _output_pin),
        "TBUF": (None, _output_pin),
        "IOBUF": (None, _both),
        **dict.fromkeys(("LUT1", "LUT2", "LUT3", "LUT4"), (None, _lut)),
        **dict.fromkeys(("MUX2_LUT5", "MUX2_LUT6", "MUX2_LUT7", "MUX2_LUT8"), (None, _multiplexer)),
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
