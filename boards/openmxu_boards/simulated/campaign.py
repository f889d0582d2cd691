"""Faults at the pins of a simulated board by the thousand, and their effect on products."""

from collections import Counter
from dataclasses import dataclass, field

from openmxu_boards.host import BoardError, Host
from openmxu_boards.host.check import check
from openmxu_boards.simulated.faults import Faults
from openmxu_boards.simulated.pin_link import PinLink
from openmxu_boards.simulated.pins import Pins
from openmxu_sim.operands.aliases import Progress

CLOCK, BAUD = 1_000_000, 250_000
"""Hz and baud rate of the system that is simulated: a bit has four cycles, and waiting costs little."""

_SHARE = 0.3
"""Fraction of requests, and of answers, that are disturbed."""

_PRODUCTS = 20
"""Products between two checks of the board through a sound cable."""

_TRIES = 16


@dataclass
class Campaign:
    """The outcome of a campaign of faults."""

    counts: Counter[str] = field(default_factory=Counter)
    products: int = 0
    words: int = 0
    wrong: int = 0
    """Products that were returned, words in their results, and words that differ."""
    gave_up: int = 0
    """Times that the host gave up, with an error, a board that did not answer in time."""
    hangs: int = 0
    """Times that the board did not answer through a sound cable afterwards, or answered wrongly."""
    retries: int = 0

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.hangs

    def __str__(self) -> str:
        kinds = [f"  {kind}: {count:,}" for kind, count in sorted(self.counts.items())]
        return "\n".join(
            [
                f"{self.counts.total():,} faults at the pins:",
                *kinds,
                f"{self.products:,} products, {self.words:,} words of results: {self.wrong} wrong, {self.hangs} hangs",
                f"{self.retries:,} requests sent again, {self.gave_up} times given up with an error",
            ]
        )


def campaign(
    pins: Pins, faults: int, *, clock: int = CLOCK, baud: int = BAUD, seed: int = 0, progress: Progress | None = None
) -> Campaign:
    """Multiply on a simulated board while requests and answers are disturbed, until ``faults`` faults have happened."""
    done = Campaign()
    while done.counts.total() < faults:
        _spoil(pins, done, clock, baud, seed)
        sound = PinLink(pins, clock=clock, baud=baud)
        try:
            done.hangs += not check(Host(sound), 1, seed).right
        except BoardError:
            done.hangs += 1
        seed += _PRODUCTS
        if progress is not None:
            progress(min(done.counts.total(), faults), faults)
    return done


def _spoil(pins: Pins, done: Campaign, clock: int, baud: int, seed: int) -> None:
    """Some products under faults."""
    disturbance = Faults(seed, _SHARE)
    link = PinLink(pins, clock=clock, baud=baud, disturbance=disturbance)

    try:
        host = Host(link, tries=_TRIES)
        result = check(host, _PRODUCTS, seed)
    except BoardError:
        done.gave_up += 1
    else:
        done.products += result.products
        done.words += result.words
        done.wrong += result.wrong
        done.retries += result.retries
    done.counts += disturbance.counts
