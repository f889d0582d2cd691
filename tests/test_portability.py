"""What only Linux has must not be needed. This takes it away; nothing here was run on another system."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openmxu_sim import golden

from .bits import same_bits
from .conftest import compiled, slow

# What macOS lacks: calls, and the files that the kernel shows processes in.
WITHOUT = """
import builtins, os, signal, sys
for module, names in ((os, ("posix_fallocate", "sched_getaffinity", "process_cpu_count", "pidfd_open", "memfd_create")),
                      (signal, ("pidfd_send_signal",))):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for module in (builtins, os):
    def opened(path, *given, _open=module.open, **options):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "there is no such thing here", path)
        return _open(path, *given, **options)
    module.open = opened
found = os.path.isdir
os.path.isdir = lambda path: not str(path).startswith("/proc") and found(path)
from openmxu.cli.frame import main
sys.exit(main(sys.argv[1:]))
"""


def run(*arguments: str, cache: Path) -> str:
    """Run a command without; what it says on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("engine", ["golden", slow("model"), compiled("compiled"), slow("pysim")])
def test_engines(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    a, b = (np.random.default_rng(seed).standard_normal((5, 5), dtype=np.float32) for seed in (0, 1))
    np.save("A.npy", a)
    np.save("B.npy", b)
    said = run(*f"matmul A.npy B.npy --rows 2 --columns 3 --engine {engine} -o C.npy".split(), cache=tmp_path / "cache")
    assert "5x5x5 on 2x3" in said
    same_bits(np.load("C.npy"), golden.matmul(a, b, rows=2))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".openmxu")] == []


@pytest.mark.slow
def test_export(tmp_path: Path) -> None:
    run("verilog", "pe", "-o", str(tmp_path / "pe.v"), cache=tmp_path / "cache")
    assert "endmodule" in (tmp_path / "pe.v").read_text()


def test_windows_is_refused_in_a_line() -> None:
    """Its Python has neither fcntl nor SIGHUP."""
    without = "import sys, _signal; sys.modules['fcntl'] = None; del _signal.SIGHUP"
    program = f"{without}; from openmxu.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    said = "OpenMXU runs on Linux, and is prepared for macOS; Windows has no fcntl, so use WSL there"
    assert done.stderr == f"openmxu: {said}\n"
