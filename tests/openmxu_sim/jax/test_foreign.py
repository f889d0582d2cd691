"""The handler that XLA calls: golden's bits, whatever XLA's threads have set; and what it refuses."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make setup-models")

import jax.numpy as jnp  # noqa: E402  # needs JAX

import openmxu_sim.jax as mxu  # noqa: E402
from openmxu.runtime.native import CompilationError, CompilerNotFoundError  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.engines import model  # noqa: E402
from openmxu_sim.jax import foreign, primitives  # noqa: E402
from openmxu_sim.networks.numerics import Numerics  # noqa: E402

from ...bits import same_bits  # noqa: E402
from ..engines.runs import changing, program  # noqa: E402
from ..networks.programs import patterns, run_python  # noqa: E402

HANDLER = foreign.find_handler()
needs_handler = pytest.mark.skipif(HANDLER is None, reason="there is no C compiler, or no header of JAX's")
pytestmark = needs_handler


def by_handler(numerics: Numerics, a: Any, b: Any) -> np.ndarray:
    assert HANDLER is not None
    return np.asarray(jax.jit(partial(foreign.call, HANDLER, numerics))(a, b))


@pytest.mark.parametrize(
    "case",
    [
        *({"operand": name} for name in ("bf16", "fp32", "fp8_e4m3", "e5f9")),
        *({"precision": name} for name in ("high", "highest", "exact9")),
        {"accumulate": "bf16"},
    ],
    ids=str,
)
def test_bits(case: dict[str, str], mode: str) -> None:
    numerics = Numerics(**{"rows": 5, "subnormals": mode, **case}).checked()  # type: ignore[arg-type]
    a, b = patterns(3, 14, 13, seed=3), patterns(3, 13, 35, seed=4)
    expected = [golden.matmul(*pair, **numerics.options()) for pair in zip(a, b, strict=True)]
    same_bits(by_handler(numerics, a, b), np.stack(expected))


def test_subnormal_numbers_are_kept() -> None:
    """XLA's threads flush them; in this mode their products are subnormal numbers, too."""
    numerics = Numerics(operand="bf16", subnormals="ieee")
    a, b = jnp.full((1, 2, 1), 2.0**-100, jnp.float32), jnp.full((1, 1, 3), 2.0**-40, jnp.float32)
    assert (by_handler(numerics, a, b) == np.float32(2.0**-140)).all()


def test_settings_are_restored() -> None:
    """What XLA computes of a product on the same thread flushes as it does otherwise."""
    half, tiny = jnp.full((1, 1), 0.5), jnp.full((1, 1), np.float32(2.0**-126))
    alone = jax.jit(lambda product, x: product * x)(half, tiny)
    found = jax.jit(lambda a, x: mxu.matmul(a, jnp.ones((1, 1))) * x)(half, tiny)
    assert (np.asarray(alone), np.asarray(found)) == (0, 0)


def test_both_ways_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = patterns(7, 20, seed=7), patterns(20, 9, seed=8)
    found = np.asarray(jax.jit(mxu.matmul)(a, b))
    monkeypatch.setattr(primitives, "find_handler", lambda: None)
    same_bits(jax.jit(partial(mxu.matmul, rows=128))(a, b), found)


def test_threads() -> None:
    numerics = Numerics()
    a, b = patterns(4, 32, 32, seed=9), patterns(4, 32, 32, seed=10)
    expected = by_handler(numerics, a, b)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: by_handler(numerics, a, b), range(40)):
            same_bits(found, expected)


_RIGHT = (2, 3), (3, 5), (2, 5)
_UNEQUAL = [((2, 3), (4, 5), (2, 5)), ((2, 3), (3, 5), (2, 4)), ((2, 0), (0, 5), (2, 5))]
_UNEQUAL.append(((3, 2, 3), (2, 3, 5), (3, 2, 5)))
_NO_STACKS = [((3,), (3,), (3,)), ((2, 3), (1, 3, 5), (2, 5))]
_MISSING = [{"how": np.zeros(3, np.uint8)}, {"target": np.float32(1)}, {"tiling": np.zeros(2, np.int32)}]
_MISSING += [{"parts": np.zeros(count, np.int32)} for count in (3, 20)]
_TILINGS = [0, 0], [-1, 3], [3, 0], [2, 3]


@pytest.mark.parametrize(
    ("shapes", "changes", "text"),
    [
        *((each, {}, "sizes of operands do not match") for each in _UNEQUAL),
        *((each, {}, "operands must be stacks of fp32 matrices") for each in _NO_STACKS),
        *((_RIGHT, each, "formats, tiling or parts are missing") for each in _MISSING),
        *((_RIGHT, {"tiling": np.array(each)}, "tiling must be rows and a multiple of them") for each in _TILINGS),
    ],
)
def test_refusals(shapes: tuple[tuple[int, ...], ...], changes: dict[str, Any], text: str) -> None:
    """An error of JAX's with our text, whatever a program that was made elsewhere asks for."""
    how, target, rows, block, parts = model.plain_setup(3, **Numerics().options())
    attributes = {"how": np.frombuffer(how, np.uint8), "target": np.frombuffer(target, np.uint8)}
    attributes |= {"tiling": np.array([rows, block]), "parts": np.array(parts, np.int32).reshape(-1), **changes}
    left, right, result = shapes
    call = jax.ffi.ffi_call(HANDLER, jax.ShapeDtypeStruct(result, jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"openmxu: {text}"):
        jax.block_until_ready(call(jnp.ones(left), jnp.ones(right), **attributes))


def test_other_types_are_refused() -> None:
    call = jax.ffi.ffi_call(HANDLER, jax.ShapeDtypeStruct((2, 2), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="openmxu: operands must be stacks of fp32 matrices"):
        jax.block_until_ready(call(jnp.ones((2, 2), jnp.int32), jnp.ones((2, 2))))
    with pytest.raises(jax.errors.JaxRuntimeError, match="openmxu: there must be two operands and a result"):
        jax.block_until_ready(call(jnp.ones((2, 2))))


@pytest.mark.parametrize("error", [CompilerNotFoundError("no compiler"), CompilationError("refused"), OSError("gone")])
def test_without_a_handler(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "fetch_library", Mock(side_effect=error))
    assert foreign._find_handler.__wrapped__() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "s/fesetenv(FE_DFL_ENV)/0/",
        "s/m \\* inner, inner, 1 }/0, inner, 1 }/",
        "s/^XLA_FFI_Error .openmxu_products/&_2/",
        "s/fenv_t before;/__builtin_trap(); &/",
    ],
    ids=["settings", "stacks", "no function", "crash"],
)
def test_a_compiler_that_lies(
    change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """XLA calls the handler in a process of its own first, and its bits decide."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", program(tmp_path / "liar", changing(change)))
    assert foreign._find_handler.__wrapped__() is None
    assert "go through Python, which takes longer: C compiler made code that does not work: " in caplog.messages[-1]
    assert not list((tmp_path / "cache" / "openmxu" / "models").glob("*"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux says how much memory a process has")
def test_without_memory() -> None:
    """Enough for the result, and not for the packed column beside it."""
    text = """
import resource, jax, numpy as np
import openmxu_sim.jax as mxu
x, y = jax.numpy.ones((1 << 25, 1)).block_until_ready(), jax.numpy.ones((1, 1))
compiled = jax.jit(mxu.matmul).lower(x, y).compile()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 26), -1))
try:
    print(compiled(x, y).block_until_ready())
except jax.errors.JaxRuntimeError as error:
    print(error)
"""
    assert "RESOURCE_EXHAUSTED: openmxu: not enough memory for operands" in run_python("-c", text)


def test_programs_that_are_kept(tmp_path: Path) -> None:
    """What one process has compiled, another one runs: nothing in it belongs to a process."""
    text = """
import sys, json, jax, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import openmxu_sim.jax as mxu
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
a = np.arange(12, dtype=np.float32).reshape(3, 4)
found = np.asarray(jax.jit(mxu.matmul)(a, a.T))
print(json.dumps([found.tolist(), any(name.endswith("cache_hits") for name in hits)]))
"""
    found = [json.loads(run_python("-c", text, tmp_path)) for _ in range(2)]
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert found == [[(a @ a.T).tolist(), False], [(a @ a.T).tolist(), True]]
