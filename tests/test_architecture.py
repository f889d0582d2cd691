"""The direction of dependencies is a rule, and so is what every file says about itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_SOURCES = [path for root in ("hw", "sim", "boards") for path in sorted((_ROOT / root).rglob("*.py"))]

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_LARGE = {
    "hw/openmxu/area/subject/ablation.py:_ablations": "a table, each row built on those above",
    "sim/openmxu_sim/engines/compiled/wiring.py:_rules": "the block diagram of the unit, as data",
    "sim/openmxu_sim/torch/matmul.py:_products": "PyTorch reads the operator's schema from it",
}
"""Functions that are larger than others may be, and why."""


def test_only_round_rounds() -> None:
    """One module of the arithmetic decides what is added in the last place."""
    rounding = [path.name for path in (_ROOT / "hw/openmxu/arith").glob("*.py") if "guard &" in path.read_text()]
    assert rounding == ["round.py"]


@pytest.mark.parametrize(
    ("names", "places"),
    [
        ("torch", {"sim/openmxu_sim/torch", "sim/openmxu_sim/studies/training", "docs/examples"}),
        ("jax", {"sim/openmxu_sim/jax"}),
        ("onnx|onnxruntime", {"sim/openmxu_sim/onnx/runtime.py"}),
    ],
)
def test_frameworks_stay_in_their_places(names: str, places: set[str]) -> None:
    """In folders; onnx and onnxruntime in one file, which forbids onnxruntime to report to its maker."""
    found = {
        path.relative_to(_ROOT)
        for path in (*_SOURCES, *(_ROOT / "docs/examples").rglob("*.py"), *(_ROOT / "docs").glob("*.py"))
        if re.search(rf"^\s*(import|from) ({names})\b", path.read_text(), re.MULTILINE)
    }
    assert {str(path) if str(path) in places else path.parent.as_posix() for path in found} == places


def test_every_module_and_public_class_has_a_docstring() -> None:
    missing = []
    for path in _SOURCES:
        tree = ast.parse(path.read_text())
        nodes = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        missing += [f"{path}: {getattr(n, 'name', 'module')}" for n in nodes if ast.get_docstring(n) is None]
    assert not missing


def test_functions_are_small() -> None:
    """The body of a function has at most 40 lines, the function at most 6 positional parameters."""
    large = {
        f"{path.relative_to(_ROOT)}:{name}"
        for path in _SOURCES
        for name, function in _functions(ast.parse(path.read_text()))
        if _body_lines(function) > 40 or _positional(function) > 6
    }
    assert large == set(_LARGE)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Function]]:
    """All functions with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Function | ast.ClassDef):
            if isinstance(node, _Function):
                yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def _body_lines(function: _Function) -> int:
    """Lines from the first statement behind the docstring to the end."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def _positional(function: _Function) -> int:
    """Positional parameters; of a constructor none, as hardware has many."""
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    return 0 if function.name == "__init__" else len([name for name in names if name not in ("self", "cls")])
