"""The circuit that an iCE40's bitstream configures: LUTs, carries, flip-flops, block RAMs, MAC16, a PLL and pins.

Every wire is followed back from the output pins, switch by switch as the bits set them, to the cell that drives it.
All connections come from the bitstream alone: no netlist is read.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from openmxu_boards.families.circuit import ONE, ZERO, Cell, Circuit, CircuitError, Clock
from openmxu_boards.families.ice40.bitmap import Bitmap
from openmxu_boards.families.ice40.chip import Chip, Place

_TRUTH = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
"""The bit of a logic cell that is the output for inputs 0, 1, ... of its LUT."""

_CARRY, _FLIP_FLOP, _SET, _ASYNC = 8, 9, 18, 19
"""Bits of a logic cell: use the carry, use the flip-flop, set it, set or reset it without the clock."""

_OUTPUT = {"0110": "always", "1010": "enabled"}
"""Meaning of bits 5 to 2 of a pin's type for its output; other values use registers and clocks in the pin."""

_PLL_OUTPUTS = {
    **dict.fromkeys(("010", "011"), ("PLLOUT_A",)),
    **dict.fromkeys(("100", "110", "111"), ("PLLOUT_A", "PLLOUT_B")),
}

_Pin = tuple[int, int, int]
_Maker = Callable[[], str]


class _Source(NamedTuple):
    """The net that drives another one, and the tile whose switch connects them."""

    net: int
    tile: Place


def read_circuit(chip: Chip, bitmap: Bitmap, package: str, clock: str) -> Circuit:
    return _Ice40Reader(chip, bitmap, package, clock).read()


class _Ice40Reader:
    def __init__(self, chip: Chip, bitmap: Bitmap, package: str, clock: str) -> None:
        self._chip, self._bitmap, self._clock = chip, bitmap, clock
        if missing := set(chip.tiles) - set(bitmap.tiles):
            raise CircuitError(f"the bitstream lacks tiles of the device, such as {min(missing)}")
        self._pins = chip.pins(package)
        self._sources = _sources(chip, bitmap)
        self._pll = self._find_pll()
        self._makers: dict[int, _Maker] = self._drivers()
        self._wires: dict[int, str] = {}
        self._todo: deque[Callable[[], Cell]] = deque()
        self._begun: set[str] = set()
        self._inputs: dict[str, str] = {}
        self._clock_wire = ""

    def read(self) -> Circuit:
        """Collect the cells that drive the output pins, directly or through other cells."""
        outputs = {}
        for pin, name in self._pins.items():
            if drivers := self._output(pin):
                outputs[name] = drivers
        cells = []
        while self._todo:
            cells.append(self._todo.popleft()())
        if not self._clock_wire:
            raise CircuitError(f"nothing in the bitstream is clocked by pin {self._clock}")
        if self._pll and self._clock in self._inputs:
            raise CircuitError(f"pin {self._clock} feeds a PLL and the fabric; only one clock can be simulated")
        source = "the PLL" if self._pll else f"pin {self._clock}"
        inputs = dict(sorted(self._inputs.items()))
        return Circuit(Clock(self._clock_wire, source), inputs, dict(sorted(outputs.items())), tuple(cells))

    # Nets

    def _wire(self, tile: Place, port: str, default: str = ZERO) -> str:
        """The wire that drives a port of a tile; ``default`` where nothing does."""
        net = self._chip.nets.get((*tile, port))
        if net is None:
            return default
        seen = set()
        while net in self._sources and net not in seen:
            seen.add(net)
            source = self._sources[net]
            if not self._passes(source):
                return ZERO
            net, default = source.net, ZERO
        return self._driver(net) or default

    def _passes(self, source: _Source) -> bool:
        """Whether a tile has the net: a global one comes through a buffer of its column."""
        number = self._globals.get(source.net)
        if number is None:
            return True
        buffer = self._chip.column_buffers.get(source.tile, source.tile)
        bits = self._chip.functions[self._chip.tiles[buffer]].get(f"ColBufCtrl.glb_netwk_{number}")
        return bits is None or self._bitmap.read(buffer, bits) == "1"

    def _driver(self, net: int) -> str:
        if net not in self._wires:
            maker = self._makers.get(net)
            self._wires[net] = maker() if maker else ""
        return self._wires[net]

    def _drivers(self) -> dict[int, _Maker]:
        """A function for each net that a cell may drive, which makes its driver."""
        made: dict[int, _Maker] = {}
        self._globals = {net: int(name[-1]) for (_, _, name), net in self._chip.nets.items() if name[:4] == "glb_"}
        for net, number in self._globals.items():
            made[net] = partial(self._global, number)
        for (x, y, name), net in self._chip.nets.items():
            kind, _, port = name.partition("/")
            if maker := self._maker((x, y), kind, port):
                made[net] = maker
        for (kind, x, y), ports in self._chip.cells.items():
            for port, (*tile, name) in ports.items():
                target = self._chip.nets.get((tile[0], tile[1], name))
                if kind == "MAC16" and target is not None and (port.startswith("O_") or port == "CO"):
                    made[target] = partial(self._mac16, (x, y), port)
                elif kind == "PLL" and port == "LOCK" and target is not None and self._pll:
                    made[target] = lambda: ONE
        return made

    def _maker(self, tile: Place, kind: str, port: str) -> _Maker | None:
        """The function that makes the driver of the net at a port, if that is an output."""
        if kind.startswith("lutff_") and port in ("out", "lout", "cout"):
            made = {"out": self._flip_flop, "lout": self._lut, "cout": self._carry}[port]
            return partial(made, tile, int(kind[6:]))
        if kind == "carry_in_mux":
            return partial(self._carry_in, tile)
        if kind == "ram" and port.startswith("RDATA_"):
            return partial(self._ram, tile, int(port[6:]))
        if kind in ("io_0", "io_1") and port == "D_IN_0":
            return partial(self._input, (*tile, int(kind[3:])))
        return partial(self._unknown, tile, kind) if kind.startswith("slf_op_") else None

    def _unknown(self, tile: Place, port: str) -> str:
        raise CircuitError(f"the bitstream uses {port} of tile {tile}, a special cell for which there is no model")

    def _global(self, number: int) -> str:
        if self._padin(number):
            return self._input(self._chip.global_pins[number])
        return self._wire(self._chip.global_drivers[number], "fabout")

    def _padin(self, number: int) -> bool:
        names = {self._chip.extra_bits.get(bit) for bit in self._bitmap.extra}
        return f"padin_glb_netwk.{number}" in names

    # Configuration

    def _read(self, tile: Place, function: str) -> str:
        return self._bitmap.read(tile, self._chip.functions[self._chip.tiles[tile]][function])

    def _is_set(self, tile: Place, function: str) -> bool:
        return "1" in self._read(tile, function)

    def _later(self, name: str, make: Callable[[], Cell]) -> None:
        """Schedule the making of a cell, once."""
        if name not in self._begun:
            self._begun.add(name)
            self._todo.append(make)

    # Logic cells

    def _lut(self, tile: Place, number: int) -> str:
        name = f"lut_{tile[0]}_{tile[1]}_{number}"

        def make() -> Cell:
            bits = self._read(tile, f"LC_{number}")
            truth = "".join(bits[index] for index in reversed(_TRUTH))
            # An input that the LUT does not depend on may be its own output, read by the carry beside it.
            inputs = tuple(self._wire(tile, f"lutff_{number}/in_{n}") if _depends(truth, n) else ZERO for n in range(4))
            return Cell("ice40_lut", name, {"truth": (f"16'b{truth}",), "inputs": inputs}, {"o": (f"{name}_o",)})

        self._later(name, make)
        return f"{name}_o"

    def _flip_flop(self, tile: Place, number: int) -> str:
        bits = self._read(tile, f"LC_{number}")
        if bits[_FLIP_FLOP] == "0":
            return self._lut(tile, number)
        name = f"ff_{tile[0]}_{tile[1]}_{number}"

        def make() -> Cell:
            inputs = {
                "clk": self._inverted(self._wire(tile, "lutff_global/clk"), tile),
                "enable": self._wire(tile, "lutff_global/cen", ONE),
                "sr": self._wire(tile, "lutff_global/s_r"),
                "set": f"1'b{bits[_SET]}",
                "d": self._lut(tile, number),
            }
            model = "ice40_ff_async" if bits[_ASYNC] == "1" else "ice40_ff"
            return Cell(model, name, {port: (wire,) for port, wire in inputs.items()}, {"q": (f"{name}_q",)})

        self._later(name, make)
        return f"{name}_q"

    def _inverted(self, clock: str, tile: Place) -> str:
        return f"~{clock}" if self._is_set(tile, "NegClk") else clock

    def _carry_in(self, tile: Place) -> str:
        return ONE if self._is_set(tile, "CarryInSet") else ZERO

    def _carry(self, tile: Place, number: int) -> str:
        if self._read(tile, f"LC_{number}")[_CARRY] == "0":
            return ZERO
        name = f"carry_{tile[0]}_{tile[1]}_{number}"

        def make() -> Cell:
            before = f"lutff_{number - 1}/cout" if number else "carry_in_mux"
            ports = {"a": f"lutff_{number}/in_1", "b": f"lutff_{number}/in_2", "ci": before}
            inputs = {port: (self._wire(tile, net),) for port, net in ports.items()}
            return Cell("ice40_carry", name, inputs, {"co": (f"{name}_co",)})

        self._later(name, make)
        return f"{name}_co"

    # Memories

    def _ram(self, tile: Place, bit: int) -> str:
        bottom = tile if self._chip.tiles[tile] == "ramb" else (tile[0], tile[1] - 1)
        if not self._is_set(bottom, "RamConfig.PowerUp"):
            return ZERO
        name = f"ram_{bottom[0]}_{bottom[1]}"
        self._later(name, lambda: self._make_ram(name, bottom))
        return f"{name}_rdata_{bit}"

    def _make_ram(self, name: str, bottom: Place) -> Cell:
        top = (bottom[0], bottom[1] + 1)
        if any(self._is_set(top, f"RamCascade.CBIT_{n}") for n in range(4, 8)):
            raise CircuitError(f"the block RAM at {bottom} is cascaded, for which there is no model")
        write, read = (
            int(self._read(top, f"RamConfig.CBIT_{n + 1}") + self._read(top, f"RamConfig.CBIT_{n}"), 2) for n in (0, 2)
        )

        def port(port: str, default: str = ZERO) -> str:
            tile = bottom if (*bottom, f"ram/{port}") in self._chip.nets else top
            return self._wire(tile, f"ram/{port}", default)

        def word(name: str, width: int) -> tuple[str, ...]:
            return tuple(port(f"{name}_{n}") for n in range(width))

        inputs = {
            "rclk": (self._inverted(port("RCLK"), top),),
            "rclke": (port("RCLKE", ONE),),
            "re": (port("RE"),),
            "raddr": word("RADDR", 11),
            "wclk": (self._inverted(port("WCLK"), bottom),),
            "wclke": (port("WCLKE", ONE),),
            "we": (port("WE"),),
            "waddr": word("WADDR", 11),
            "wdata": word("WDATA", 16),
            "mask": word("MASK", 16),
        }
        content = f"4096'h{self._bitmap.memories.get(bottom, 0):x}"
        parameters = {"READ_MODE": str(read), "WRITE_MODE": str(write), "CONTENT": content}
        return Cell("ice40_ram", name, inputs, {"rdata": tuple(f"{name}_rdata_{n}" for n in range(16))}, parameters)

    # Multipliers

    def _mac16(self, place: Place, port: str) -> str:
        name = f"mac16_{place[0]}_{place[1]}"
        self._later(name, lambda: self._make_mac16(name, place))
        return f"{name}_{port.lower()}"

    def _make_mac16(self, name: str, place: Place) -> Cell:
        ports = self._chip.cells["MAC16", *place]
        words: dict[str, dict[int, str]] = {}
        for port, (x, y, source) in ports.items():
            if port.startswith("O_") or port == "CO":
                continue
            if source.startswith("CBIT_"):
                wire = f"1'b{self._read((x, y), f'IpConfig.{source}')}"
            else:
                wire = self._wire((x, y), source, ONE if port == "CE" else ZERO)
            word, _, bit = port.rpartition("_")
            if not bit.isdigit():
                word, bit = port, "0"
            words.setdefault(word, {})[int(bit)] = wire
        inputs = {word: tuple(bits[n] for n in sorted(bits)) for word, bits in words.items()}
        x, y, _ = ports["CLK"]
        inputs["NEG_TRIGGER"] = (f"1'b{int(self._is_set((x, y), 'NegClk'))}",)
        if inputs["BOTADDSUB_CARRYSELECT"] == (ZERO, ONE) or inputs["BOTADDSUB_LOWERINPUT"] == (ONE, ONE):
            raise CircuitError(f"the MAC16 at {place} takes the carry or the sign of another one: there is no model")
        outputs = {"O": tuple(f"{name}_o_{n}" for n in range(32)), "CO": (f"{name}_co",)}
        return Cell("ice40_mac16", name, inputs, outputs)

    # Pins

    def _pin_type(self, pin: _Pin) -> str:
        x, y, number = pin
        return "".join(self._read((x, y), f"IOB_{number}.PINTYPE_{n}") for n in reversed(range(6)))

    def _output(self, pin: _Pin) -> tuple[str, str] | None:
        """The wire that drives a pin, and the wire that enables it; ``None`` for a pin without output."""
        x, y, number = pin
        kind = self._pin_type(pin)[:4]
        if kind == "0000":
            return None
        if kind not in _OUTPUT:
            raise CircuitError(f"pin {self._pins[pin]} has an output of type {kind}, for which there is no model")
        enable = ONE if _OUTPUT[kind] == "always" else self._wire((x, y), f"io_{number}/OUT_ENB")
        return self._wire((x, y), f"io_{number}/D_OUT_0"), enable

    def _input(self, pin: _Pin) -> str:
        if self._pll and pin in self._pll:
            self._clock_wire = "pll"
            return "pll"
        if pin not in self._pins:
            raise CircuitError(f"the bitstream reads the pad at {pin}, which the package does not have")
        name = self._pins[pin]
        x, y, number = self._chip.input_enables.get(pin, pin)
        if not self._is_set((x, y), f"IoCtrl.IE_{number}"):
            return ZERO
        if self._pin_type(pin)[4:] != "01":
            raise CircuitError(f"pin {name} has an input with a register or latch, for which there is no model")
        wire = f"pin_{name}"
        if name == self._clock and not self._pll:
            self._clock_wire = wire
        else:
            self._inputs[name] = wire
        return wire

    def _find_pll(self) -> frozenset[_Pin]:
        """The pads that a PLL's outputs replace, if it is used."""
        pads = set()
        for (kind, _, _), ports in self._chip.cells.items():
            if kind == "PLL":
                bits = [ports[f"PLLTYPE_{n}"] for n in reversed(range(3))]
                chosen = "".join(self._read((x, y), f"PLL.{name}") for x, y, name in bits)
                for port in _PLL_OUTPUTS.get(chosen, ()):
                    x, y, number = ports[port]
                    pads.add((x, y, int(number)))
        return frozenset(pads)


def _depends(truth: str, number: int) -> bool:
    """Whether a truth table, the highest bit first, depends on an input."""
    bits = truth[::-1]
    return any(bits[index] != bits[index ^ 1 << number] for index in range(len(bits)))


def _sources(chip: Chip, bitmap: Bitmap) -> Mapping[int, _Source]:
    """The source of each net that a switch drives."""
    sources: dict[int, _Source] = {}
    configured = [tile for tile, rows in bitmap.tiles.items() if any("1" in row for row in rows)]
    for tile, net, bits, choices in chip.switches(configured):
        chosen = bitmap.read(tile, bits)
        if "1" not in chosen:
            continue
        source = dict(line.split() for line in choices.splitlines()).get(chosen)
        if source is None:
            raise CircuitError(f"the switch onto net {net} in tile {tile} has bits that mean nothing: {chosen}")
        if net in sources:
            raise CircuitError(f"net {net} has two drivers, the second one in tile {tile}")
        sources[net] = _Source(int(source), tile)
    return sources
