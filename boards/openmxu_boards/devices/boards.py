"""The boards: devices, pins, and the unit that fits each."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from amaranth.build import ResourceError

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu_boards.families import family_of, with_tools
from openmxu_boards.soc.machine import Buffers
from openmxu_boards.soc.system import UartSoc
from openmxu_boards.tools import missing

Place = tuple[str, int] | tuple[str, int, str]
"""A resource of a platform and its number, and a part of it if it has parts."""

LIGHTS = ("pass", "fail", "heartbeat")


@dataclass(frozen=True)
class Board:
    """A board, and the unit that fits its device."""

    name: str
    title: str
    device: str
    """The vendor's name of the board, and the device on it."""
    frequency: int
    """The wanted frequency of the design's clock in Hz. If it is not the oscillator's, a PLL makes it or the nearest
    one, see :mod:`openmxu_boards.families.pll`."""
    config: MxuConfig
    platform: tuple[str, str]
    """Module and class of its pin table."""
    leds: Mapping[str, Place]
    """Pin resources of the lights ``pass``, ``fail`` and ``heartbeat``. Where there is none for the heartbeat,
    ``pass`` blinks instead."""
    lights: str
    """Meaning of the lights, for people."""
    programmer: str
    """The command that loads a bitstream, without the file."""
    uart: tuple[str, int] | None = ("uart", 0)
    """The pin resource with ``rx`` and ``tx``, if there is one."""
    uart_note: str = "the USB socket"
    """Connector of the UART, for people."""
    quick: bool = False
    """Whether it is built within three minutes."""
    seed: int = 1
    """Seed of nextpnr, unless several are tried."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=Buffers)
    """Sizes of the buffers of the system that answers a host."""
    counters: bool = True
    """Whether the unit's counters fit beside it."""
    baud: int = 1_000_000
    accelerator: AcceleratorConfig | None = None
    """The accelerator that fits its device, in place of the unit; ``None``: none is known to."""
    accelerator_clock: float | None = None
    """The wanted clock of that system in MHz, if it is not the unit's."""

    @property
    def summary(self) -> str:
        config = self.config
        return (
            f"{self.title} ({self.device}): {config.rows}x{config.columns} unit, {config.source} in, "
            f"stages={config.stages}, at {self.frequency / 1e6:g} MHz"
        )

    def system(self, config: MxuConfig, frequency: int) -> UartSoc:
        """The system that answers a host on this board: a :data:`~openmxu_boards.bitstream.top.Design`."""
        return UartSoc(config, self.buffers, clock=frequency, baud=self.baud, counters=self.counters)

    def network(self, _: MxuConfig, frequency: int) -> UartSoc:
        """The system with an accelerator in the unit's place, likewise."""
        if self.accelerator is None:
            raise ValueError(f"board must have an accelerator, and {self.name} has none")
        return UartSoc(self.accelerator, clock=frequency, baud=self.baud)

    def new_platform(self) -> Any:
        """A new platform object; one build uses it up."""
        module, name = self.platform
        try:
            return with_tools(getattr(importlib.import_module(module), name))()
        except ModuleNotFoundError:
            raise missing("amaranth-boards") from None


def _unit(side: int, stages: int) -> MxuConfig:
    # Operands come as bf16: converters of fp32 are most of the edges of large arrays, and a fifth of small devices.
    return MxuConfig(rows=side, columns=side, stages=stages, source=BF16, depth=16)


_LEDS: tuple[Place, ...] = (("led", 0), ("led", 1), ("led", 2))
_THREE = dict(zip(LIGHTS, _LEDS, strict=True))
_THREE_LIGHTS = "LED 0 is on while all results are right, 1 stays on after a wrong one, 2 blinks"
_ONE = {"pass": _LEDS[0]}
_ONE_LIGHTS = "the LED blinks while all results are right, and stays on after a wrong one"
_OURS = "openmxu_boards.devices.platforms"
_LARGE = Buffers(weights=1024, activations=4096, results=1024)


def _ulx3s(size: str, frequency: int, side: int, stages: int, **more: Any) -> Board:
    return Board(
        *(f"ulx3s-{size.lower()}", "ULX3S", f"LFE5U-{size}", frequency, _unit(side, stages)),
        *(("amaranth_boards.ulx3s", f"ULX3S_{size}_Platform"), _THREE, _THREE_LIGHTS, "openFPGALoader --board ulx3s"),
        uart_note="USB socket US1",
        buffers=_LARGE,
        accelerator_clock=70,
        **more,
    )


_TABLE = (
    Board(
        *("icebreaker", "iCEBreaker", "iCE40UP5K", 24_000_000, _unit(2, 5)),
        platform=("amaranth_boards.icebreaker", "ICEBreakerPlatform"),
        leds={"pass": ("led_g", 0), "fail": ("led_r", 0)},
        lights="green blinks while all results are right, red stays on after a wrong one",
        programmer="iceprog",
        quick=True,
        # The unit never reads a place of its accumulator bank in the cycle in which it is written (that is what
        # config.row_latency is for), but Amaranth has no way to say so: without this, Yosys adds bypasses of 75 LUTs
        # and 206 flip-flops.
        overrides={"script_after_read": "setparam -set COLLISION_X_MASK 1'1 */r:TRANSPARENCY_MASK=1'0"},
        buffers=Buffers(weights=256, activations=1024, results=256, queue=False),
        counters=False,  # neither counters nor a queue fit beside the rest
    ),
    _ulx3s("12F", 90_000_000, 2, 6, quick=True),
    _ulx3s("25F", 85_000_000, 4, 7, accelerator=AcceleratorConfig(size=4, stages=7)),
    _ulx3s("45F", 75_000_000, 4, 7),
    _ulx3s("85F", 70_000_000, 10, 7),
    Board(
        *("orangecrab", "OrangeCrab r0.2", "LFE5U-25F", 75_000_000, _unit(4, 7), (_OURS, "OrangeCrabPlatform")),
        leds={"pass": ("rgb_led", 0, "g"), "fail": ("rgb_led", 0, "r"), "heartbeat": ("rgb_led", 0, "b")},
        lights="green is on while all results are right, red stays on after a wrong one, blue blinks",
        programmer="dfu-util -a 0 -D",
        uart_note="pins 0 (receives) and 1 (sends), for a cable with a converter, at 3.3 V",
        buffers=_LARGE,
    ),
    Board(
        *("colorlight-i5", "Colorlight i5", "LFE5U-25F", 75_000_000, _unit(4, 7), (_OURS, "ColorlightI5Platform")),
        *(_ONE, _ONE_LIGHTS, "openFPGALoader --board colorlight-i5"),
        uart_note="the USB socket of the extension board",
        buffers=_LARGE,
    ),
    Board(
        *("tang-nano-9k", "Tang Nano 9K", "GW1NR-9C", 67_500_000, _unit(2, 6)),
        *(("amaranth_boards.tang_nano_9k", "TangNano9kPlatform"), _THREE, _THREE_LIGHTS),
        programmer="openFPGALoader --board tangnano9k",
        quick=True,
    ),
    # A flip-flop takes the LUT beside it unless that feeds it: in six stages nextpnr finds no places for 4x4, in four
    # none for an accelerator.
    Board(
        *("tang-nano-20k", "Tang Nano 20K", "GW2AR-18C", 81_000_000, _unit(4, 4), (_OURS, "TangNano20kPlatform")),
        *(_THREE, _THREE_LIGHTS, "openFPGALoader --board tangnano20k"),
    ),
    Board(
        *("gatemate-a1-evb", "Olimex GateMateA1-EVB", "CCGM1A1", 20_000_000, _unit(2, 6)),
        *((_OURS, "GateMateA1EvbPlatform"), _ONE, _ONE_LIGHTS, "openFPGALoader --board olimex_gatemateevb"),
        seed=2,  # with 1, nextpnr 0.11.1 reads beyond its memory
    ),
)

BOARDS = {board.name: board for board in _TABLE}


def boards() -> tuple[Board, ...]:
    """All boards."""
    return tuple(BOARDS.values())


def find_board(name: str) -> Board:
    """The board called ``name``; a user's own board is called ``MODULE:CLASS``, see :func:`own_board`."""
    if name in BOARDS:
        return BOARDS[name]
    if ":" in name:
        return own_board(name)
    variants = [variant for variant in BOARDS if variant.startswith(f"{name}-")]
    raise ValueError(f"board must be one of {', '.join(variants or BOARDS)}, not {name!r}")


def own_board(platform: str) -> Board:
    """A user's own board: a 2x2 unit, on the oscillator of a platform, with the lights and the UART found in it.

    Lights are the resources ``led`` 0 to 2, or the parts of ``rgb_led`` 0; the UART is ``uart`` 0.

    Parameters
    ----------
    platform
        ``MODULE:CLASS`` of a platform of Amaranth, as amaranth-boards has them.

    Raises
    ------
    ValueError
        There is no such class, it is no platform with a clock, or it is for a family that has no tools here.
    OSError
        amaranth-boards is not installed.
    """
    module, _, name = platform.partition(":")
    domain = f"platform must be MODULE:CLASS of a platform, not {platform!r}"
    try:
        made = getattr(importlib.import_module(module), name)()
        frequency = round(made.default_clk_frequency)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{domain}: {error}") from None
    family_of(made)
    leds = _found_leds(made)
    return Board(
        platform,
        name,
        str(getattr(made, "device", getattr(made, "part", "?"))),
        frequency,
        _unit(2, 5),
        (module, name),
        leds,
        lights=", ".join(f"{' '.join(map(str, place))} is {light}" for light, place in leds.items()) or "no lights",
        programmer="openFPGALoader",
        uart=("uart", 0) if _has(made, "uart") else None,
        uart_note="uart 0 of the platform",
    )


def _found_leds(platform: Any) -> dict[str, Place]:
    """The lights that a platform has, in the order in which they are needed."""
    if _has(platform, "led"):
        return {light: ("led", number) for number, light in enumerate(LIGHTS) if _has(platform, "led", number)}
    if _has(platform, "rgb_led"):
        return {light: ("rgb_led", 0, part) for light, part in zip(LIGHTS, "grb", strict=True)}
    return {}


def _has(platform: Any, name: str, number: int = 0) -> bool:
    try:
        platform.lookup(name, number)
    except ResourceError:
        return False
    return True


def with_options(
    board: Board,
    *,
    rows: int | None = None,
    columns: int | None = None,
    stages: int | None = None,
    terms: int | None = None,
    clock: float | None = None,
) -> Board:
    """A board with another unit or clock; ``clock`` is in MHz.

    Raises
    ------
    TypeError, ValueError
        A value is outside its domain.
    """
    sizes: dict[str, Any] = {"rows": rows, "columns": columns, "stages": stages, "terms": terms}
    config = replace(board.config, **{name: value for name, value in sizes.items() if value is not None})
    if clock is None:
        return replace(board, config=config)
    if not 0 < clock <= 1000:
        raise ValueError(f"clock must be more than 0 and at most 1000 MHz, not {clock:g}")
    return replace(board, config=config, frequency=round(clock * 1e6))
