"""A board as an engine."""

from collections.abc import Iterator, Sequence

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.unit.status import COUNTERS, Error
from openmxu_boards.host.link import BAUD, Link, SerialLink, candidates
from openmxu_boards.host.program import Load, beat_size, program
from openmxu_boards.host.program import Run as TileRun
from openmxu_boards.host.session import BoardError, Session
from openmxu_boards.protocol import LOAD, Command, Identity
from openmxu_sim.engines.protocol import Counters, Run
from openmxu_sim.operands.aliases import Progress, Words
from openmxu_sim.operands.stimulus import Stimulus, read_words

_MOST_BAUD = 12_000_000
"""Bits per second of the fastest converters."""

_REPLY = 1024
"""Bytes of results in one request: it is repeated if they arrive damaged."""


class Host:
    """A board on a link.

    Parameters
    ----------
    link
        The link to the board; closed by :meth:`close`.
    tries
        Number of requests for its identity before it is given up.

    Raises
    ------
    BoardError
        The board does not answer.
    ValueError
        The answer is not from a board of ours, or from one of another version.
    """

    def __init__(self, link: Link, *, tries: int = 4) -> None:
        self._link = link
        self._session = Session(link)
        self.identity: Identity = self._session.identify(tries)
        """The board's identity."""
        _check_room(self.identity)
        self._session.open()

    @property
    def config(self) -> MxuConfig:
        """The board's unit."""
        return self.identity.config

    @property
    def port(self) -> str:
        """The port that it is on."""
        return self._link.name

    @property
    def retries(self) -> int:
        """Requests that were sent again because no answer came."""
        return self._session.retries

    @property
    def carried(self) -> int:
        """Bytes to the board and from it, until now."""
        return self._session.carried

    def now(self) -> float:
        """Seconds since some moment, by the link's clock."""
        return self._link.now()

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port."""
        self._link.close()

    def counters(self) -> Counters:
        """The unit's counters and error code after the last run."""
        return _counters(self._session.ask(Command.COUNTERS, reply=_SIZE))

    def run(self, stimulus: Stimulus, *, progress: Progress | None = None) -> Run:
        """Run a stimulus on the board; see :class:`openmxu_sim.engines.protocol.Device`.

        Cycles and counters are the sums over all runs, without the time of transfers; cycles are 0 on
        a board without counters.
        """
        if self.identity.program:
            raise ValueError(f"the board on {self.port} must have a unit alone, not an accelerator: use run-network")
        arrived: list[int] = []
        counted = np.zeros(len(COUNTERS), dtype=np.int64)
        plan = program(self.identity, stimulus)
        for step in plan.steps:
            if isinstance(step, Load):
                self.load(step)
                continue
            counted += self._run(step)[:-1]
            arrived.extend(self.results(step.results, beat_size(self.config.result.width, self.config.columns)))
            if progress is not None:
                progress(len(arrived), stimulus.results)
        total = Counters._make([*map(int, counted), 0])
        has_counters = self.identity.counters
        return Run(self._sorted(arrived, plan.order, stimulus), total.cycles, total if has_counters else None)

    def _sorted(self, arrived: Sequence[int], order: Sequence[int], stimulus: Stimulus) -> Words:
        """Results in the order of the stimulus, as words."""
        sizes = [len(tile.activations) for tile in stimulus.tiles if tile.emit]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        config = self.config
        beats = np.empty((stimulus.results, config.columns), dtype=np.uint32)
        places = (index for number in order for index in range(starts[number], starts[number + 1]))
        for index, beat in zip(places, arrived, strict=True):
            beats[index] = read_words(beat, config.result.width, config.columns)
        return beats

    def load(self, load: Load) -> None:
        """Send beats, as many at a time as a frame holds."""
        command = Command.WEIGHTS if load.weights else Command.ACTIVATIONS
        most = (self.identity.frame - LOAD) // load.size * load.size
        for start in range(0, len(load.beats), most):
            address = load.address + start // load.size
            self.ask(command, address.to_bytes(2, "little") + load.beats[start : start + most])

    def ask(self, command: Command, arguments: bytes, *, reply: int = 0, seconds: float = 0.0) -> bytes:
        """The data of the board's answer to a request; ``reply`` bytes and ``seconds`` are those that it may take."""
        return self._session.ask(command, arguments, reply=reply, seconds=seconds)

    def _run(self, run: TileRun) -> Counters:
        """Run tiles; their results go to the start of the result buffer."""
        tiles = b"".join(tile.to_bytes() for tile in run.tiles)
        config = self.config
        beats = sum(tile.beats + config.rows * config.row_step + config.latency for tile in run.tiles)
        seconds = 2 * beats / max(self.identity.clock, 1)
        counters = _counters(self.ask(Command.RUN, bytes(2) + tiles, reply=_SIZE, seconds=seconds))
        if counters.error:
            raise BoardError(f"the unit of the board on {self.port} has seen a mistake: {Error(counters.error).name}")
        return counters

    def results(self, count: int, size: int, *, first: int = 0) -> Iterator[int]:
        """``count`` beats of ``size`` bytes of the result buffer, each as one integer."""
        most = max(1, _REPLY // size)
        for start in range(first, first + count, most):
            beats = min(most, first + count - start)
            arguments = start.to_bytes(2, "little") + beats.to_bytes(2, "little")
            data = self.ask(Command.RESULTS, arguments, reply=beats * size)
            if len(data) != beats * size:
                raise BoardError(f"the board on {self.port} gave {len(data)} bytes of results, not {beats * size}")
            for beat in range(0, len(data), size):
                yield int.from_bytes(data[beat : beat + size], "little")


_SIZE = 4 * len(COUNTERS) + 1
"""Bytes of the counters and the error code."""


def _check_room(identity: Identity) -> None:
    """Refuse buffers that do not hold one tile, and frames that do not hold one beat."""
    config = identity.config
    widest = beat_size(config.source.width, max(config.rows, config.columns))
    if identity.frame < LOAD + widest:
        raise ValueError(f"the board must take frames of {LOAD + widest} bytes, not of {identity.frame}")
    for needed, there in (
        (config.rows, identity.weights),
        (config.depth, identity.activations),
        (config.depth, identity.results),
    ):
        if there < needed:
            raise ValueError(f"the board must have room for a tile of {needed} beats, not for {there}")


def _counters(data: bytes) -> Counters:
    if len(data) != _SIZE:
        raise BoardError(f"the board gave {len(data)} bytes of counters, not {_SIZE}")
    numbers = [int.from_bytes(data[4 * index : 4 * index + 4], "little") for index in range(len(COUNTERS))]
    return Counters._make([*numbers, data[-1]])


def connect(port: str = "auto") -> Host:
    """The board on a port.

    Parameters
    ----------
    port
        A serial port; or ``"auto"``: the ports of known USB converters are tried until a board answers. ``@`` and a
        number after it set the bits per second; the default is :data:`~openmxu_boards.host.link.BAUD`.

    Raises
    ------
    OSError
        The port cannot be opened; or ``"auto"`` finds none, and the text names the failure of each port.
    BoardError, ValueError
        The device on the port does not answer, or is no board of ours.
    """
    name, at, rate = port.rpartition("@") if "@" in port else (port, "", "")
    baud = int(rate) if rate.isdecimal() else 0 if at else BAUD
    if not name or not 1 <= baud <= _MOST_BAUD:
        raise ValueError(f"port must be a name, or a name, @ and a baud rate of at most {_MOST_BAUD}, not {port!r}")
    if name != "auto":
        return _open(name, baud)
    reasons = []
    for candidate in candidates():
        try:
            return _open(candidate, baud)
        except (OSError, BoardError, ValueError) as error:
            reasons.append(str(error))
    raise OSError(f"port must be given: {'; '.join(reasons) or 'no known USB converter is plugged in'}")


def _open(port: str, baud: int) -> Host:
    link = SerialLink(port, baud)
    try:
        return Host(link)
    except BaseException:
        link.close()
        raise
