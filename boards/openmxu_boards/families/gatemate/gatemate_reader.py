"""The circuit of a GateMate after routing, from the netlist that nextpnr writes then.

The cells are those that nextpnr has packed and placed; where it has routed through cells and along the lines between
them, the netlist has cells for that, too. The step from there to the bitstream is not undone here: nextpnr inverts
tables behind inverting wires of the device, which the netlist does not show, and gmpack packs.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from openmxu_boards.families.circuit import ONE, ZERO, Circuit
from openmxu_boards.families.netlist import Part, Reader, inverse, parse

_BANKS = {
    "left": {27: "SA", 71: "SB"},
    "right": {27: "NA", 71: "NB"},
    "bottom": {7: "WA", 59: "WB", 103: "WC"},
    "top": {59: "EA", 103: "EB"},
}
"""Banks of a CCGM1A1 on each edge by their first column or row; pins A0, B0, A1 … follow at every second one."""

_RIGHT, _TOP = 165, 133
"""The last column and row."""

_FROM_FABRIC, _LOW, _HIGH = "00000000", "00000011", "00010011"
"""Sources of a block RAM's control: the fabric, constant low, constant high."""

_CLOCKS = {"00100011": "CLOCK1", "00110011": "CLOCK2", "00000011": "CLOCK3", "00010011": "CLOCK4"}
"""Global clocks of a block RAM by its configuration."""

_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 5, 4: 10, 5: 20, 6: 40, 7: 80}

_CARRY_IN, _ADD_CARRY = "101", "111"
"""Functions of a lower half: the carry is one more input of its second table, or inverts its output."""

_ADDER_CARRIES = ("COUTY1", "CPOUT2")
"""The outputs of an adder that show its carry."""

_LINES = {
    "COUTX": ("CX", "X", "C", ("OUT1", "OUT2"), ("COMPOUT", "CINY")),
    "POUTX": ("PX", "X", "P", ("OUT2", "OUT1"), ("COMPOUT", "PINY")),
    "COUTY1": ("CY1", "Y1", "C", ("OUT2", "OUT1"), ("COMPOUT", "CINX")),
    "POUTY1": ("PY1", "Y1", "P", ("OUT1", "OUT2"), ("COMPOUT", "PINX")),
    "COUTY2": ("CY2", "Y2", "C", ("OUT1", "OUT2"), ("COMPOUT", "CINX")),
    "POUTY2": ("PY2", "Y2", "P", ("OUT2", "OUT1"), ("COMPOUT", "PINX")),
}
"""For each line that leaves a CPE: the parameters that choose its source, and the sources."""


def read_circuit(text: str, clock: str) -> Circuit:
    """The circuit of a routed netlist."""
    return _Reader(parse(text), clock).read()


def _pin(bel: str) -> str:
    """The pin at a place such as ``X0Y51/GPIO``; empty if there is none."""
    match = re.match(r"X(\d+)Y(\d+)/", bel)
    if match is None:
        return ""
    x, y = int(match[1]), int(match[2])
    edges = {"left": (x == 0, y), "right": (x == _RIGHT, y), "bottom": (y == 0, x), "top": (y == _TOP, x)}
    for edge, (there, along) in edges.items():
        for begin, bank in _BANKS[edge].items() if there else ():
            number, odd = divmod(along - begin, 2)
            if 0 <= number < 18 and not odd:
                return f"IO_{bank}_{'AB'[number % 2]}{number // 2}"
    return ""


class _Reader(Reader):
    def __init__(self, module: Mapping[str, Any], clock: str) -> None:
        super().__init__(module, clock)
        driven = {
            f"n{bit}"
            for cell in module["cells"].values()
            for port, bits in cell["connections"].items()
            if cell.get("port_directions", {}).get(port) != "input"
            for bit in bits
        }
        self._sizes = {}
        for part, entry in zip(self._parts, module["cells"].values(), strict=True):
            self._sizes[part.name] = {port: len(bits) for port, bits in entry["connections"].items()}
            # Unused bits of buses carry placeholder nets, which nothing drives.
            part.nets = {port: net for port, net in part.nets.items() if net in driven}

    # Pins and clocks

    def _pin(self, part: Part) -> str:
        bel = str(part.attributes.get("NEXTPNR_BEL", ""))
        if not (pin := _pin(bel)):
            raise part.no_model(f"is at {bel or 'no place'}, which is no pin of a CCGM1A1")
        return pin

    def _input_pin(self, part: Part) -> None:
        if wire := part.net("Y"):
            self._add_input(self._pin(part), wire)

    def _output_pin(self, part: Part) -> None:
        self._outputs[self._pin(part)] = (part.wire("A"), ONE)

    def _between(self, part: Part) -> None:
        """The connections between a pin and the fabric, without registers."""
        registers = {f"{pin}_FF": "0" for pin in ("OUT1", "OUT2", "IN1", "IN2")}
        part.require(**registers, USE_DDR="0", USE_CFG_BIT="0", OE_SIGNAL="00", LVDS_EN="0")
        second = part.number("OUT23_14_SEL", 0)
        if part.number("OUT_SIGNAL", 0):
            names = ("OUT2", "OUT3") if second else ("OUT1", "OUT4")
            self._set(part, "GPIO_OUT", part.wire(names[part.number("OUT2_3" if second else "OUT1_4", 0)]))
        else:
            self._set(part, "GPIO_OUT", ONE if second else ZERO)
        for port in ("IN1", "IN2"):
            if port in part.nets:
                self._set(part, port, part.wire("GPIO_IN"))

    def _clock_input(self, part: Part) -> None:
        for number in range(4):
            if f"CLK_REF{number}" in part.nets:
                chosen = part.number(f"REF{number}", 0)
                part.require(**{f"REF{number}_INV": "0"})
                if chosen > 3:
                    raise part.no_model(f"has REF{number}={chosen:03b}")
                self._set(part, f"CLK_REF{number}", part.wire(f"CLK{chosen}"))

    def _clock_output(self, part: Part) -> None:
        """A global clock: the output of a PLL, or its reference."""
        for number in range(4):
            if f"GLB{number}" in part.nets:
                part.require(**{f"GLB{number}_EN": "1", f"USR_GLB{number}_EN": "0"})
                chosen = part.number(f"GLB{number}_CFG", 0)
                if chosen not in (0, 4):
                    raise part.no_model(f"has GLB{number}_CFG={chosen:03b}")
                self._set(part, f"GLB{number}", part.wire(f"CLK0_{number}" if chosen else f"CLK_REF_OUT{number}"))

    def _pll(self, part: Part) -> None:
        part.require(CLK180_DOUB="0", CLK270_DOUB="0", CFG_A_EN_USR_CFG="0")
        made = [port for port in ("CLK0", "CLK90", "CLK180", "CLK270") if port in part.nets]
        self._multiply(part, made, ("USR_PLL_LOCKED", "USR_PLL_LOCKED_STDY"))

    # Cells that pass wires on

    def _bridge(self, part: Part) -> None:
        part.require(C_BR="1")
        self._set(part, "MUXOUT", part.wire(f"IN{part.constant('C_SN') + 1}"))

    def _memory_wires(self, part: Part) -> None:
        for source, target in (("I", "RAM_O"), ("RAM_I", "OUT")):
            if target in part.nets:
                self._set(part, target, part.wire(source))

    def _lines(self, part: Part) -> None:
        for port, (begin, select, kind, plain, special) in _LINES.items():
            if port not in part.nets:
                continue
            if not part.number(f"C_{begin}_I", 0):
                source = port.replace("OUT", "IN")
            else:
                chosen = part.number(f"C_SEL{select}", 0)
                source = (special if part.number(f"C_SEL_{kind}", 0) else plain)[chosen]
                if source.endswith("Y"):
                    source += "2" if part.number("C_Y12", 0) else "1"
            self._set(part, port, part.wire(source))

    def _join(self, part: Part, ports: Sequence[str]) -> str | None:
        """The first net at ports with the same value; the others become aliases of it."""
        nets = [part.net(port) for port in ports if port in part.nets]
        for other in nets[1:]:
            if other and other != nets[0]:
                self._alias[other] = nets[0] or ""
        return nets[0] if nets else None

    # Tables and sums

    def _half(self, part: Part) -> None:
        upper = part.number("L2T4_UPPER", 0)
        function = "000" if upper else part.parameter("C_FUNCTION", "000")
        if function not in ("000", _CARRY_IN, _ADD_CARRY):
            raise part.no_model(f"has C_FUNCTION={function}")
        second, fourth = ("C_I1", "C_I2") if upper else ("C_I3", "C_I4")
        ports = (
            "IN1",
            "PINY1" if part.number(second, 0) else "IN2",
            "IN3",
            ("CINX" if upper else "PINX") if part.number(fourth, 0) else "IN4",
            "COMBIN",
            "CINX" if part.number("C_HORIZ", 0) else "CINY1",
        )
        first, other, behind = (part.constant(f"INIT_{name}") for name in ("L00", "L01", "L10"))
        last = 0b1100 if upper else part.constant("INIT_L20")
        truth = 0
        for index in range(64):
            *bits, partner, carry = (index >> number & 1 for number in range(6))
            left, right = first >> (bits[0] | bits[1] << 1) & 1, other >> (bits[2] | bits[3] << 1) & 1
            if function == _CARRY_IN:
                right |= carry
            out = last >> (partner | (behind >> (left | right << 1) & 1) << 1) & 1
            truth |= (out ^ (carry if function == _ADD_CARRY else 0)) << index
        self._table(part, "OUT", truth, ports)

    def _compare(self, part: Part) -> None:
        self._table(part, "COMPOUT", ~part.constant("INIT_L30") & 0xF, ("COMB1", "COMB2"))

    def _table(self, part: Part, output: str, truth: int, ports: tuple[str, ...]) -> None:
        inputs = part.look_up(truth, ports) + (ZERO,) * (6 - len(ports))
        self._add("gatemate_lut", {"o": part.net(output)}, {"truth": f"64'd{truth}", "inputs": inputs})

    def _operand(self, part: Part, table: str, first: int) -> tuple[str, tuple[str, ...]]:
        """A table with two inputs, and the inputs, of which the second may be a line."""
        instead = {1: ("C_I1", "PINY1"), 3: ("C_I2", "CINX"), 5: ("C_I3", "PINY1"), 7: ("C_I4", "PINX")}
        parameter, line = instead[first]
        truth = part.constant(table)
        inputs = part.look_up(truth, (f"IN{first}", line if part.number(parameter, 0) else f"IN{first + 1}"))
        return f"4'd{truth}", inputs

    def _multiplexer(self, part: Part) -> None:
        part.require(INIT_L20="1100")
        used, inverted = part.constant("INIT_L10"), part.constant("INIT_L11")
        low, select_low = self._operand(part, "INIT_L02", 5)
        high, select_high = self._operand(part, "INIT_L03", 7)
        inputs = tuple(part.wire(f"IN{n + 1}") if used >> n & 1 else ZERO for n in range(4))
        ports = {"low": low, "high": high, "select": select_low + select_high, "inputs": inputs}
        ports |= {"used": f"4'd{used}", "inverted": f"4'd{inverted}"}
        self._add("gatemate_mux4", {"o": part.net("OUT1")}, ports)

    def _carries(self, part: Part) -> None:
        self._join(part, _ADDER_CARRIES)

    def _adder(self, part: Part) -> None:
        self._sum(part, "OUT1", ("INIT_L00", 1), ("INIT_L01", 3), part.wire("CINY1"), self._join(part, _ADDER_CARRIES))

    def _two_adders(self, part: Part) -> None:
        if any(port in part.nets for port in ("CPOUT1", "CPOUT2")):
            raise part.no_model("has a carry at an output")
        carry = f"carry_{len(self._cells)}"
        self._sum(part, "OUT1", ("INIT_L02", 5), ("INIT_L03", 7), part.wire("CINY1"), carry)
        self._sum(part, "OUT2", ("INIT_L00", 1), ("INIT_L01", 3), carry, part.net("COUTY1"))

    def _sum(
        self, part: Part, output: str, left: tuple[str, int], right: tuple[str, int], carry: str, out: str | None
    ) -> None:
        (left_truth, left_inputs), (right_truth, right_inputs) = (self._operand(part, *pair) for pair in (left, right))
        ports = {"left": left_truth, "right": right_truth, "inputs": left_inputs + right_inputs, "ci": carry}
        self._add("gatemate_adder", {"o": part.net(output), "co": out}, ports)

    def _product_wires(self, part: Part) -> None:
        """Join the outputs of a multiplier's cell that show the same bit, and pass on lines that cross the cell."""
        for ports in self._product_outputs(part):
            self._join(part, ports)
        if "POUTY2" in part.nets:
            self._set(part, "POUTY2", part.wire("PINY2"))
        if "POUTY1" in part.nets and not part.number("C_PY1_I", 0):
            self._set(part, "POUTY1", part.wire("PINY1"))

    def _product_outputs(self, part: Part) -> tuple[list[str], list[str]]:
        """Ports with the lower and the upper bit."""
        lower, upper = ["POUTX"], ["COUTX", "CPOUT2"]
        (upper if part.number("C_C_P", 0) else lower).append("CPOUT1")
        if part.number("C_PY1_I", 0):
            upper.append("POUTY1")
        return lower, upper

    def _product(self, part: Part) -> None:
        part.require(INIT_L00="1000", INIT_L01="1100", INIT_L02="1000", INIT_L03="1100", INIT_L10="0110")
        part.require(INIT_L11="0110", INIT_L20="1100", C_FUNCTION="011", C_I1="1", C_I2="1", C_I3="1", C_I4="1")
        ports: dict[str, Any] = {
            "a": (part.wire("IN8"), part.wire("IN5"), part.wire("IN1")),
            "inverted": ONE if part.number("MULT_INVERT", 0) else ZERO,
            "b": (part.wire("PINY2"), part.wire("PINY1")),
            "sum": (part.wire("PINX"), part.wire("CINX")),
            "carry": (part.wire("CINY2"), part.wire("CINY1")),
        }
        lower, upper = (self._join(part, names) for names in self._product_outputs(part))
        self._add("gatemate_mult", {"o": [lower, upper], "carry_out": [part.net("COUTY2"), part.net("COUTY1")]}, ports)

    # Registers and memories

    def _flip_flop(self, part: Part) -> None:
        part.require(C_CLKSEL="0", C_ENSEL="0")
        clock, enable, reset, set_ = (part.constant(f"C_CPE_{name}") for name in ("CLK", "EN", "RES", "SET"))
        if clock not in (1, 2):
            raise part.no_model(f"has C_CPE_CLK={clock:02b}")
        if set_ in (1, 2) and not part.number("C_EN_SR", 0):
            raise part.no_model("is set by its enable")
        ports = {
            "clk": part.wire("CLK") if clock == 2 else inverse(part.wire("CLK")),
            "enable": {0: ZERO, 3: ONE}.get(enable) or _sense(part.wire("EN"), enable == 2),
            "reset": {0: ONE, 3: ZERO}.get(reset) or _sense(part.wire("SR"), reset == 1),
            "set": {0: ONE, 3: ZERO}.get(set_) or _sense(part.wire("SR"), set_ == 1),
            "d": part.wire("DIN"),
        }
        initial = part.number("FF_INIT", 0b10)
        self._add("gatemate_ff", {"q": part.net("DOUT")}, ports, INIT=f"1'b{initial & 1}")

    def _block_ram(self, part: Part) -> None:
        part.require(RAM_cfg_ecc_enable="00", RAM_cfg_cascade_enable="00")
        if fifo := next((name for name in part.parameters if "fifo" in name), ""):
            raise part.no_model(f"has {fifo}")
        mode = part.constant("RAM_cfg_sram_mode")
        for half in range(2) if mode & 1 else range(1):
            if f"RAM_cfg_forward_a{half}_clk" in part.parameters:
                self._memory(part, half, halved=bool(mode & 1), simple=bool(mode & 2))

    def _memory(self, part: Part, half: int, *, halved: bool, simple: bool) -> None:
        """A block RAM or half of one; in simple ones, port A writes and port B reads, by the wires of both."""
        ports, widths = {}, {}
        for port in "ab":
            part.require(**{f"RAM_cfg_{port}{half}_set_outputreg": "0"})
            wide = max(part.constant(f"RAM_cfg_{way}put_config_{port}{half}") for way in ("in", "out"))
            widths[port] = _WIDTHS[wide] or 1
            inversion = part.constant(f"RAM_cfg_inversion_{port}{half}")
            for bit, control, name in ((0, "en", "EN"), (1, "we", "GLWE")):
                level = self._control(part, f"{port}{half}_{control}", f"{name}{port.upper()}", half)
                ports[f"{control}{port}"] = inverse(level) if inversion >> bit & 1 else level
            level = self._ram_clock(part, port, half)
            ports[f"clk{port}"] = inverse(level) if inversion & 4 else level
        data, masks, shown = (
            {port: self._bus(part, f"{name}{port.upper()}", half, halved=halved) for port in "ab"}
            for name in ("DI", "WE", "DO")
        )
        inputs: dict[str, Any] = dict(ports)
        for port in "ab":
            inputs[f"addr{port}"] = part.inputs([f"ADDR{port.upper()}{half}{n}" for n in range(16)], ZERO)
        for target, source in (("di", data), ("mask", masks)):
            names = {"a": source["a"] + source["b"], "b": ()} if simple else source
            for port in "ab":
                wires = part.inputs(names[port], ZERO)
                inputs[f"{target}{port}"] = wires + (ZERO,) * (80 - len(wires))
        names = {"a": (), "b": shown["a"] + shown["b"]} if simple else shown
        outputs = {f"do{port}": [*part.outputs(names[port]), *[None] * (80 - len(names[port]))] for port in "ab"}
        parameters = {f"WIDTH_{port.upper()}": str(widths[port]) for port in "ab"}
        for port in "ab":
            parameters[f"THROUGH_{port.upper()}"] = part.parameter(f"RAM_cfg_{port}{half}_writemode", "0")
        # 512 rows of 80 bits, four to a parameter; the lower 40 are the first half's.
        content = f"40960'h{part.content('INIT', 128, 4, (80, 40 if halved else 80, 80), 40 * half):x}"
        self._add("gatemate_ram", outputs, inputs, **parameters, HALF=str(int(halved)), CONTENT=content)

    def _bus(self, part: Part, port: str, half: int, *, halved: bool) -> tuple[str, ...]:
        """The ports with a word: 40, or the 20 of a half, which are the only ones where the other half is not used."""
        size, width = self._sizes[part.name].get(port, 0), 20 if halved else 40
        if size not in (0, width, 40):
            raise part.no_model(f"has {size} wires at {port}")
        begin = 20 * half if size == 40 else 0
        return tuple(f"{port}{begin + number}" for number in range(width))

    def _control(self, part: Part, parameter: str, port: str, half: int) -> str:
        forward = part.parameter(f"RAM_cfg_forward_{parameter}", _LOW)
        if forward != _FROM_FABRIC:
            if forward not in (_LOW, _HIGH):
                raise part.no_model(f"has RAM_cfg_forward_{parameter}={forward}")
            return ONE if forward == _HIGH else ZERO
        return part.wire(port if self._sizes[part.name].get(port) == 1 else f"{port}{2 * half}")

    def _ram_clock(self, part: Part, port: str, half: int) -> str:
        """A global clock; a port that is not used has none."""
        forward = part.parameter(f"RAM_cfg_forward_{port}{half}_clk", _FROM_FABRIC)
        if forward in _CLOCKS:
            return part.wire(_CLOCKS[forward])
        name = f"CLK{port.upper()}"
        if forward != _FROM_FABRIC or any(net.startswith(name) for net in part.nets):
            raise part.no_model(f"has a clock of its own at port {port.upper()}")
        return ZERO

    rules: ClassVar = {
        "CPE_IBUF": (None, _input_pin),
        "CPE_OBUF": (None, _output_pin),
        "IOSEL": (_between, None),
        "CLKIN": (_clock_input, None),
        "GLBOUT": (_clock_output, None),
        "PLL": (_pll, None),
        "USR_RSTN": (lambda self, part: self._set(part, "USR_RSTN", ONE), None),
        "CPE_BRIDGE": (_bridge, None),
        "CPE_CPLINES": (_lines, None),
        **dict.fromkeys(("CPE_RAMI", "CPE_RAMO", "CPE_RAMIO"), (_memory_wires, None)),
        "CPE_L2T4": (None, _half),
        "CPE_COMP": (None, _compare),
        "CPE_MX4": (None, _multiplexer),
        "CPE_ADDF": (_carries, _adder),
        "CPE_ADDF2": (None, _two_adders),
        "CPE_MULT": (_product_wires, _product),
        "CPE_FF": (None, _flip_flop),
        "RAM": (None, _block_ram),
    }


def _sense(wire: str, high: bool) -> str:
    return wire if high else inverse(wire)
