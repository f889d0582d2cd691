"""One design point on one target: measured, or looked up."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache as remembered

from openmxu import yosys
from openmxu.area.run.job import Counted, Job
from openmxu.area.subject.points import Point
from openmxu.area.target.targets import Area, Target, UnmappedError, in_order
from openmxu.area.target.timing import SCRIPT, sta_identity
from openmxu.runtime import cache

Executor = Callable[[Job, bytes | None], bytes]
"""Executes a job, here or elsewhere: :func:`openmxu.area.run.job.execute`."""


_MOST_BITS = (1 << 31) - 1
"""The most bits of memory that Yosys counts: its sum has 32 bits, one of which is a sign."""


@dataclass(frozen=True)
class Result:
    """The result of one design point on one target."""

    point: Point
    target: Target
    """The design point, and the target that it was mapped to."""
    area: Area | None
    """The counts of the mapped netlist; none if the run failed."""
    error: str
    """Why it failed, with the log's last lines; empty if it did not."""
    script: str = field(repr=False)
    """The Yosys script that was run."""
    rtlil_sha256: str = field(repr=False)
    """Digest of the design that was measured."""
    depth: int | None = None
    """Cells on the longest path; see :class:`openmxu.area.run.job.Counted`."""
    delay: float | None = None
    """Delay of the longest path in nanoseconds, before placing and routing; none without timing."""
    note: str = ""
    """Why there is no delay, if OpenSTA failed."""

    @property
    def key(self) -> str:
        """A digest of all that the result depends on: the design, the script, the library and the tools."""
        library = self.target.library.text_sha256 if self.target.library else ""
        timing = (self.target.timing, SCRIPT) if self.target.timing else ("",)
        # Cached results hold depth and delay: "area" must change with the way they are measured.
        return cache.key("area", yosys.package(), *timing, self.script, self.rtlil_sha256, library)

    @property
    def netlist_key(self) -> str:
        """The key of its netlist in the cache."""
        return cache.key("mapped", self.key)

    @property
    def figure(self) -> str:
        """A short name for it that no other result has."""
        return self.key[:12]


def measure(
    point: Point, rtlil: str, target: Target, execute: Executor, limit: float = yosys.TIME_LIMIT, *, keep: bool = False
) -> Result:
    """Synthesise one design for one target, or look up its cached result; a failure is a result, too, but is not
    cached.
    """
    script = in_order(target.script.format(top=point.top, change=point.change(rtlil)), point.order)
    result = Result(point, target, None, "", script, hashlib.sha256(rtlil.encode()).hexdigest())
    bits = memory_bits(rtlil, point.top)
    if bits > _MOST_BITS:
        return replace(result, error=f"memories must have at most {_MOST_BITS:,} bits, not {bits:,}")
    library = target.library.text if target.library else None
    job = Job(script, rtlil, point.top, yosys.package(), target.timing, limit, keep)

    def done() -> bytes:
        counted = Counted.from_json(execute(job, library))
        if counted.packed:
            cache.fetch("netlists", result.netlist_key, lambda: base64.b64decode(counted.packed))
        return replace(counted, packed="").to_json()

    try:
        # A figure's key is the same on all machines; its delay is that of this one's program.
        kept = cache.key(result.key, sta_identity()) if target.timing else result.key
        counted = Counted.from_json(cache.fetch("areas", kept, done))
        return replace(
            result, area=target.count(counted.statistics), depth=counted.depth, delay=counted.delay, note=counted.note
        )
    except (yosys.SynthesisError, UnmappedError) as problem:
        return replace(result, error=str(problem))


def memory_bits(rtlil: str, top: str) -> int:
    """Bits of the memories of a design, each module counted once for each instance."""
    texts = dict(re.findall(r"^module \\(\S+)\n(.*?)^end$", rtlil, re.MULTILINE | re.DOTALL))

    @remembered
    def bits(name: str) -> int:
        # RTLIL leaves a width of 1 out.
        memories = re.findall(r"^ *memory(?: width (\d+))?(?: size (\d+))?", texts[name], re.MULTILINE)
        parts = Counter(re.findall(r"^ *cell \\(\S+) ", texts[name], re.MULTILINE))
        own = sum(int(width or 1) * int(size or 0) for width, size in memories)
        return own + sum(number * bits(part) for part, number in parts.items() if part in texts)

    return bits(top) if top in texts else 0
