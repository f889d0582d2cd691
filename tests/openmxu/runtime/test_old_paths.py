"""Old import paths stay for one release."""

import importlib
import sys
from pathlib import Path

import pytest

from openmxu.cli import frame
from openmxu.runtime.old_paths import MOVED

from .conftest import python

_WITH_FRAMEWORKS = {"jax", "onnx", "torch", "training", "pretrained"}  # which may not be installed


@pytest.mark.parametrize("old", MOVED)
def test_what_moved_is_there(old: str) -> None:
    """Where a framework is missing, as a file."""
    path = MOVED[old].replace(".", "/")
    roots = [Path(__file__).parents[3] / root for root in ("hw", "sim", "boards", "docs/studies")]
    assert any((root / f"{path}{end}").exists() for root in roots for end in (".py", "/__init__.py"))


@pytest.mark.parametrize("old", [old for old in MOVED if not {*old.split(".")} & _WITH_FRAMEWORKS])
def test_an_old_path_gives_the_module_and_says_where_it_is(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"^{old} is {MOVED[old]} now; the old path goes with 0.3$"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])
    assert module.__name__ == module.__spec__.name == MOVED[old]


def test_the_command_line_was_a_module() -> None:
    with pytest.warns(DeprecationWarning, match=r"^openmxu\.cli\.main is in openmxu\.cli\.frame now"):
        from openmxu.cli import main  # noqa: PLC0415
    assert main is frame.main
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from openmxu.cli import nothing  # noqa: F401, PLC0415


def test_from_imports_and_names_that_never_were() -> None:
    """In a fresh interpreter, as the line of the import is to be named."""
    program = """
from openmxu import formats, pe
from openmxu.mxu import Mxu
try:
    import openmxu.none
except ImportError:
    print(Mxu)
"""
    done = python(program, PYTHONWARNINGS="default")
    assert done.stdout == "<class 'openmxu.unit.mxu.Mxu'>\n"
    assert done.stderr.count("DeprecationWarning") == 3
    assert "<string>:3: DeprecationWarning: openmxu.mxu is openmxu.unit.mxu now" in done.stderr
