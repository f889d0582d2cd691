"""A unit as a shared library, built where it is not in the cache yet."""

import ctypes
import json
from functools import lru_cache
from pathlib import Path

from openmxu import cache as disk
from openmxu.config import MxuConfig
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.netlist import native

__all__ = ["Model", "load_model"]


class Model:
    """The functions of a unit's shared library, with their types; see ``unit.c``.

    Attributes
    ----------
    registers
        Names and widths of a processing element's registers.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.new = library.unit_new
        self.new.argtypes = [pointer, pointer, number, number, pointer, number, number, pointer, number, number,
                             pointer, ctypes.c_int, pointer]
        self.new.restype = pointer
        self.run = library.unit_run
        self.run.argtypes = [pointer, number]
        self.run.restype = None
        self.progress = library.unit_progress
        self.progress.argtypes = [pointer]
        self.progress.restype = ctypes.POINTER(number * (4 + len(Counters._fields)))
        self.delete = library.unit_delete
        self.delete.argtypes = [pointer]
        self.delete.restype = None
        text = ctypes.c_char_p.in_dll(library, "unit_registers")
        pairs = (pair.rpartition(":") for pair in ctypes.string_at(ctypes.addressof(text)).decode().split())
        self.registers = tuple((name, int(width)) for name, _, width in pairs)


@lru_cache(maxsize=16)
def load_model(config: MxuConfig) -> Model:
    """The model of a unit, from the cache or built now, which takes a second or two.

    Raises
    ------
    openmxu_sim.netlist.native.CompilerNotFoundError, openmxu_sim.netlist.native.CompilationError
        There is no C compiler, or it failed.
    openmxu_sim.netlist.rtlil.NetlistError
        The unit's netlist holds what cannot be compiled.
    """
    compiler = native.compiler_version()
    netlists = disk.fetch_netlist(lambda: _netlists(config), repr(config)).decode()
    generator = disk.sources(Path(native.__file__).parent), disk.sources(Path(__file__).parent)
    key = disk.key(netlists, repr(config), *generator, compiler, *native.FLAGS, disk.processor())
    return Model(native.open_library(disk.fetch("models", key, lambda: _build(config, netlists))))


def _netlists(config: MxuConfig) -> bytes:
    from openmxu_sim.engines.compiled.source import netlists  # noqa: PLC0415

    return json.dumps(netlists(config)).encode()


def _build(config: MxuConfig, netlists: str) -> bytes:
    # What is needed for building only is imported only then.
    from openmxu_sim.engines.compiled.source import unit_source  # noqa: PLC0415

    return native.build_library(unit_source(config, json.loads(netlists)))
