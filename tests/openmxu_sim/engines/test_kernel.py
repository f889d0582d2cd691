"""The model's kernel: compiled, tried, kept."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openmxu.runtime.native import CompilationError, CompilerNotFoundError
from openmxu_sim import golden
from openmxu_sim.engines import library, model, quickest_product
from openmxu_sim.engines.model.kernel import load_kernel

from ...bits import same_bits
from ...conftest import needs_compiler, slow, thorough
from .runs import changing, hide_compilers, program

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load_kernel.cache_clear()
    yield tmp_path / "cache" / "openmxu" / "models"
    load_kernel.cache_clear()


def _multiplies() -> None:
    a, b = (np.random.default_rng(seed).standard_normal((9, 9), np.float32) for seed in (1, 2))
    same_bits(model.matmul(a, b, rows=4), golden.matmul(a, b, rows=4))


def test_compiling_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    for said in (["compiling the engine model for this processor, once: a few seconds"], []):
        caplog.clear()
        load_kernel.cache_clear()
        _multiplies()
        assert caplog.messages == said


@pytest.mark.parametrize(
    "text",
    [
        slow('exec cc -ffast-math "$@"'),
        slow(changing("s/bits & ~(tiny/bits | ~(tiny/; s/set1_epi32(~MAGNITUDE)/set1_epi32(0)/")),
        thorough(changing("s/kernel_part/kernel_apart/")),
        thorough(changing("s/int64_t blocks = /__builtin_trap(); &/")),
        slow(changing("s/int64_t blocks = /for (;;); &/")),
        changing("$ a void exit(int); __attribute__((constructor)) static void end(void) { exit(0); }"),
    ],
    ids=["fast math", "flushing", "no function", "crash", "hang", "exit"],
)
def test_a_compiler_that_lies(text: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "_LIMIT", 10.0)
    monkeypatch.setenv("CC", program(tmp_path / "liar", text))
    with pytest.raises(CompilationError, match=r"^C compiler made code that does not work: .+$"):
        load_kernel()
    assert quickest_product() == "golden"
    assert not list(own_cache.glob("*"))
    monkeypatch.delenv("CC")
    _multiplies()


def test_a_warm_cache_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    _multiplies()
    load_kernel.cache_clear()
    hide_compilers(monkeypatch, tmp_path)
    _multiplies()
    assert quickest_product() == "model"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/cc")
    with pytest.raises(CompilerNotFoundError, match=r"^CC must name a C compiler that is installed, not '/no/cc'$"):
        model.matmul(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), rows=1)
    assert quickest_product() == "golden"


@pytest.mark.parametrize("processor", ["-mno-avx512f", slow("-mno-avx512f -mno-avx -mno-fma")])
def test_processors_with_shorter_vectors(processor: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", program(tmp_path / "cc", f'exec cc "$@" {processor}'))
    _multiplies()
    assert load_kernel().band == 6
