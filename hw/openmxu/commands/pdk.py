"""The option ``--pdk`` of commands that read the files of a process."""

import argparse
import os
from pathlib import Path

_VARIABLE = "OPENMXU_PDK"


def add_pdk(parser: argparse.ArgumentParser) -> None:
    """The option ``--pdk``, which :func:`pdk_folders` reads."""
    kit = f"folder with the kit's files, at any depth; repeatable (default: the folders in ${_VARIABLE})"
    parser.add_argument("--pdk", action="append", type=Path, default=[], metavar="FOLDER", help=kit)


def pdk_folders(options: argparse.Namespace) -> list[Path]:
    """The folders with the files of a process."""
    roots = options.pdk or [Path(name) for name in os.environ.get(_VARIABLE, "").split(os.pathsep) if name]
    if not roots:
        raise ValueError(f"--pdk must name a folder with the files of IHP's SG13G2, or ${_VARIABLE} several")
    if missing := [str(root) for root in roots if not root.exists()]:
        raise ValueError(f"--pdk must name existing folders, not {missing[0]!r}")
    return list(roots)
