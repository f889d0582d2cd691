"""The origin of a record: version and commit of this project, and a digest of its hardware."""

import functools
import hashlib
from importlib.metadata import version

from openmxu.catalog import build
from openmxu.export.verilog import to_rtlil
from openmxu.runtime.extras import commit

NETLIST = "netlist of mxu_2x2"
"""Key of the unit's digest in :func:`provenance`."""


@functools.cache
def provenance() -> dict[str, str]:
    """Version and commit of this project, and a digest of a small unit, which has all parts of a large one.

    Two records of the same digest were measured on the same hardware. The commit is left out where it is unknown.
    """
    rtlil = to_rtlil(build("mxu_2x2"), name="mxu_2x2")
    return {
        "OpenMXU": ", ".join(filter(None, [version("openmxu"), commit()])),
        NETLIST: hashlib.sha256(rtlil.encode()).hexdigest()[:12],
    }
