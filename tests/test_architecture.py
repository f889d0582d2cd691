"""The direction of dependencies is a rule, and so is what every file says about itself."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_SOURCES = [
    path
    for root in ("hw", "sim", "boards", "docs/studies", "tests/evidence")
    for path in sorted((_ROOT / root).rglob("*.py"))
]

_LARGE = {
    "hw/openmxu/area/subject/ablation.py:_ablations": "a table, each row built on those above",
    "sim/openmxu_sim/engines/compiled/wiring.py:_rules": "the block diagram of the unit, as data",
}
"""Functions that are larger than others may be, and why."""

_PACKAGES = (
    *("hw/openmxu", "hw/openmxu_layout", "sim/openmxu_sim", "boards/openmxu_boards"),
    *("docs/studies/openmxu_studies", "tests/evidence/openmxu_evidence"),
)

_WIDE = {
    "hw/openmxu": "the accelerator is a machine of its own around the unit",
    "sim/openmxu_sim": "openmxu_sim.torch, .jax and .onnx are what users import",
}
"""Folders that have more than twelve entries, and why."""


def _entries(folder: Path) -> set[str]:
    """What a reader sees in a folder besides its face: files, and folders of files."""
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".pyc", ".typed"}}
    return {path.relative_to(folder).parts[0] for path in files} - {"__init__.py"}


_FOLDERS = [path for package in _PACKAGES for path in (_ROOT / package).glob("**/") if _entries(path)]


def test_folders_have_few_entries_no_name_twice_and_no_long_file() -> None:
    wide = {folder for folder in _FOLDERS if len(_entries(folder) - {"__main__.py"}) > 12}
    assert {folder.relative_to(_ROOT).as_posix() for folder in wide} == set(_WIDE)
    assert not [path for path in _SOURCES if len(path.read_text().splitlines()) > 500]
    for package in _PACKAGES:
        names = Counter(path.name for path in (_ROOT / package).rglob("*.py") if path.name != "__init__.py")
        assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.relative_to(_ROOT).as_posix())
def test_imports_within_a_folder_form_no_circle(folder: Path) -> None:
    """Imports within functions included: so no arrow leads up, neither to a room above nor to the folder's face."""
    try:
        TopologicalSorter(_arrows(folder)).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")


def _arrows(folder: Path) -> dict[str, set[str]]:
    """For each entry of a folder, those that it imports from; the folder's face is one of them."""
    root = next(_ROOT / package for package in _PACKAGES if folder.is_relative_to(_ROOT / package)).parent
    package = folder.relative_to(root).parts
    arrows: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        entry = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in _imported(path):
            parts = tuple(name.split("."))
            if parts[: len(package)] != package:
                continue
            # What is no entry of the folder is a name of its face.
            there = parts[len(package)] if len(parts) > len(package) else "__init__"
            is_entry = (folder / there).is_dir() or (folder / f"{there}.py").exists()
            target = there if is_entry else "__init__"
            if target != entry:
                arrows.setdefault(entry, set()).add(target)
    return arrows


def _imported(path: Path) -> Iterator[str]:
    """The names that a file imports, each with its module; those for type checkers are left out."""
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_contributing_names_every_room() -> None:
    """The table that says in which room a change belongs has each entry of the packages, once, and no other."""
    page = (_ROOT / "CONTRIBUTING.md").read_text()
    section = page.partition("## Which room\n")[2].partition("\n## ")[0]
    named = Counter(re.findall(r"`(openmxu(?:_layout|_sim|_boards|_studies|_evidence)?/[\w.]+)/?`", section))
    rooms = {f"{Path(package).name}/{name}" for package in _PACKAGES for name in _entries(_ROOT / package)}
    assert named == Counter(dict.fromkeys(rooms, 1))


def test_layers_are_the_rooms_of_the_hardware() -> None:
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name.strip() for row in contracts[0]["layers"] for name in row.split("|")]
    assert sorted(layers) == sorted(name.removesuffix(".py") for name in _entries(_ROOT / "hw/openmxu"))


def test_only_round_rounds() -> None:
    """One module of the arithmetic decides what is added in the last place of a result."""
    rounding = [path.name for path in (_ROOT / "hw/openmxu/arith").rglob("*.py") if "guard &" in path.read_text()]
    assert rounding == ["round.py"]


_STUDIES = {f"docs/studies/openmxu_studies/{name}" for name in ("recipes", "speed", "training")}


@pytest.mark.parametrize(
    ("names", "places"),
    [
        ("torch", {"sim/openmxu_sim/torch", "sim/openmxu_sim/engines/gpu", "docs/examples", *_STUDIES}),
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


def test_modules_and_public_classes_have_docstrings_and_functions_are_small() -> None:
    """The body of a function has at most 40 lines, the function at most 6 positional parameters."""
    missing, large = list[str](), set[str]()
    for path in _SOURCES:
        tree = ast.parse(path.read_text())
        nodes = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        missing += [f"{path}: {getattr(n, 'name', 'module')}" for n in nodes if ast.get_docstring(n) is None]
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        large |= {f"{path.relative_to(_ROOT)}:{node.name}" for node in functions if _is_large(node)}
    assert not missing
    assert large == set(_LARGE)


def _is_large(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Without its docstring; hardware has many parameters, so those of a constructor do not count."""
    body = function.body[ast.get_docstring(function) is not None :]
    names = {parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)} - {"self", "cls"}
    lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
    return lines > 40 or (function.name != "__init__" and len(names) > 6)
