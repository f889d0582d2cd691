"""Our C code under AddressSanitizer and UndefinedBehaviorSanitizer, driven by the tests that it has anyway."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from ..conftest import ran

_ROOT = Path(__file__).parents[2]
_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"

_CODE = {
    "model": (
        "sim/openmxu_sim/engines/model/*.c",
        "tests/openmxu_sim/engines/test_kernel.py tests/openmxu_sim/engines/test_model.py",
    ),
    "compiled": (
        "sim/openmxu_sim/engines/compiled/*.c sim/openmxu_sim/netlist/lanes.c",
        "tests/openmxu_sim/netlist/test_code.py tests/openmxu_sim/engines/test_compiled.py",
    ),
    "accelerator": ("sim/openmxu_sim/accelerator/rtl/*.c", "tests/openmxu_sim/accelerator/test_simulation.py"),
    "router": ("hw/openmxu_layout/route/router.c", "tests/openmxu_layout/route/test_routing.py"),
    "energy": ("sim/openmxu_sim/energy/events.c", "tests/openmxu_sim/energy/test_meter.py"),
    "exploration": (
        "tests/evidence/openmxu_evidence/exploration/*.c",
        "tests/openmxu_evidence/exploration/test_exploration.py",
    ),
}
"""Files of C code, and their tests; those marked slow are left out."""

_ELSEWHERE = {
    "sweeps over all operands, which have no memory of their own": "tests/evidence/openmxu_evidence/verify/sweeps/*.c",
    "XLA calls it": "sim/openmxu_sim/jax/handler.c",
    "becomes WebAssembly, which has bounds": "sim/openmxu_sim/wave/page/*.c",
}


def test_all_code_is_tried() -> None:
    """Each file of C code is in a row, or it is known why not."""
    patterns = " ".join([*(files for files, _ in _CODE.values()), *_ELSEWHERE.values()]).split()
    named = [path for pattern in patterns for path in _ROOT.glob(pattern)]
    roots = ("hw", "sim", "boards", "tests/evidence")
    assert sorted(named) == sorted(path for root in roots for path in (_ROOT / root).rglob("*.c"))


def _sanitized(arguments: list[str], folder: Path) -> tuple[str, str]:
    """Run Python with all C code that it compiles sanitized: what went wrong, if it ended so, and all reports."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    # The one of C++ belongs to it: others' extensions throw exceptions, which AddressSanitizer wants to see.
    libraries = [ran(["gcc", f"-print-file-name={name}"]).stdout.strip() for name in ("libasan.so", "libstdc++.so.6")]
    if not all(Path(library).is_absolute() for library in libraries):
        pytest.skip("gcc has no AddressSanitizer")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "YoWASP"
    if kept.is_dir():
        (folder / "YoWASP").symlink_to(kept)
    # Python keeps what it allocates; reports go to files, whatever becomes of a process.
    options = f"log_path={folder}/report:print_stacktrace=1:detect_leaks=0"
    variables = {
        "CC": f"""env -u LD_PRELOAD sh -c 'exec gcc {_FLAGS} "$@" -O1' gcc""",  # our -O2 takes it many times as long
        "LD_PRELOAD": ":".join(libraries),
        "XDG_CACHE_HOME": str(folder),
    }
    variables |= dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS"), options)
    variables |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | variables
    done = ran([sys.executable, *arguments], cwd=_ROOT, env=environment, timeout=1800)
    reports = "".join(path.read_text(errors="replace") for path in folder.glob("report*"))
    return f"exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-2000:]}" * (done.returncode != 0), reports


@pytest.mark.torture
@pytest.mark.parametrize("name", _CODE)
def test_no_report(name: str, tmp_path: Path) -> None:
    tests = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow and not torture"]
    problem, reports = _sanitized([*tests, *_CODE[name][1].split()], tmp_path)
    assert not problem + reports


_PLANTED = """
import ctypes
from openmxu.runtime import native
library = native.open_library(native.build_library('''
#include <stdlib.h>
int beyond(int n) { char *some = malloc(n); return some[n]; }
int overflow(int n) { return n + 2147483647; }
'''))
library.FUNCTION(7)
"""


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "report"), [("beyond", "heap-buffer-overflow"), ("overflow", "signed integer overflow")]
)
def test_planted_mistakes(name: str, report: str, tmp_path: Path) -> None:
    """The check can fail."""
    problem, reports = _sanitized(["-c", _PLANTED.replace("FUNCTION", name)], tmp_path)
    assert problem.startswith("exit code ")
    assert report in reports + problem
