"""A unit as a shared library, built where it is not in the cache yet."""

import ctypes
import json
from dataclasses import asdict
from functools import lru_cache

from openmxu.runtime import cache
from openmxu.spec.config import MxuConfig
from openmxu_sim.engines.library import fetch_library, try_library
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.netlist.native import open_library
from openmxu_sim.sources import SOURCES


class Model:
    """The functions of a unit's shared library, with their types; see ``unit.c``."""

    def __init__(self, library: bytes) -> None:
        functions = open_library(library)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.new = functions.unit_new
        self.new.argtypes = [
            pointer,
            pointer,
            number,
            number,
            pointer,
            number,
            number,
            pointer,
            number,
            number,
            pointer,
            ctypes.c_int,
            pointer,
        ]
        self.new.restype = pointer
        self.run = functions.unit_run
        self.run.argtypes = [pointer, number]
        self.run.restype = None
        self.progress = functions.unit_progress
        self.progress.argtypes = [pointer]
        self.progress.restype = ctypes.POINTER(number * (4 + len(Counters._fields)))
        self.delete = functions.unit_delete
        self.delete.argtypes = [pointer]
        self.delete.restype = None
        try:
            text = ctypes.c_char_p.in_dll(functions, "unit_registers")
        except ValueError as error:
            raise AttributeError(str(error)) from None
        pairs = (pair.rpartition(":") for pair in ctypes.string_at(ctypes.addressof(text)).decode().split())
        self.registers = tuple((name, int(width)) for name, _, width in pairs)
        """Names and widths of a processing element's registers."""


@lru_cache(maxsize=16)
def load_model(config: MxuConfig) -> Model:
    """Load the model of a unit, from the cache or built now and tried, which takes a second or two."""
    text = cache.fetch_result(SOURCES, lambda: _text(config), "unit", repr(config))

    def check(library: bytes) -> bool:
        # Modules that only building needs are imported only then.
        from openmxu_sim.engines.known_answer import hardware_differs  # noqa: PLC0415

        return try_library(
            library,
            "openmxu_sim.engines.compiled.try_unit",
            json.dumps(asdict(config)),
            what="a known product on the compiled unit",
            excused=lambda: hardware_differs(config),
        )

    return fetch_library(text.decode(), Model, check)


def _text(config: MxuConfig) -> bytes:
    # Imported for building only, as above.
    from openmxu_sim.engines.compiled.source import netlists, unit_source  # noqa: PLC0415

    return unit_source(config, netlists(config)).encode()
