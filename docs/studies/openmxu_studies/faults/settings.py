"""The caller's floating-point settings: rounding in any direction, subnormal numbers flushed, or both."""

import ctypes
import platform
from pathlib import Path
from random import Random

from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.products import Product

_MXCSR = 7
"""Place of MXCSR in glibc's fenv_t for x86-64, in words of 32 bits."""

_ENGINES = ("golden", "model", "compiled")
"""Engines that compute in this process."""


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Multiply under random settings, which must be the same afterwards."""
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        return LOST, "settings can be changed on x86-64 with glibc only"
    random = Random(f"settings {seed}")
    product, engine = Product(random), random.choice(_ENGINES)
    if engine == "compiled":
        product.by(engine)  # compiled now, so that this thread's run is what is tried
    library = ctypes.CDLL("libm.so.6")
    before, during = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    library.fegetenv(before)
    library.fegetenv(during)
    during[_MXCSR] = during[_MXCSR] & ~0xE040 | random.randrange(4) << 13 | random.choice((0, 0x40, 0x8000, 0x8040))
    wanted = during[_MXCSR]
    text = f"{engine}, {product.mode}, MXCSR {wanted:04x}"
    library.fesetenv(during)
    try:
        bits = product.by(engine)
        library.fegetenv(during)
    except Exception as error:
        return LOST, f"{text}: {error!r}"
    finally:
        library.fesetenv(before)
    if during[_MXCSR] & ~0x3F != wanted & ~0x3F:
        return LOST, f"{text}: left as {during[_MXCSR]:04x}"
    return (SURVIVED if bits == product.right else WRONG), text
