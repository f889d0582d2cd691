"""Gather designs of others, from where you have them, into a folder for `openmxu area --peers`.

    python docs/examples/peers/gather.py theirs hardfloat=pymtl3-hardfloat/HardFloat essenceia=BFloat16
    openmxu area --peers theirs --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz --recipe area --recipe speed -o beside

Nothing of theirs is part of this repository; get it, and read its licence.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from openmxu.catalog import FAMILIES
from openmxu.export.verilog import to_verilog

FOLDERS = {
    "hardfloat": "source",
    "fpnew": "src",
    "common_cells": "",
    "essenceia": "src",
    "bfloat16_fma": "SRCS",
    "chiplab": "rtl",
}
"""What can be given, and the folder in it that has the files."""

_NEEDED = {"fpnew": "common_cells"}
"""What else a design takes."""

_OURS = ("multiplier", "adder", "multiply_add", "pe")
"""Our parts, which flush subnormals, to stand beside those that do not."""

_HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    """Make the folder that is named first.

    Raises
    ------
    SystemExit
        An argument is no NAME=FOLDER of those above, or something is missing.
    """
    output, given = _parsed(arguments)
    sources = {name: Path(folder) / FOLDERS[name] for name, folder in given.items()}
    for name, source in sources.items():
        if _NEEDED.get(name, name) not in given:
            sys.exit(f"{name} needs {_NEEDED[name]}=FOLDER, too")
        if not source.is_dir():
            sys.exit(f"{name} must be a folder with {FOLDERS[name] or 'files'}, not {given[name]}")
    (output / "wrappers").mkdir(parents=True)
    for name, source in sources.items():
        shutil.copytree(source, output / name, ignore=shutil.ignore_patterns(".git"))
        # Some copies of HardFloat have one beside the folders of specialisations; it would come before the chosen one.
        (output / name / "HardFloat_specialize.vi").unlink(missing_ok=True)
        for wrapper in _HERE.glob(f"{name}.*v"):
            shutil.copy(wrapper, output / "wrappers")
    texts = [_described(path, given[path.stem]) for path in sorted(_HERE.glob("*.toml")) if path.stem in given]
    (output / "ours").mkdir()
    for family in _OURS:
        component = FAMILIES[family].build()
        (output / "ours" / f"{component.module_name}.v").write_text(to_verilog(component))
    (output / "peers.toml").write_text("\n".join([*texts, (_HERE / "ours.toml").read_text()]))


def _described(path: Path, folder: str) -> str:
    """A description, with the commit if the folder has one."""
    command = ["git", "-C", folder, "log", "-1", "--format=%h of %cs", "--abbrev=12"]
    commit = subprocess.run(command, check=False, capture_output=True, text=True)
    version = f'version = "{commit.stdout.strip()}"\n' if commit.returncode == 0 else ""
    return path.read_text().replace("notes = ", f"{version}notes = ")


def _parsed(arguments: list[str]) -> tuple[Path, dict[str, str]]:
    pairs = [each.partition("=") for each in arguments[1:]]
    if not pairs or not all(folder and name in FOLDERS for name, _, folder in pairs):
        sys.exit(f"the arguments must be a new folder, then NAME=FOLDER with {', '.join(FOLDERS)}, not {arguments}")
    return Path(arguments[0]), {name: folder for name, _, folder in pairs}


if __name__ == "__main__":
    main(sys.argv[1:])
