"""Small products as foreign functions of XLA: its program calls the kernel of the engine ``model``, without Python.

::

    pure_callback   program ─▶ Python ─▶ numpy ─▶ ctypes ─▶ kernel      any size, any platform, several threads
    foreign         program ─▶ handler.c ─▶ kernel                      small products on the CPU, where it can be built
"""

import hashlib
import logging
import threading
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from openmxu.runtime import native
from openmxu_sim.engines import model
from openmxu_sim.engines.library import fetch_library, try_library
from openmxu_sim.engines.model.kernel import kernel_source
from openmxu_sim.netlist.native import open_library
from openmxu_sim.networks.numerics import Numerics

_log = logging.getLogger(__name__)

_HEADER = "xla/ffi/api/c_api.h"


_lock = threading.Lock()


def find_handler() -> str | None:
    """Return the name by which XLA knows the handler, built or from the cache; ``None`` if it cannot be built."""
    with _lock:  # XLA takes a name once
        return _find_handler()


@lru_cache(maxsize=1)
def _find_handler() -> str | None:
    try:
        header = (Path(jax.ffi.include_dir()) / _HEADER).read_text()
        text = "\n".join([header, kernel_source(), native.resource(__package__ or "", "handler.c")])
        note = "compiling the handler of products for JAX, once: a few seconds"
        check = partial(try_library, module="openmxu_sim.jax.try_handler", what="known products of JAX")
        library = fetch_library(text, open_library, check, note=note)
        # With a digest of the source: a compiled program that was kept meets the same handler or none.
        name = f"openmxu_products_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        register(name, library)
    except native.CompilationError as error:
        _log.warning("products of JAX go through Python, which takes longer: %s", error)
        return None
    except (AttributeError, OSError, native.CompilerNotFoundError) as error:
        _log.info("products of JAX go through Python: %s", error)
        return None
    return name


_libraries: list[Any] = []
"""Libraries that must stay loaded."""


def register(name: str, library: Any) -> None:
    """Register a library's handler with XLA under a name."""
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(library.openmxu_products), platform="cpu")
    _libraries.append(library)


def call(name: str, numerics: Numerics, a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the products of (P, M, K) and (P, K, N) in fp32, by a handler's name; ``vmap`` puts dimensions first."""
    how, target, rows, block, parts = model.plain_setup(a.shape[-1], **numerics.options())
    shape = jax.ShapeDtypeStruct((*a.shape[:-1], b.shape[-1]), a.dtype)
    products = jax.ffi.ffi_call(name, shape, vmap_method="broadcast_all")
    result: jax.Array = products(
        a,
        b,
        how=np.frombuffer(how, np.uint8),
        target=np.frombuffer(target, np.uint8),
        tiling=np.array([rows, block], np.int64),
        parts=np.array(parts, np.int32).reshape(-1),
    )
    return result
