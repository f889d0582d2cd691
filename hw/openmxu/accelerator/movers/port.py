"""The movers' requests to any bus."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.movers.bursts import PAGE_BITS, Burst
from openmxu.accelerator.movers.loader import ReadBeat
from openmxu.accelerator.movers.storer import WrittenBeat
from openmxu.spec.accelerator import AcceleratorConfig

ADDRESS = 32
"""Bits of an address, of a byte."""

BASE = ADDRESS - PAGE_BITS
"""Bits that say where the window begins: on a multiple of 4 kB."""


class BusPort(wiring.Signature):
    """Bursts and beats of both movers."""

    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(
            {
                "reads": Out(stream.Signature(Burst())),
                "read": In(ReadBeat(config.beat)),  # the beats of these bursts, in order
                "writes": Out(stream.Signature(Burst())),
                # The beats of these bursts, in order, there before their burst.
                "written": Out(stream.Signature(WrittenBeat(config.beat))),
                "quiet": In(1),  # all bursts that were taken from writes are written
                "error": In(1),  # one was not
            }
        )
