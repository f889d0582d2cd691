"""The job behind one figure: a script on a design, and the counts of its result. Any machine can execute it."""

import base64
import json
import re
import zlib
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from openmxu import yosys
from openmxu.area.target.timing import TimingError, delay, find_sta

_STATISTICS, _DEPTH = "stat.json", "depth.txt"

NETLIST = "netlist.v"
"""Name of the file in which a script leaves the netlist for a delay."""


@dataclass(frozen=True)
class Job:
    """A script to run on a design, with its tools and limits."""

    script: str
    """The Yosys script, which reads ``/job/design.il`` and, on gates, ``/lib/cells.lib``, and leaves its results in
    ``/job``: ``stat.json`` (``stat -json``), ``depth.txt`` (``ltp``) and, for a delay, ``netlist.v``."""
    rtlil: str
    """The design."""
    top: str
    """Its top module."""
    package: str
    """The package that brings Yosys, and its version."""
    timing: str
    """The tool that measures the delay, and its version; empty for no delay."""
    limit: float
    """Seconds that Yosys may take."""
    keep: bool = False
    """Whether to return the netlist, too, where there is one for a delay."""


@dataclass(frozen=True)
class Counted:
    """The result of a job."""

    statistics: Any
    """Statistics of the netlist, as ``stat -json`` gives them."""
    depth: int
    """Cells on the longest path between ports, flip-flops, memories and modules that are mapped once."""
    delay: float | None
    """Delay of the longest path in ns; none without timing, with memories, which have none, or where OpenSTA failed."""
    note: str = ""
    """Why OpenSTA failed."""
    packed: str = ""
    """The netlist, as :func:`pack` makes it; empty if it was not wanted."""

    def to_json(self) -> bytes:
        """The fields as JSON text."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "packed" or value}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "Counted":
        """The reverse of :meth:`to_json`; fields that a later release may have added are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})


def pack(netlist: str) -> bytes:
    """The compressed text of a netlist."""
    return zlib.compress(netlist.encode(), 6)


def unpack(packed: bytes) -> str:
    """The reverse of :func:`pack`."""
    return zlib.decompress(packed).decode()


def execute(job: Job, library: bytes | None) -> bytes:
    """Execute a job; Yosys is compiled for the machine first, where it is not."""
    there = yosys.package(), find_sta() if job.timing else ""
    if there != (job.package, job.timing):
        raise yosys.SynthesisError(f"tools must be {job.package} {job.timing}, not {' '.join(there)}")
    files = [_STATISTICS, _DEPTH, *([NETLIST] if job.timing else [])]
    libraries = {"cells.lib": library} if library else {}
    outputs = yosys.run(job.script, job.rtlil, files, libraries=libraries, limit=job.limit)
    try:
        statistics = json.loads(outputs[_STATISTICS])
    except ValueError as error:
        raise yosys.SynthesisError(f"Yosys: no result: {_STATISTICS}: {error}") from None
    counted = Counted(statistics, max([0, *map(int, re.findall(r"\(length=(-?\d+)\)", outputs[_DEPTH]))]), None)
    if job.keep and job.timing:
        counted = replace(counted, packed=base64.b64encode(pack(outputs[NETLIST])).decode())
    if job.timing and library and not statistics["design"]["num_memory_bits"]:
        try:
            counted = replace(counted, delay=delay(outputs[NETLIST], job.top, library))
        except TimingError as error:
            counted = replace(counted, note=str(error))
    return counted.to_json()
