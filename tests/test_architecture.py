"""The direction of dependencies is a rule, and so is what every file says about itself."""

import ast
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_SOURCES = [path for root in ("hw", "sim", "boards") for path in sorted((_ROOT / root).rglob("*.py"))]


def test_import_contracts() -> None:
    """The contracts in pyproject.toml hold, by import-linter."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_only_round_rounds() -> None:
    """One module of the arithmetic decides what is added in the last place."""
    rounding = [path.name for path in (_ROOT / "hw/openmxu/arith").glob("*.py") if "guard &" in path.read_text()]
    assert rounding == ["round.py"]


def test_every_module_and_public_class_has_a_docstring() -> None:
    missing = []
    for path in _SOURCES:
        tree = ast.parse(path.read_text())
        nodes = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        missing += [f"{path}: {getattr(n, 'name', 'module')}" for n in nodes if ast.get_docstring(n) is None]
    assert not missing
