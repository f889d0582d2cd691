"""The circuit of a GateMate after routing, from the netlist that nextpnr writes then.

The cells are those that nextpnr has packed and placed; where it has routed through cells and along the lines between
them, the netlist has cells for that, too. The step from there to the bitstream is not undone here: nextpnr inverts
tables behind inverting wires of the device, which the netlist does not show, and gmpack packs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from openmxu_boards.families.circuit import ONE, ZERO, Circuit
from openmxu_boards.families.netlist import NetlistReader, Part, inverse, parse, port_names

_BANKS = {
    "SA": (0, 27), "SB": (0, 71), "NA": (165, 27), "NB": (165, 71),
    "WA": (7, 0), "WB": (59, 0), "WC": (103, 0), "EA": (59, 133), "EB": (103, 133),
}  # fmt: skip
"""Column and row of the first pin of each bank of a CCGM1A1; pins A0, B0, A1 … follow at every second place."""

_PINS = {
    (f"X{x}Y{y + 2 * n}/" if x in (0, 165) else f"X{x + 2 * n}Y{y}/"): f"IO_{bank}_{'AB'[n % 2]}{n // 2}"
    for bank, (x, y) in _BANKS.items()
    for n in range(18)
}

_FROM_FABRIC = "00000000"
_LEVELS = {"00000011": ZERO, "00010011": ONE}
_CLOCKS = {"00100011": "CLOCK1", "00110011": "CLOCK2", "00000011": "CLOCK3", "00010011": "CLOCK4"}
"""Sources of a block RAM's controls, by their configuration: the fabric, constants, for clocks the global ones."""

_WIDTHS = (0, 1, 2, 5, 10, 20, 40, 80)

_CARRY_IN, _ADD_CARRY = "101", "111"
"""Functions of a lower half: the carry is one more input of its second table, or inverts its output."""

_LINES = {
    "COUTX": ("CX", "X", "C", ("OUT1", "OUT2"), ("COMPOUT", "CINY")),
    "POUTX": ("PX", "X", "P", ("OUT2", "OUT1"), ("COMPOUT", "PINY")),
    "COUTY1": ("CY1", "Y1", "C", ("OUT2", "OUT1"), ("COMPOUT", "CINX")),
    "POUTY1": ("PY1", "Y1", "P", ("OUT1", "OUT2"), ("COMPOUT", "PINX")),
    "COUTY2": ("CY2", "Y2", "C", ("OUT1", "OUT2"), ("COMPOUT", "CINX")),
    "POUTY2": ("PY2", "Y2", "P", ("OUT2", "OUT1"), ("COMPOUT", "PINX")),
}
"""For each line that leaves a CPE: the parameters that choose its source, and the sources."""

_SECOND = {1: ("C_I1", "PINY1"), 3: ("C_I2", "CINX"), 5: ("C_I3", "PINY1"), 7: ("C_I4", "PINX")}
"""For the first input of a table: the parameter that makes a line its second one, and the line."""


def read_circuit(text: str, clock: str) -> Circuit:
    return _GateMateReader(parse(text), clock).read()


def _pin(bel: str) -> str:
    """The pin at a place such as ``X0Y51/GPIO``; empty if there is none."""
    return _PINS.get(bel[: bel.find("/") + 1], "")


class _GateMateReader(NetlistReader):
    def __init__(self, module: Mapping[str, Any], clock: str) -> None:
        super().__init__(module, clock)
        cells = module["cells"]
        ends = [
            (cell.get("port_directions", {}).get(port), bits)
            for cell in cells.values()
            for port, bits in cell["connections"].items()
        ]
        driven = {f"n{bit}" for direction, bits in ends if direction != "input" for bit in bits}
        self._sizes = {
            name: {port: len(bits) for port, bits in cell["connections"].items()} for name, cell in cells.items()
        }
        for part in self._parts:
            # Unused bits of buses carry placeholder nets, which nothing drives.
            part.nets = {port: net for port, net in part.nets.items() if net in driven}

    # Pins and clocks

    def _at_pin(self, part: Part) -> None:
        if part.kind == "CPE_IBUF" and not part.net("Y"):
            return
        bel = str(part.attributes.get("NEXTPNR_BEL", ""))
        if not (pin := _pin(bel)):
            raise part.no_model(f"is at {bel or 'no place'}, which is no pin of a CCGM1A1")
        if part.kind == "CPE_IBUF":
            self._add_input(pin, part.wire("Y"))
        else:
            self._outputs[pin] = (part.wire("A"), ONE)

    def _between(self, part: Part) -> None:
        """The connections between a pin and the fabric, without registers."""
        registers = {f"{pin}_FF": "0" for pin in ("OUT1", "OUT2", "IN1", "IN2")}
        part.require(**registers, USE_DDR="0", USE_CFG_BIT="0", OE_SIGNAL="00", LVDS_EN="0")
        second = part.number("OUT23_14_SEL", 0)
        level = ONE if second else ZERO
        if part.number("OUT_SIGNAL", 0):
            names = ("OUT2", "OUT3") if second else ("OUT1", "OUT4")
            level = part.wire(names[part.number("OUT2_3" if second else "OUT1_4", 0)])
        self._set(part, "GPIO_OUT", level)
        self._pass_on(part, IN1="GPIO_IN", IN2="GPIO_IN")

    def _pass_on(self, part: Part, **sources: str) -> None:
        """Replace the nets at some outputs, where they are connected, by those at inputs."""
        for target, source in sources.items():
            if target in part.nets:
                self._set(part, target, part.wire(source))

    def _clocks(self, part: Part) -> None:
        """Clock inputs; and global clocks: the output of a PLL, or its reference."""
        for number in range(4):
            if part.kind == "CLKIN":
                target, name, allowed = f"CLK_REF{number}", f"REF{number}", {n: f"CLK{n}" for n in range(4)}
                needed = {f"REF{number}_INV": "0"}
            else:
                target, name, allowed = (
                    f"GLB{number}",
                    f"GLB{number}_CFG",
                    {0: f"CLK_REF_OUT{number}", 4: f"CLK0_{number}"},
                )
                needed = {f"GLB{number}_EN": "1", f"USR_GLB{number}_EN": "0"}
            if target in part.nets:
                part.require(**needed)
                chosen = part.number(name, 0)
                if chosen not in allowed:
                    raise part.no_model(f"has {name}={chosen:03b}")
                self._set(part, target, part.wire(allowed[chosen]))

    def _pll(self, part: Part) -> None:
        part.require(CLK180_DOUB="0", CLK270_DOUB="0", CFG_A_EN_USR_CFG="0")
        self._multiply(part, ("CLK0", "CLK90", "CLK180", "CLK270"), ("USR_PLL_LOCKED", "USR_PLL_LOCKED_STDY"))

    # Cells that pass wires on

    def _bridge(self, part: Part) -> None:
        part.require(C_BR="1")
        self._set(part, "MUXOUT", part.wire(f"IN{part.constant('C_SN') + 1}"))

    def _lines(self, part: Part) -> None:
        for port, (begin, select, kind, plain, special) in _LINES.items():
            source = port.replace("OUT", "IN")
            if part.number(f"C_{begin}_I", 0):
                chosen = part.number(f"C_SEL{select}", 0)
                source = (special if part.number(f"C_SEL_{kind}", 0) else plain)[chosen]
                if source.endswith("Y"):
                    source += "2" if part.number("C_Y12", 0) else "1"
            self._pass_on(part, **{port: source})

    def _join(self, part: Part, ports: Sequence[str]) -> str | None:
        """The first net at ports with the same value; the rest become aliases of it."""
        first, *rest = [part.net(port) for port in ports if port in part.nets] or [None]
        self._alias |= {net: first or "" for net in rest if net and net != first}
        return first

    # Tables and sums

    def _half(self, part: Part) -> None:
        upper = part.number("L2T4_UPPER", 0)
        function = "000" if upper else part.parameter("C_FUNCTION", "000")
        if function not in ("000", _CARRY_IN, _ADD_CARRY):
            raise part.no_model(f"has C_FUNCTION={function}")
        second, fourth = ("C_I1", "C_I2") if upper else ("C_I3", "C_I4")
        ports = (
            *("IN1", "PINY1" if part.number(second, 0) else "IN2", "IN3"),
            ("CINX" if upper else "PINX") if part.number(fourth, 0) else "IN4",
            *("COMBIN", "CINX" if part.number("C_HORIZ", 0) else "CINY1"),
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

    def _table(self, part: Part, output: str, truth: int, ports: tuple[str, ...]) -> None:
        inputs = part.look_up(truth, ports) + (ZERO,) * (6 - len(ports))
        self._add("gatemate_lut", {"o": part.net(output)}, {"truth": f"64'd{truth}", "inputs": inputs})

    def _compare(self, part: Part) -> None:
        self._table(part, "COMPOUT", ~part.constant("INIT_L30") & 0xF, ("COMB1", "COMB2"))

    def _operand(self, part: Part, table: str, first: int) -> tuple[str, tuple[str, ...]]:
        """A table with two inputs, and the inputs, of which the second may be a line."""
        parameter, line = _SECOND[first]
        truth = part.constant(table)
        inputs = part.look_up(truth, (f"IN{first}", line if part.number(parameter, 0) else f"IN{first + 1}"))
        return f"4'd{truth}", inputs

    def _multiplexer(self, part: Part) -> None:
        part.require(INIT_L20="1100")
        used, inverted = part.constant("INIT_L10"), part.constant("INIT_L11")
        (low, select_low), (high, select_high) = self._operand(part, "INIT_L02", 5), self._operand(part, "INIT_L03", 7)
        inputs = tuple(part.wire(f"IN{n + 1}") if used >> n & 1 else ZERO for n in range(4))
        ports = {"low": low, "high": high, "select": select_low + select_high, "inputs": inputs}
        ports |= {"used": f"4'd{used}", "inverted": f"4'd{inverted}"}
        self._add("gatemate_mux4", {"o": part.net("OUT1")}, ports)

    def _carry(self, part: Part) -> str | None:
        """The net at the outputs of an adder that show its carry."""
        return self._join(part, ("COUTY1", "CPOUT2"))

    def _adder(self, part: Part) -> None:
        self._sum(part, "OUT1", ("INIT_L00", 1), ("INIT_L01", 3), part.wire("CINY1"), self._carry(part))

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
        self._pass_on(part, POUTY2="PINY2", **({} if part.number("C_PY1_I", 0) else {"POUTY1": "PINY1"}))

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
        outputs = [self._join(part, names) for names in self._product_outputs(part)]
        self._add("gatemate_mult", {"o": outputs, "carry_out": [part.net("COUTY2"), part.net("COUTY1")]}, ports)

    # Registers and memories

    def _flip_flop(self, part: Part) -> None:
        part.require(C_CLKSEL="0", C_ENSEL="0")
        clock, enable, reset, set_ = (part.constant(f"C_CPE_{name}") for name in ("CLK", "EN", "RES", "SET"))
        if clock not in (1, 2):
            raise part.no_model(f"has C_CPE_CLK={clock:02b}")
        if set_ in (1, 2) and not part.number("C_EN_SR", 0):
            raise part.no_model("is set by its enable")
        ports = {
            "clk": _sense(part.wire("CLK"), clock == 2),
            "enable": {0: ZERO, 3: ONE}.get(enable) or _sense(part.wire("EN"), enable == 2),
            "reset": {0: ONE, 3: ZERO}.get(reset) or _sense(part.wire("SR"), reset == 1),
            "set": {0: ONE, 3: ZERO}.get(set_) or _sense(part.wire("SR"), set_ == 1),
            "d": part.wire("DIN"),
        }
        self._add("gatemate_ff", {"q": part.net("DOUT")}, ports, INIT=f"1'b{part.number('FF_INIT', 0b10) & 1}")

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
        inputs: dict[str, Any] = {}
        parameters: dict[str, str] = {}
        for port in "ab":
            part.require(**{f"RAM_cfg_{port}{half}_set_outputreg": "0"})
            wide = max(part.constant(f"RAM_cfg_{way}put_config_{port}{half}") for way in ("in", "out"))
            if wide >= len(_WIDTHS):
                raise part.no_model(f"has words of width {wide}")
            parameters[f"WIDTH_{port.upper()}"] = str(_WIDTHS[wide] or 1)
            inversion = part.constant(f"RAM_cfg_inversion_{port}{half}")
            for bit, (name, wires) in enumerate((("en", "EN"), ("we", "GLWE"), ("clk", "CLK"))):
                level = self._control(part, f"{port}{half}_{name}", f"{wires}{port.upper()}", half)
                inputs[f"{name}{port}"] = inverse(level) if inversion >> bit & 1 else level
        for port in "ab":
            inputs[f"addr{port}"] = part.inputs(port_names(f"ADDR{port.upper()}{half}", 16), ZERO)
        for target, name in (("di", "DI"), ("mask", "WE")):
            words = [self._bus(part, f"{name}{port}", half, halved=halved) for port in "AB"]
            for port, names in zip("ab", ((*words[0], *words[1]), ()) if simple else words, strict=True):
                inputs[f"{target}{port}"] = part.inputs(names, ZERO) + (ZERO,) * (80 - len(names))
        words = [self._bus(part, f"DO{port}", half, halved=halved) for port in "AB"]
        words = [(), (*words[0], *words[1])] if simple else words
        outputs = {
            f"do{port}": [*part.outputs(names), *[None] * (80 - len(names))]
            for port, names in zip("ab", words, strict=True)
        }
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
        return tuple(port_names(port, width, 20 * half if size == 40 else 0))

    def _control(self, part: Part, parameter: str, port: str, half: int) -> str:
        """A control of a block RAM; a clock comes as a global one, and a port that is not used has none."""
        is_clock, name = port.startswith("CLK"), f"RAM_cfg_forward_{parameter}"
        forward = part.parameter(name, _FROM_FABRIC if is_clock else "00000011")
        if is_clock and forward in _CLOCKS:
            return part.wire(_CLOCKS[forward])
        if is_clock:
            if forward != _FROM_FABRIC or any(net.startswith(port) for net in part.nets):
                raise part.no_model(f"has a clock of its own at port {port[-1]}")
            return ZERO
        if forward in _LEVELS:
            return _LEVELS[forward]
        if forward != _FROM_FABRIC:
            raise part.no_model(f"has {name}={forward}")
        return part.wire(port if self._sizes[part.name].get(port) == 1 else f"{port}{2 * half}")

    rules: ClassVar = {
        **dict.fromkeys(("CPE_IBUF", "CPE_OBUF"), (None, _at_pin)),
        "IOSEL": (_between, None),
        **dict.fromkeys(("CLKIN", "GLBOUT"), (_clocks, None)),
        "PLL": (_pll, None),
        "USR_RSTN": (lambda self, part: self._set(part, "USR_RSTN", ONE), None),
        "CPE_BRIDGE": (_bridge, None),
        "CPE_CPLINES": (_lines, None),
        **dict.fromkeys(
            ("CPE_RAMI", "CPE_RAMO", "CPE_RAMIO"),
            (lambda self, part: self._pass_on(part, RAM_O="I", OUT="RAM_I"), None),
        ),
        "CPE_L2T4": (None, _half),
        "CPE_COMP": (None, _compare),
        "CPE_MX4": (None, _multiplexer),
        "CPE_ADDF": (_carry, _adder),
        "CPE_ADDF2": (None, _two_adders),
        "CPE_MULT": (_product_wires, _product),
        "CPE_FF": (None, _flip_flop),
        "RAM": (None, _block_ram),
    }


def _sense(wire: str, high: bool) -> str:
    return wire if high else inverse(wire)
