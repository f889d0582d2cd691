"""What only Linux has must not be needed, nor what is optional: these tests take it away.

Nothing here was run on another system. `.ci/run` rests on a shell without optional programs, and on a second run of
what the first one skipped.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from openmxu_sim import golden

from .bits import same_bits
from .conftest import compiled, ran, slow

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
    variables = os.environ | {"XDG_CACHE_HOME": str(cache)}
    done = ran([sys.executable, "-c", WITHOUT, *arguments], env=variables, timeout=300)
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
    done = ran([sys.executable, "-c", f"{without}; from openmxu.__main__ import main; sys.exit(main())", "list"])
    said = "openmxu: OpenMXU runs on Linux, and is prepared for macOS; Windows has no fcntl, so use WSL there\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


_ROOT = Path(__file__).parent.parent

_TESTS = {
    "test_few": """
import os, pytest
@pytest.mark.skipif("THERE" not in os.environ, reason="it is not installed")
def test_what_needs_it(): pass
def test_plain(): pass
""",
    "test_whole": """
import os, pytest
if "THERE" not in os.environ:
    pytest.skip("it is not installed", allow_module_level=True)
def test_what_needs_it(): pass
""",
}


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="this is no Debian")
def test_a_newcomer_has_nothing_optional(tmp_path: Path) -> None:
    ask = "echo $HOME; ls -A $HOME; for name in $NAMES; do command -v $name >/dev/null && echo $name; done; python3 -V"
    there = ["bash", "git", "make", "cc", "c++", "ls", "sed"]
    optional = ["iverilog", "verilator", "ghdl", "sta", "chromium", "yosys", "nextpnr-ecp5", "graywolf", "node"]
    names = {"NAMES": " ".join([*optional, *there])}
    done = ran([_ROOT / ".ci/newcomer", "sh", "-c", ask], env=os.environ | names, check=True)
    home, *lines = done.stdout.splitlines()
    assert lines[:-1] == ["bin", *there]
    assert lines[-1].startswith("Python 3.")
    assert not Path(home).exists()
    ran([_ROOT / ".ci/newcomer", "python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    assert (tmp_path / "venv/bin/python").exists(), "it outlives the newcomer's home"


def test_a_second_run_has_what_the_first_one_skipped(tmp_path: Path) -> None:
    """Single tests and whole modules; also with several workers."""
    for name, text in _TESTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    listed = tmp_path / "skipped"

    def run(*options: str, codes: tuple[int, ...] = (0,), **variables: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-n", "2", *options, str(tmp_path)]
        done = ran(command, cwd=_ROOT, env=os.environ | variables)
        assert done.returncode in codes, done.stdout
        return done.stdout

    assert "1 passed, 2 skipped" in run(f"--list-skipped={listed}")
    assert len(listed.read_text().splitlines()) == 2
    assert "2 passed in" in run(f"--only-listed={listed}", THERE="yes")
    parts = [run(f"--part={number}/2", codes=(0, 5), THERE="yes") for number in (0, 1)]  # 5: a part has no test
    assert sum(int(count) for part in parts for count in re.findall(r"(\d+) passed", part)) == 3
