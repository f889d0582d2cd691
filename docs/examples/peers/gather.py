"""Gather designs of others, from where you have them, into a folder for `openmxu area --peers`.

    python docs/examples/peers/gather.py theirs hardfloat=pymtl3-hardfloat/HardFloat essenceia=BFloat16
    openmxu area --peers theirs --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz --recipe area --recipe speed -o beside

Nothing of theirs is part of this repository; get it, and read its licence.
"""

import shutil
import sys
from pathlib import Path

FOLDERS = {"hardfloat": "source", "fpnew": "src", "common_cells": "", "essenceia": "src", "bfloat16_fma": "SRCS"}
"""What can be given, and the folder in it that has the files."""

_NEEDED = {"fpnew": "common_cells"}
"""What else a design takes."""

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
    texts = [path.read_text() for name in given if (path := _HERE / f"{name}.toml").exists()]
    (output / "peers.toml").write_text("\n".join(texts))


def _parsed(arguments: list[str]) -> tuple[Path, dict[str, str]]:
    pairs = [each.partition("=") for each in arguments[1:]]
    if not pairs or not all(folder and name in FOLDERS for name, _, folder in pairs):
        sys.exit(f"the arguments must be a new folder, then NAME=FOLDER with {', '.join(FOLDERS)}, not {arguments}")
    return Path(arguments[0]), {name: folder for name, _, folder in pairs}


if __name__ == "__main__":
    main(sys.argv[1:])
