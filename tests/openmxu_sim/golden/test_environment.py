"""The processor's settings, as callers may have changed them: no engine trusts them, and all leave them alone."""

import ctypes
import platform
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from openmxu_sim import golden, matmul
from openmxu_sim.engines import ENGINES, model
from openmxu_sim.golden import environment
from openmxu_sim.golden.environment import ieee_arithmetic
from openmxu_sim.netlist.native import compile_c
from openmxu_sim.operands import vectors

from ...bits import matrices
from ...conftest import need, slow

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="settings are changed through glibc's fenv_t of x86-64",
)

# MXCSR: bit 15 flushes results to zero, bit 6 takes subnormal operands for zeros, bits 14 and 13 are the rounding.
SETTINGS = {"results flushed": 0x8000, "operands flushed": 0x0040, "-ffast-math": 0x8040}
SETTINGS |= {"down": 0x2000, "up": 0x4000, "towards zero": 0x6000, "up, flushed": 0xC040}
_each_setting = pytest.mark.parametrize("bits", SETTINGS.values(), ids=SETTINGS)

_libm = ctypes.CDLL("libm.so.6")
_Settings = ctypes.c_uint32 * 8


def control() -> int:
    """The settings of a thread, without the flags."""
    found = _Settings()
    _libm.fegetenv(found)
    return found[7] & 0xFFC0


@contextmanager
def set_to(bits: int) -> Iterator[None]:
    before = _Settings()
    _libm.fegetenv(before)
    after = _Settings(*before)
    after[7] = after[7] & ~0xE040 | bits
    _libm.fesetenv(after)
    try:
        yield
    finally:
        _libm.fesetenv(before)


@_each_setting
def test_arithmetic_is_ieee_inside_and_as_it_was_outside(bits: int) -> None:
    one, third, tiny = np.float32(1), np.float32(3), np.uint32(1).view(np.float32)
    with set_to(bits):
        wanted = control()
        with ieee_arithmetic():
            found = np.array([one / third, (one + one) / third, -one / third, tiny + tiny])
            assert found.view(np.uint32).tolist() == [0x3EAAAAAB, 0x3F2AAAAB, 0xBEAAAAAB, 2]
            assert control() == 0x1F80
        assert control() == wanted
        with pytest.raises(ZeroDivisionError), ieee_arithmetic():
            raise ZeroDivisionError
        assert control() == wanted


@_each_setting
def test_settings_that_cannot_be_changed(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_found", None)
    with ieee_arithmetic():
        pass
    with set_to(bits), pytest.raises(RuntimeError, match=r"^the processor must round to nearest and keep"):
        golden.add([0x3F800000], [0x3F800000])


_CLOCKED = ("pysim", "icarus", "verilator")


@pytest.mark.parametrize("engine", [slow(engine) if engine in _CLOCKED else engine for engine in ENGINES])
@pytest.mark.parametrize("mode", ["flush", slow("ieee")])
def test_every_engine_under_every_setting(mode: str, engine: str) -> None:
    if engine in ("icarus", "verilator"):
        need(engine)
        if mode == "flush":
            pytest.skip("a process of its own has settings of its own: ieee shows as much")
    a, b = matrices(5, 6, 4, 11)
    narrow = golden.to_array(vectors.matrix((5, 6), "bf16", 13), "bf16")
    doubles = np.array([[1 / 3, 2.0**-140, -1e300, 1 + 2.0**-24]] * 4).T
    options: dict[str, Any] = {"rows": 2, "columns": 2, "subnormals": mode, "engine": engine}

    def products() -> list[bytes]:
        results = [matmul(doubles, doubles, **options).tobytes()]
        if engine not in _CLOCKED:
            results += [matmul(a, b, **options, output="bf16").tobytes(), matmul(narrow, b, **options).tobytes()]
            results += [matmul(a, b, **options, precision="high").tobytes()]
        return results

    expected = products()
    for bits in [SETTINGS["up, flushed"]] if engine in _CLOCKED else SETTINGS.values():
        with set_to(bits):
            wanted = control()
            assert products() == expected, f"{engine}, {mode}, MXCSR {bits:04x}"
            assert control() == wanted


@_each_setting
def test_the_definition_itself(bits: int) -> None:
    a, b = vectors.pairs("fp32", 20_000, 3)
    narrow_a, narrow_b = a >> np.uint32(16), b >> np.uint32(16)
    operands = golden.from_bits(vectors.matrix((8, 8), "fp32", 47) & 0x80FFFFFF), golden.from_bits(a[:64].reshape(8, 8))

    def results() -> list[bytes]:
        found: list[np.ndarray] = []
        for mode in ("flush", "ieee"):
            found += [golden.add(a, b, subnormals=mode), golden.multiply(narrow_a, narrow_b, subnormals=mode)]
            found += [golden.convert(a, subnormals=mode), golden.matmul(*operands, rows=3, subnormals=mode)]
        return [each.tobytes() for each in found]

    expected = results()
    with set_to(bits):
        assert results() == expected


@pytest.mark.parametrize("bits", [SETTINGS["-ffast-math"], SETTINGS["up"]])
def test_threads_of_the_model(bits: int) -> None:
    """Each has settings of its own, which it takes from the one that starts it."""
    a, b = matrices(520, 9, 300, 5)
    expected = model.matmul(a, b, rows=4, subnormals="ieee", threads=1).tobytes()
    with set_to(bits):
        assert model.matmul(a, b, rows=4, subnormals="ieee", threads=3).tobytes() == expected
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(model.matmul, a, b, rows=4, subnormals="ieee", threads=2) for _ in range(4)]
        assert {job.result().tobytes() for job in jobs} == {expected}


def test_a_library_that_changes_them_when_it_is_loaded() -> None:
    source = """
#include <xmmintrin.h>
__attribute__((constructor)) static void start(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
int there(void) { return 1; }
"""
    before = control()
    assert compile_c(source).there() == 1
    assert control() == before
    assert np.uint32(0x000116C2).view(np.float32) * np.float32(1) != 0
