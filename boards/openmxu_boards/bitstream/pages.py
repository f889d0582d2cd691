"""Results of builds, as one page for people: tables, drawings, the limits of each."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from openmxu.pages.document import page, render
from openmxu.runtime.files import folder, reserve
from openmxu_boards.bitstream.plan import PLACEMENT, SUMMARY
from openmxu_boards.bitstream.record import drawing_name, entry, to_markdown
from openmxu_boards.bitstream.report import unit_of
from openmxu_boards.devices.boards import Board, find_board, with_options
from openmxu_boards.simulated.throughput import measure

HTML, MARKDOWN = "report.html", "report.md"


def write_pages(
    builds: Sequence[Path], output: Path, *, measured: bool = True, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Write ``report.html``, which needs no other file, and ``report.md`` with a drawing for each build."""
    pairs = [_read(path) for path in builds]
    drawings = {drawing_name(build): drawing for build, drawing in pairs}
    if len(drawings) < len(pairs):
        raise ValueError("DIR must be folders of different builds, and two are of the same board, design and size")
    names = [HTML, MARKDOWN, *drawings]
    with folder(output), reserve(*(output / name for name in names)) as outputs:
        entries = [build | {"throughput": _throughput(build, tell) if measured else None} for build, _ in pairs]
        text = f"# Boards\n\n{to_markdown(entries)}"
        outputs.write_text(output / MARKDOWN, text)
        outputs.write_text(output / HTML, page("OpenMXU: boards", _with_drawings(render(text), drawings)))
        for name, drawing in drawings.items():
            outputs.write_text(output / name, drawing)


def _read(build: Path) -> tuple[dict[str, Any], str]:
    try:
        texts = [(build / name).read_text() for name in (SUMMARY, PLACEMENT)]
    except OSError as error:
        raise ValueError(f"DIR must be a folder of openmxu board build; {error.filename}: {error.strerror}") from None
    try:
        return entry(texts[0]), texts[1]
    except ValueError as error:
        raise ValueError(f"{build / SUMMARY}: {error}") from None


def _throughput(build: Mapping[str, Any], tell: Callable[[str], None]) -> dict[str, Any] | None:
    """Throughput of a system at its simulated pins; ``None`` for other designs, or if only Python can make its unit."""
    if build["design"] != "system":
        return None
    board = _board(build)
    if board is None:
        tell(f"{build['board']}: not measured, as its unit is not one that openmxu board build makes")
        return None
    tell(f"{build['board']}: multiplying at the simulated pins")
    return asdict(measure(board, tell=tell))


def _board(build: Mapping[str, Any]) -> Board | None:
    name, unit = build["board"], build["unit"]
    known = {key: unit[key] for key in ("rows", "columns", "stages", "terms") if key in unit}
    board = with_options(find_board(name), **known)
    return replace(board, frequency=build["frequency"]) if unit_of(board) == unit else None


def _with_drawings(body: str, drawings: Mapping[str, str]) -> str:
    return re.sub(r'<img src="([^"]*)"[^>]*>', lambda match: f'<div class="wide">{drawings[match[1]]}</div>', body)
