"""The circuit of an ECP5 after routing, from the netlist that nextpnr writes then.

The cells are those that nextpnr has packed, placed and connected. The step from there to the bitstream is ecppack's,
and is not undone here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openmxu_boards.replay.circuit import ONE, ZERO, Cell, Circuit, CircuitError, Clock

__all__ = ["read_circuit"]

_Bits = str | None | Sequence[str | None]

_DPRAM_ADDRESS = "DBCA"
"""Inputs of a LUT that are the address of a memory, the lowest bit first."""


def read_circuit(text: str, clock: str) -> Circuit:
    """The circuit of a routed netlist.

    Parameters
    ----------
    text
        What ``nextpnr-ecp5 --write`` leaves.
    clock
        The pin with the clock. Where there is a PLL, its output is the circuit's clock, and it has locked.

    Raises
    ------
    CircuitError
        It is no such netlist, or holds a cell for which there is no model.
    """
    try:
        [module] = json.loads(text)["modules"].values()
        cells = module["cells"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CircuitError("the routed netlist is none that nextpnr has written") from None
    return _Reader(cells, clock).read()


class _Part:
    """A cell of nextpnr's."""

    def __init__(self, name: str, found: Any, rename: Callable[[str], str]) -> None:
        self.name, self.kind = name, found["type"]
        self.place = str(found["attributes"].get("LOC", name))
        # A text that could be a number ends with a space.
        self._parameters = {key: value.rstrip() for key, value in found["parameters"].items()}
        self._nets = {port: f"n{bits[0]}" for port, bits in found["connections"].items() if bits}
        self._rename = rename

    def parameter(self, name: str, default: str) -> str:
        return str(self._parameters.get(name, default))

    def number(self, name: str, default: int) -> int:
        """A parameter in binary."""
        return int(self._parameters[name], 2) if name in self._parameters else default

    def require(self, **allowed: str) -> None:
        """See to it that parameters, where they are given, have the values for which there is a model."""
        for name, value in allowed.items():
            if self.parameter(name, value) != value:
                raise CircuitError(f"cell {self.name}, a {self.kind}, has {name}={self.parameter(name, '')}: no model")

    def net(self, port: str) -> str | None:
        """The wire at a port, if there is one."""
        return self._rename(self._nets[port]) if port in self._nets else None

    def input(self, port: str, default: str = ONE) -> str:
        """What a port sees: a wire, a constant or an inverse by its multiplexer; else what nothing drives."""
        choice = self.parameter(f"{port}MUX", port)
        if choice in ("0", "1"):
            return ONE if choice == "1" else ZERO
        wire = self.net(port) or default
        return _inverse(wire) if choice == "INV" else wire

    def inputs(self, ports: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.input(port) for port in ports)

    def outputs(self, ports: Sequence[str]) -> tuple[str | None, ...]:
        return tuple(self.net(port) for port in ports)


class _Reader:
    def __init__(self, cells: Mapping[str, Any], clock: str) -> None:
        self._alias: dict[str, str] = {}
        self._parts = [_Part(name, found, self._follow) for name, found in cells.items()]
        self._clock, self._clock_wire, self._source = clock, "", f"pin {clock}"
        self._inputs: dict[str, str] = {}
        self._outputs: dict[str, tuple[str, str]] = {}
        self._reset_net: _Part | None = None
        self._cells: list[Cell] = []

    def read(self) -> Circuit:
        """What gives wires their names goes first."""
        for turn in range(2):
            for part in self._parts:
                if part.kind not in _RULES:
                    raise CircuitError(f"cell {part.name} is a {part.kind}, for which there is no model")
                if rule := _RULES[part.kind][turn]:
                    rule(self, part)
        if not self._clock_wire:
            raise CircuitError(f"nothing in the routed netlist is clocked by pin {self._clock}")
        pin = self._inputs.get(self._clock)
        if any(
            pin in (wire, wire.removeprefix("~"))
            for cell in self._cells
            for bits in cell.inputs.values()
            for wire in bits
        ):
            raise CircuitError(f"pin {self._clock} feeds a PLL and the fabric; only one clock can be simulated")
        return Circuit(Clock(self._clock_wire, self._source), self._inputs, self._outputs, tuple(self._cells))

    def _follow(self, wire: str) -> str:
        while wire in self._alias:
            wire = self._alias[wire]
        return wire

    def _pass(self, part: _Part, source: str, target: str) -> None:
        """Take the net at one port for that at another one; where nothing drives it, it is high."""
        if wire := part.net(target):
            self._alias[wire] = part.net(source) or ONE

    def _add(self, model: str, outputs: Mapping[str, _Bits], inputs: Mapping[str, _Bits], **parameters: str) -> None:
        """Have a cell, if anybody listens to it."""
        cell = Cell(model, f"cell_{len(self._cells)}", _words(inputs), _words(outputs), parameters)
        if any(wire for wires in cell.outputs.values() for wire in wires):
            self._cells.append(cell)

    # Cells that pass wires on, or constants

    def _constant(self, part: _Part) -> None:
        truth = part.parameter("INITVAL", "0")
        if part.parameter("MODE", "LOGIC") == "LOGIC" and len(set(truth)) == 1 and (wire := part.net("F")):
            self._alias[wire] = f"1'b{truth[0]}"

    def _buffer(self, part: _Part) -> None:
        if part.input("CE") != ONE:
            raise CircuitError(f"cell {part.name}, a DCCA, gates a clock: no model")
        self._pass(part, "CLKI", "CLKO")

    def _memory_inputs(self, part: _Part) -> None:
        pairs = {"WADO0": "D0", "WADO1": "B0", "WADO2": "C0", "WADO3": "A0"}
        pairs |= {"WDO0": "C1", "WDO1": "A1", "WDO2": "D1", "WDO3": "B1"}
        for target, source in pairs.items():
            self._pass(part, source, target)

    def _global_set_reset(self, part: _Part) -> None:
        part.require(MODE="ACTIVE_LOW", SYNCMODE="SYNC")
        self._reset_net = part

    def _pll(self, part: _Part) -> None:
        made = [port for port in ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3") if port in part._nets]
        # An output of its own may be what it compares its input with.
        used = [port for port in made if part._nets[port] != part._nets.get("CLKFB")] or made
        if len(used) != 1 or self._clock_wire:
            raise CircuitError(f"cell {part.name}, a PLL, is not the only clock: only one clock can be simulated")
        self._source = "the PLL"
        self._clock_wire = part._nets[used[0]]
        for lock in ("LOCK", "INTLOCK"):
            if wire := part.net(lock):
                self._alias[wire] = ONE

    def _pin(self, part: _Part) -> None:
        name = part.place
        direction = part.parameter("DIR", "INPUT")
        if direction != "OUTPUT" and (wire := part.net("O")):
            if name == self._clock and not self._clock_wire:
                self._clock_wire = wire
            else:
                self._inputs[name] = wire
        if direction != "INPUT":
            self._outputs[name] = (part.input("I", ZERO), _inverse(part.input("T", ZERO)))

    # Cells with a model

    def _comb(self, part: _Part) -> None:
        mode = part.parameter("MODE", "LOGIC")
        truth = f"16'b{part.parameter('INITVAL', '0').zfill(16)}"
        inputs = part.inputs("ABCD")
        if mode == "LOGIC":
            if part.net("F") not in (ZERO, ONE):
                self._add("ecp5_lut", {"o": part.net("F")}, {"truth": truth, "inputs": inputs})
        elif mode == "CCU2":
            inject = ONE if part.parameter("CCU2_INJECT1", "YES") == "YES" else ZERO
            ports = {"truth": truth, "inputs": inputs, "inject": inject, "ci": part.input("FCI", ZERO)}
            self._add("ecp5_carry", {"o": part.net("F"), "co": part.net("FCO")}, ports)
        elif mode == "DPRAM":
            ports = {
                "content": _lutram_content(part.parameter("INITVAL", "0").zfill(16)),
                "clk": part.input("WCK"),
                "we": part.input("WRE"),
                "waddr": part.inputs([f"WAD{n}" for n in range(4)]),
                "d": part.input("WD"),
                "raddr": part.inputs(_DPRAM_ADDRESS),
            }
            self._add("ecp5_lutram", {"o": part.net("F")}, ports)
        elif mode != "RAMW_BLOCK":
            raise CircuitError(f"cell {part.name}, a TRELLIS_COMB, has MODE={mode}: no model")
        self._multiplexer(part)

    def _multiplexer(self, part: _Part) -> None:
        """The one behind the LUT, of two LUTs or of two such multiplexers."""
        if "FXA" in part._nets or "FXB" in part._nets:
            zero, one = part.input("FXA"), part.input("FXB")
        else:
            zero, one = part.input("F"), part.input("F1")
        self._add("ecp5_mux", {"o": part.net("OFX")}, {"select": part.input("M"), "zero": zero, "one": one})

    def _flip_flop(self, part: _Part) -> None:
        part.require(LSRMODE="LSR")
        model = "ecp5_ff_async" if part.parameter("SRMODE", "LSR_OVER_CE") == "ASYNC" else "ecp5_ff"
        ports = {
            "clk": part.input("CLK"),
            "enable": part.input("CE"),
            "sr": part.input("LSR", ZERO),
            "global_reset": self._reset() if part.parameter("GSR", "ENABLED") == "ENABLED" else ZERO,
            "d": part.input("DI" if part.parameter("SD", "0") == "1" else "M"),
        }
        initial = ONE if part.parameter("REGSET", "RESET") == "SET" else ZERO
        self._add(model, {"q": part.net("Q")}, ports, SET=initial)

    def _reset(self) -> str:
        """The reset of the whole device, which is low where it is active."""
        return _inverse(self._reset_net.input("GSR")) if self._reset_net else ZERO

    def _block_ram(self, part: _Part) -> None:
        part.require(REGMODE_A="NOREG", REGMODE_B="NOREG", CSDECODE_A="0b000", CSDECODE_B="0b000")
        if any(
            part.input(port) != ZERO for port in ("RSTA", "RSTB", *(f"CS{side}{n}" for side in "AB" for n in range(3)))
        ):
            raise CircuitError(f"cell {part.name}, a DP16KD, uses resets or selects: no model")
        inputs: dict[str, Any] = {}
        outputs = {}
        parameters = {}
        for side in "AB":
            for port in (f"CLK{side}", f"CE{side}", f"WE{side}"):
                inputs[port.lower()] = part.input(port)
            inputs[f"ad{side}".lower()] = part.inputs([f"AD{side}{n}" for n in range(14)])
            inputs[f"di{side}".lower()] = part.inputs([f"DI{side}{n}" for n in range(18)])
            outputs[f"do{side}".lower()] = part.outputs([f"DO{side}{n}" for n in range(18)])
            parameters[f"WIDTH_{side}"] = str(part.number(f"DATA_WIDTH_{side}", 18))
            write = part.parameter(f"WRITEMODE_{side}", "NORMAL")
            parameters[f"OLD_{side}"] = str(int(write == "READBEFOREWRITE"))
            parameters[f"THROUGH_{side}"] = str(int(write == "WRITETHROUGH"))
        self._add("ecp5_dp16kd", outputs, inputs, **parameters, CONTENT=_content(part))

    def _multiplier(self, part: _Part) -> None:
        registers = ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT")
        part.require(**{f"REG_{name}_CLK": "NONE" for name in registers}, SOURCEB_MODE="B_SHIFT")
        if any(part.input(port, ZERO) != ZERO for port in ("SOURCEA", "SOURCEB")):
            raise CircuitError(f"cell {part.name}, a MULT18X18D, takes operands from another one: no model")
        inputs = {
            "a": part.inputs([f"A{n}" for n in range(18)]),
            "b": part.inputs([f"B{n}" for n in range(18)]),
            "signed_a": part.input("SIGNEDA"),
            "signed_b": part.input("SIGNEDB"),
        }
        self._add("ecp5_mult18", {"p": part.outputs([f"P{n}" for n in range(36)])}, inputs)


_RULES: Mapping[str, tuple[Callable[[_Reader, _Part], None] | None, Callable[[_Reader, _Part], None] | None]] = {
    "DCCA": (_Reader._buffer, None),
    "TRELLIS_RAMW": (_Reader._memory_inputs, None),
    "GSR": (_Reader._global_set_reset, None),
    "EHXPLLL": (_Reader._pll, None),
    "TRELLIS_IO": (None, _Reader._pin),
    "TRELLIS_COMB": (_Reader._constant, _Reader._comb),
    "TRELLIS_FF": (None, _Reader._flip_flop),
    "DP16KD": (None, _Reader._block_ram),
    "MULT18X18D": (None, _Reader._multiplier),
}
"""For each kind of cell, what is done with it before wires have their names, and after that."""


def _words(ports: Mapping[str, _Bits]) -> dict[str, Any]:
    """Ports of one bit as words."""
    return {port: (bits,) if bits is None or isinstance(bits, str) else tuple(bits) for port, bits in ports.items()}


def _inverse(wire: str) -> str:
    return {ZERO: ONE, ONE: ZERO}.get(wire, f"~{wire}")


def _lutram_content(truth: str) -> str:
    """The bits in the order of addresses: the truth table has them in that of its inputs, of which A is the lowest."""
    places = [
        sum((address >> bit & 1) << "ABCD".index(_DPRAM_ADDRESS[bit]) for bit in range(4)) for address in range(16)
    ]
    return "16'b" + "".join(truth[15 - place] for place in reversed(places))


def _content(part: _Part) -> str:
    """2048 bytes of nine bits; the netlist has words of two in places of twenty bits, sixteen to a parameter."""
    content = 0
    for row in range(64):
        bits = part.number(f"INITVAL_{row:02X}", 0)
        for place in range(16):
            content |= (bits >> 20 * place & 0x3FFFF) << 18 * (16 * row + place)
    return f"18432'h{content:x}"
