"""Kernels for GPUs against the golden model: on a CPU, where a block's threads take turns; on a GPU, where one is."""

import ctypes
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")

from openmxu.runtime.native import resource  # noqa: E402
from openmxu_sim import golden  # noqa: E402
from openmxu_sim.engines import gpu  # noqa: E402

from ...bits import same_bits  # noqa: E402
from ...conftest import slow  # noqa: E402

_LAUNCH = """
#include <functional>
static std::function<void()> body;
static bool ended[THREADS];
static void run() {
  body();
  ended[threadIdx.x] = true;
}
static void launch(int x, int y, int z, int flush, std::function<void()> kernel) {
  static ucontext_t threads[THREADS];
  static char stacks[THREADS][1 << 16];
  unsigned before = _mm_getcsr();
  if (flush) _mm_setcsr(before | 0x8040);  // a new context has the one of its maker
  body = kernel;
  for (int number = 0; number < x * y * z; number++) {
    blockIdx = {(unsigned)(number % x), (unsigned)(number / x % y), (unsigned)(number / x / y)};
    for (int each = 0; each < THREADS; each++) {
      getcontext(&threads[each]);
      threads[each].uc_stack.ss_sp = stacks[each], threads[each].uc_stack.ss_size = sizeof stacks[each];
      threads[each].uc_link = &block, ended[each] = false;
      makecontext(&threads[each], run, 0);
    }
    for (bool going = true; going;) {
      going = false;
      for (unsigned each = 0; each < THREADS; each++) {
        if (ended[each]) continue;
        going = true, threadIdx = {each, 0, 0}, thread = &threads[each];
        swapcontext(&block, thread);
      }
    }
  }
  _mm_setcsr(before);
}
extern "C" void on_cpu_pack(
  int x, int y, int z, const u32 *source, i64 product_step, i64 step, i64 k_step, int count, int padded, int inner,
  int part, int width, u32 normal, u32 largest, u32 overflow, float grid, int flush, float *values, int *extents) {
  launch(x, y, z, flush, [=] {
    pack(source, product_step, step, k_step, count, padded, inner, part, width, normal, largest, overflow, grid, flush,
         values, extents);
  });
}
#define ON_CPU(NAME)                                                                                                 \\
  extern "C" void on_cpu_##NAME(int x, int y, int z, const float *a, const float *b, const int *ae, const int *be,   \\
                                int width, int flush, int m, int inner, int n, int ap, int bp, int rows, int later,  \\
                                int clear, int last, float *result) {                                               \\
    launch(x, y, z, flush,                                                                                           \\
           [=] { NAME(a, b, ae, be, width, flush, m, inner, n, ap, bp, rows, later, clear, last, result); });        \\
  }
ON_CPU(products_fused)
ON_CPU(products_plain)
"""


@cache
def _library(folder: Path) -> ctypes.CDLL:
    source, library = folder / "on_cpu.cc", folder / "on_cpu.so"
    shim = Path(__file__).with_name("cuda_on_cpu.h").read_text()
    source.write_text(f"{shim}{resource('openmxu_sim.engines.gpu', 'kernel.cu')}{_LAUNCH}")
    flags = ["-O1", "-mfma", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class _OnCpu(gpu._Launcher):
    folder: Path
    launched: list[str]

    def __init__(self, device: Any, *, flush: bool) -> None:
        self.flush = int(flush)

    def __call__(self, name: str, grid: tuple[int, int, int], *arguments: Any) -> None:
        passed = [gpu._passed(each) for each in arguments]
        types = [np.ctypeslib.as_ctypes_type(each.dtype) for each in passed]
        function = getattr(_library(self.folder), f"on_cpu_{name}")
        function(*grid, *(kind(each.item()) for kind, each in zip(types, passed, strict=True)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture
def on_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None or platform.machine() != "x86_64" or "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("kernels run on x86 with fused multiply-adds, compiled by g++")
    monkeypatch.setattr(_OnCpu, "folder", folder, raising=False)
    monkeypatch.setattr(gpu, "_Launcher", _OnCpu)


_CASES = [
    # M, K, N, rows, operand, precision, subnormals
    (5, 37, 9, 32, "bf16", "default", "flush"),
    (130, 65, 129, 16, "bf16", "default", "flush"),
    (3, 40, 150, 7, "bf16", "default", "ieee"),
    (9, 33, 4, 4, "fp16", "default", "flush"),
    (9, 33, 4, 32, "fp16", "default", "ieee"),
    (4, 130, 6, 64, "tf32", "default", "flush"),
    (6, 50, 6, 8, "fp8_e4m3", "default", "flush"),
    (6, 50, 6, 50, "fp8_e5m2", "default", "ieee"),
    (7, 35, 8, 16, "bf16", "high", "flush"),
    (7, 35, 8, 16, "bf16", "highest", "ieee"),
    (7, 35, 8, 16, "bf16", "exact9", "flush"),
]


def _operands(m: int, k: int, n: int, kind: str) -> list[np.ndarray]:
    """Any bit patterns; products near 2^-126, flushed or not quite; subnormal by large ones; infinities; others."""
    rng = np.random.default_rng(m + 3 * k + 5 * n)
    shapes = (2, m, k), (2, k, n)
    if kind == "patterns":
        return [rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32) for shape in shapes]
    if kind == "subnormal":
        small = rng.integers(0, 1 << 24, shapes[0], np.uint32) | rng.integers(0, 2, shapes[0], np.uint32) << 31
        return [small.view(np.float32), rng.standard_normal(shapes[1], np.float32) * np.float32(2.0**100)]
    if kind == "infinite":  # one operand in eight, which leaves NaNs in low parts
        return [np.where(rng.random(shape) < 1 / 8, np.float32(np.inf), np.float32(1.5)) for shape in shapes]
    scale = np.float32(2.0**-63 if kind == "tiny" else 1)
    return [(rng.standard_normal(shape, np.float32) * scale).astype(np.float32) for shape in shapes]


def _options(rows: int = 4, operand: str = "bf16", precision: str = "default", subnormals: str = "flush") -> Any:
    return {"rows": rows, "operand": operand, "precision": precision, "subnormals": subnormals}


def _check(case: tuple[Any, ...], kind: str, device: str) -> None:
    *sizes, rows, operand, precision, subnormals = case
    a, b = _operands(*sizes, kind)
    options = _options(rows, operand, precision, subnormals)
    result = gpu.products(torch.from_numpy(a).to(device), torch.from_numpy(b).to(device), **options).cpu().numpy()
    for found, *pair in zip(result, a, b, strict=True):
        same_bits(found, golden.matmul(*pair, **options), note=f"{case}, {kind}")


_KINDS = pytest.mark.parametrize("kind", ["patterns", "tiny", "subnormal", "infinite", "ordinary"])


@pytest.mark.usefixtures("on_cpu")
@_KINDS
@pytest.mark.parametrize("case", [_CASES[0], *map(slow, _CASES[1:])], ids=str)
def test_bits_on_a_cpu(case: tuple[Any, ...], kind: str) -> None:
    _check(case, kind, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@_KINDS
@pytest.mark.parametrize("case", [*_CASES, (300, 1000, 400, 128, "bf16", "default", "flush")], ids=str)
def test_bits_on_a_gpu(case: tuple[Any, ...], kind: str) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed: the extra gpu")
    _check(case, kind, "cuda")


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_nothing_to_multiply(m: int, k: int, n: int) -> None:
    assert torch.equal(gpu.products(torch.ones(2, m, k), torch.ones(2, k, n), **_options()), torch.zeros(2, m, n))


@pytest.mark.usefixtures("on_cpu")
def test_any_strides() -> None:
    a = torch.randn(1, 6, 8).mT.expand(3, 8, 6)
    b = torch.randn(3, 12, 10)[:, ::2, ::2]
    wanted = gpu.products(a.contiguous(), b.contiguous(), **_options())
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(gpu.products(a, b, **_options()), wanted)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("on_cpu")
def test_more_products_than_a_launch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(5, 2, 3), torch.randn(5, 3, 2)
    whole = gpu.products(a, b, **_options())
    monkeypatch.setattr(gpu, "_MOST_PRODUCTS", 2)
    assert torch.equal(gpu.products(a, b, **_options()), whole)


def test_what_has_a_kernel() -> None:
    plain = [(name, "fp32", 1) for name in ("bf16", "fp16", "tf32", "fp8_e4m3", "e5f11")]
    others = [("bf16", "fp32", 4), ("bf16", "bf16", 1), ("fp32", "fp32", 1)]
    assert [case for case in plain + others if gpu.is_possible(*case)] == plain


def test_cupy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ModuleNotFoundError, match=r"^cupy is not installed: .*pip install .*\[gpu\]'$"):
        gpu.products(torch.ones(1, 1, 1), torch.ones(1, 1, 1), **_options())
