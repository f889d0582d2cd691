"""The circuit of an ECP5 after routing, from the netlist that nextpnr writes then.

The cells are those that nextpnr has packed, placed and connected. The step from there to the bitstream is ecppack's,
and is not undone here.
"""

from typing import Any, ClassVar

from openmxu_boards.families.circuit import ONE, ZERO, Circuit, CircuitError
from openmxu_boards.families.netlist import NetlistReader, Part, inverse, parse

_DPRAM_ADDRESS = "DBCA"
"""Inputs of a LUT that form the address of a memory, the lowest bit first."""


def read_circuit(text: str, clock: str) -> Circuit:
    return _Ecp5Reader(parse(text), clock).read()


class _Part(Part):
    @property
    def place(self) -> str:
        """The name of the pin at which it is placed."""
        return str(self.attributes.get("LOC", self.name))

    def input(self, port: str, default: str = ONE) -> str:
        """The source of a port: a wire, a constant or an inverse, by its multiplexer; else ``default``, if undriven."""
        choice = self.parameter(f"{port}MUX", port)
        if choice in ("0", "1"):
            return ONE if choice == "1" else ZERO
        wire = self.net(port) or default
        return inverse(wire) if choice == "INV" else wire


class _Ecp5Reader(NetlistReader):
    part = _Part
    _reset_net: _Part | None = None

    # Cells that pass wires on, or constants

    def _constant(self, part: _Part) -> None:
        truth = part.parameter("INITVAL", "0")
        if part.parameter("MODE", "LOGIC") == "LOGIC" and len(set(truth)) == 1:
            self._set(part, "F", f"1'b{truth[0]}")

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
        made = [port for port in ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3") if port in part.nets]
        # One of its outputs may be its feedback.
        used = [port for port in made if part.nets[port] != part.nets.get("CLKFB")] or made
        self._multiply(part, used, ("LOCK", "INTLOCK"))

    def _pin(self, part: _Part) -> None:
        name = part.place
        direction = part.parameter("DIR", "INPUT")
        if direction != "OUTPUT" and (wire := part.net("O")):
            self._add_input(name, wire)
        if direction != "INPUT":
            self._outputs[name] = (part.input("I", ZERO), inverse(part.input("T", ZERO)))

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
        """The multiplexer after the LUT, of two LUTs or of two such multiplexers."""
        if "FXA" in part.nets or "FXB" in part.nets:
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
        """The reset of the whole device, active low."""
        return inverse(self._reset_net.input("GSR")) if self._reset_net else ZERO

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
        # 2048 bytes of nine bits; the netlist has words of two in places of twenty bits, sixteen to a parameter.
        content = f"18432'h{part.content('INITVAL', 64, 16, (20, 18, 18)):x}"
        self._add("ecp5_dp16kd", outputs, inputs, **parameters, CONTENT=content)

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

    rules: ClassVar = {
        "DCCA": (_buffer, None),
        "TRELLIS_RAMW": (_memory_inputs, None),
        "GSR": (_global_set_reset, None),
        "EHXPLLL": (_pll, None),
        "TRELLIS_IO": (None, _pin),
        "TRELLIS_COMB": (_constant, _comb),
        "TRELLIS_FF": (None, _flip_flop),
        "DP16KD": (None, _block_ram),
        "MULT18X18D": (None, _multiplier),
    }


def _lutram_content(truth: str) -> str:
    """The bits in the order of addresses; the truth table has them in the order of its inputs, A lowest."""
    places = [
        sum((address >> bit & 1) << "ABCD".index(_DPRAM_ADDRESS[bit]) for bit in range(4)) for address in range(16)
    ]
    return "16'b" + "".join(truth[15 - index] for index in reversed(places))
