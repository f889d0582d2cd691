"""Activity as SVG: small, and readable in light and in dark surroundings."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu_sim.wave.activity import Activity

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_WIDTH = 880
_MARGIN = 24
_GUTTER = 96
"""Pixels left of the plots, for the names of their lines."""
_BETWEEN = 18
"""Pixels between two snapshots."""

_PER_LINE = 6
"""Snapshots side by side."""

_GRID = 4
"""Pixels of a cell in a snapshot from which on lines separate cells."""

_MARKED = 9
"""Pixels of a cell in a snapshot from which on it has marks."""

_STRIPS = ("weights", "activations", "results")
_STRIP = 13
"""Pixels of a stream's height in the timeline."""

_COLUMNS_SHOWN = 7
"""Pixels of a row in the timeline from which on it shows each of its columns."""

_SHADES = 16
_PALE = 0.45
"""Opacity of padding."""

_COLOURS = 4
_STYLE = """
.bg{fill:#fff}.fg{fill:#14263d}.muted{fill:#55677d}.idle{fill:#eef1f5}.gap{stroke:#fff}.frame{stroke:#b8c3d0;fill:none}
.axis{stroke:#14263d;stroke-opacity:.16}.at{stroke:#14263d;stroke-dasharray:2 2}
.below{stroke:#fff;stroke-opacity:.7}
.wait{fill:#8c99a8}.t0{fill:#0a4489}.t1{fill:#d9650b}.t2{fill:#1c9a6c}.t3{fill:#c45a9e}
.load{stroke:#fff}.swap{fill:#fff}
@media (prefers-color-scheme:dark){
.bg{fill:#16181c}.fg{fill:#e6e9ee}.muted{fill:#a3afbf}.idle{fill:#262b33}.gap{stroke:#16181c}.frame{stroke:#4a5463}
.axis{stroke:#e6e9ee;stroke-opacity:.2}.at{stroke:#e6e9ee}.below{stroke:#16181c}
.wait{fill:#76839a}.t0{fill:#3d84e6}.t1{fill:#f5944f}.t2{fill:#7be3bd}.t3{fill:#e38fce}.load{stroke:#16181c}.swap{fill:#16181c}
}
"""
"""Both sets of colours have a contrast of 3:1 and more to idle cells, and stay apart for every kind of colour vision:
the least distance in CIE Lab, seen as with protanopia, deuteranopia or tritanopia, is 20."""


def array_words(config: MxuConfig) -> tuple[str, str]:
    """Return an array's elements in words, each a cell of the picture, and what one of several terms does."""
    words, n = f"{config.element_rows}×{config.columns} processing elements", config.terms
    does = f"An element, one cell here, takes {n} rows of operands and a sum from above, and rounds once."
    return (f"{words} of {n} terms", does) if n > 1 else (words, "")


def draw(activity: Activity, *, made_by: str = "") -> str:
    """Return the activity as SVG: the array in some cycles, and its rows and streams over all of them.

    Parameters
    ----------
    activity
        From :func:`observe`; the cycles of its ``loads`` are shown.
    made_by
        The command that made the picture, for its description.
    """
    config = activity.config
    m, n = (max(getattr(tile, side).stop for tile in activity.tiles) for side in ("activations", "columns"))
    k = max(tile.inner.stop for tile in activity.tiles)
    elements, does = array_words(config)
    title = f"Wavefront of {m}×{k} times {k}×{n} on {elements}"
    caption = (
        f"{activity.cycles} cycles from the first beat to the last result, "
        f"utilisation {activity.utilisation:.1%}, stages {config.stages}"
    )
    if activity.stalls is not None:
        caption += f", streams wait now and then (seed {activity.stalls.seed})"
    page = _Page()
    page.text(_MARGIN, 40, title, size=20, style="font-weight:600")
    page.text(_MARGIN, 63, caption, kind="muted")
    page.y = 78
    if does:
        page.text(_MARGIN, 83, does, kind="muted")
        page.y += 20
    _draw_legend(page, activity)
    _draw_snapshots(page, activity)
    _draw_timeline(page, activity)
    described = (
        f"{caption}. Above: the array in the cycles {', '.join(map(str, activity.loads))}. Below: what the "
        "rows of the array and the streams do in every cycle, coloured by tile."
    )
    if made_by:
        described += f" Made by: {made_by}"
    return page.svg(title, described)


class _Page:
    """SVG elements, from top to bottom."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.shapes: dict[str, str] = {}
        self.y = 0.0

    def add(self, element: str) -> None:
        self.parts.append(element)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        kind: str = "fg",
        size: int = 14,
        anchor: str = "start",
        style: str = "",
    ) -> None:
        extra = (f' font-size="{size}"' if size != 14 else "") + (f' style="{style}"' if style else "")
        extra += f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.add(f'<text class="{kind}" x="{_short(x)}" y="{_short(y)}"{extra}>{words}</text>')

    def note(self, x: float, y: float, words: str, *, anchor: str = "start") -> None:
        self.text(x, y, words, kind="muted", size=12, anchor=anchor)

    def box(self, kind: str, x: float, y: float, width: float, height: float) -> None:
        self.add(
            f'<rect class="{kind}" x="{_short(x)}" y="{_short(y)}" width="{_short(width)}" height="{_short(height)}"/>'
        )

    def shape(self, elements: str) -> str:
        """Return the name of a shape that may be drawn several times."""
        return self.shapes.setdefault(elements, f"s{len(self.shapes)}")

    def svg(self, title: str, description: str) -> str:
        """Return the whole SVG text."""
        shapes = "".join(f'<g id="{name}">{shape}</g>' for shape, name in self.shapes.items())
        height = _short(self.y + _MARGIN)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
                'aria-labelledby="title description" font-family="system-ui, sans-serif" font-size="14">',
                f'<title id="title">{title}</title>',
                f'<desc id="description">{description}</desc>',
                f"<style>{_STYLE}.padding{{fill-opacity:{_PALE}}}</style>",
                f"<defs>{shapes}</defs>",
                f'<rect class="bg" width="{_WIDTH}" height="{height}"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _colour(tile: int) -> str:
    return f"t{tile % _COLOURS}"


def _fill(tile: int, share: float) -> str:
    """Return the attributes of a tile's colour, the paler the less of an element's products is no padding."""
    if share in (0, 1):
        return f'class="{_colour(tile)}{"" if share else " padding"}"'
    return f'class="{_colour(tile)}" fill-opacity="{_PALE + (1 - _PALE) * share:g}"'


def _draw_legend(page: _Page, activity: Activity) -> None:
    """Draw the meaning of colours and marks, in as many lines as it takes."""
    x = float(_MARGIN)
    for swatch, label in _entries(activity):
        width = 20 + 7.2 * len(label) + 18
        if x + width > _WIDTH:
            x, page.y = float(_MARGIN), page.y + 22
        page.add(f'<g transform="translate({_short(x)} {_short(page.y)})">{swatch}</g>')
        page.text(x + 20, page.y + 12, label, size=13)
        x += width
    page.y += 14


def _entries(activity: Activity) -> Iterator[tuple[str, str]]:
    """Yield swatches and labels of a legend, for what the picture shows."""
    tiles, config = activity.tiles, activity.config
    swatch = '<rect class="{}" width="14" height="14" rx="2"/>'.format
    for colour in range(min(_COLOURS, len(tiles))):
        alike = [str(number) for number in range(colour, len(tiles), _COLOURS)]
        label = f"tile {', '.join(alike[:3])}{', …' if len(alike) > 3 else ''}"
        if len(tiles) <= _COLOURS:
            tile = tiles[colour]
            m = f"M {_span(tile.activations)}, " if len({t.activations for t in tiles}) > 1 else ""
            label += f": {m}K {_span(tile.inner)}, N {_span(tile.columns)}"
        yield swatch(_colour(colour)), label
    yield swatch("idle"), "idle"
    if any(len(tile.inner) < config.rows or len(tile.columns) < config.columns for tile in tiles):
        yield swatch("t0 padding"), "padding"
    if min(_cell_size(config)) >= _MARKED:
        yield f'{swatch("t0")}<circle class="swap" cx="7" cy="7" r="2.5"/>', "first activation"
        loaded = f'<path class="load t1" stroke-width="1" d="{_triangle(7, 7, 9)}"/>'
        yield f"{swatch('idle')}{loaded}", "next weight loaded"
    if any((activity.stream(f"{name}__valid") & ~activity.stream(f"{name}__ready")).any() for name in _STRIPS):
        yield f'{swatch("idle")}<rect class="wait" y="9" width="14" height="5"/>', "offered, waits"


def _span(part: range) -> str:
    return f"{part.start}–{part.stop - 1}" if len(part) > 1 else str(part.start)


def _cell_size(config: MxuConfig) -> tuple[float, float]:
    """Return width and height of a cell in a snapshot: a square for each term, unless that is too flat to be seen."""
    size = (_WIDTH - 2 * _MARGIN - (_PER_LINE - 1) * _BETWEEN) / _PER_LINE
    square = min(size / config.columns, size / config.rows, 36)
    return (min(size / config.columns, max(square, 6)), config.terms * min(size / config.rows, max(square, 6)))


def _triangle(x: float, y: float, size: float) -> str:
    """Return the path of a triangle that points down."""
    return f"M{_short(x - size / 2)} {_short(y - size / 3)}h{_short(size)}l{_short(-size / 2)} {_short(size * 0.8)}z"


def _draw_snapshots(page: _Page, activity: Activity) -> None:
    """Draw the array in some cycles."""
    config = activity.config
    width, height = _cell_size(config)
    across, down = width * config.columns, height * config.element_rows
    count = min(_PER_LINE, len(activity.loads))
    pitch = (_WIDTH - 2 * _MARGIN + _BETWEEN) / _PER_LINE
    page.y += 26
    for number, cycle in enumerate(activity.loads):
        if number and number % count == 0:
            page.y += down + 58
        x = _MARGIN + pitch * (number % count) + (pitch - _BETWEEN - across) / 2
        tiles = activity.tile_at(cycle)
        page.add(f'<g transform="translate({_short(x)} {_short(page.y)})">')
        page.box("idle", 0, 0, across, down)
        page.add(f'<g transform="scale({width:.4f} {height:.4f})">')
        for fill, path in _areas(activity, tiles, seamless=min(width, height) < _GRID):
            page.add(f'<path {fill} d="{path}"/>')
        page.add("</g>")
        if min(width, height) >= _GRID:
            lines = "".join(f"M{_short(column * width)} 0V{_short(down)}" for column in range(1, config.columns))
            lines += "".join(f"M0 {_short(row * height)}H{_short(across)}" for row in range(1, config.element_rows))
            page.add(f'<path class="gap" d="{lines}"/>')
        if min(width, height) >= _MARKED:
            _draw_marks(page, activity, cycle, width, height)
        page.box("frame", -1.5, -1.5, across + 3, down + 3)
        page.add("</g>")
        page.text(x + across / 2, page.y + down + 20, f"cycle {cycle}", anchor="middle")
        page.note(x + across / 2, page.y + down + 37, f"{(tiles >= 0).mean():.0%} busy", anchor="middle")
    page.y += down + 37


def _areas(activity: Activity, tiles: Integers, *, seamless: bool) -> Iterator[tuple[str, str]]:
    """Yield the cells of each tile in a snapshot, by the share of them that is no padding, as paths in cells."""
    for number in np.unique(tiles[tiles >= 0]).tolist():
        useful = np.zeros(tiles.shape)
        useful[:, : len(activity.tiles[number].columns)] = activity.useful(number)[:, None]
        for share in np.unique(useful)[::-1].tolist():
            cells = useful == share
            # A little higher than a row, so that no seam shows between two; a pale colour would show twice.
            tall = "1.06" if seamless and share == 1 else "1"
            runs = [
                f"M{start} {row}h{stop - start}v{tall}h{start - stop}z"
                for row, line in enumerate((tiles == number) & cells)
                for start, stop in _runs(line)
            ]
            if runs:
                yield _fill(number, share), "".join(runs)


def _runs(flags: Flags) -> list[tuple[int, int]]:
    """Return begin and end of each stretch that is set."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _draw_marks(page: _Page, activity: Activity, cycle: int, width: float, height: float) -> None:
    """Mark the cells that start a tile, and those with a new weight in the shadow register."""
    size, loads = min(width, height), activity.loads[cycle]
    for row, column in np.argwhere(loads >= 0).tolist():
        page.add(
            f'<path class="load {_colour(int(loads[row, column]))}" '
            f'd="{_triangle((column + 0.5) * width, (row + 0.5) * height, min(size * 0.6, 14))}"/>'
        )
    for _, row, column in np.argwhere(activity.starts == cycle).tolist():
        page.add(
            f'<circle class="swap" cx="{_short((column + 0.5) * width)}" cy="{_short((row + 0.5) * height)}" '
            f'r="{_short(min(size * 0.15, 4))}"/>'
        )


def _draw_timeline(page: _Page, activity: Activity) -> None:
    """Draw streams and rows over all cycles."""
    config, count = activity.config, len(activity.streams)
    left, scale = _MARGIN + _GUTTER, (_WIDTH - 2 * _MARGIN - _GUTTER) / count
    page.y += 34
    top = page.y
    for name in _STRIPS[:2]:
        _draw_strip(page, activity, name, left, scale)
        page.y += _STRIP + 5
    page.y += 5
    rows = config.element_rows
    pitch = max(1.0, min(320 / rows, max(26, min(104 / rows, 3 * config.columns))))
    high = pitch - (2 if pitch >= 14 else 1 if pitch >= _COLUMNS_SHOWN else 0)
    for row in range(rows if high < pitch else 1):
        page.box("idle", left, page.y + row * pitch, count * scale, high if high < pitch else pitch * rows)
    columns_shown = pitch >= _COLUMNS_SHOWN
    # Rows without a gap must not show a seam.
    crisp = "" if columns_shown else ' shape-rendering="crispEdges"'
    page.add(f'<g transform="translate({left} {_short(page.y)}) scale({scale:.5f} {high:.5f})"{crisp}>')
    for row, (start, picture) in enumerate(_pictures(activity) if columns_shown else _shares(activity)):
        page.add(f'<use href="#{page.shape(picture)}" x="{start}" y="{row * pitch / high:.4f}"/>')
    page.add("</g>")
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128) if step * pitch >= 14)
    for row in range(0, rows, step):
        operands = range(row * config.terms, (row + 1) * config.terms)
        label = f"row{'s' if config.terms > 1 else ''} {_span(operands)}"
        page.note(left - 10, page.y + row * pitch + min(high, 28) / 2 + 4.5, label, anchor="end")
    page.y += pitch * rows + 8
    _draw_strip(page, activity, "results", left, scale)
    page.y += _STRIP
    _draw_axis(page, activity, left, scale, top)
    page.y += 24
    shares = "Strength of colour: the share of a row's cells that are busy. Colour: the tile of most of them."
    how = "A row shows its columns one below the other, column 0 on top." if columns_shown else shares
    page.note(left, page.y, how)


def _pictures(activity: Activity) -> Iterator[tuple[int, str]]:
    """Yield for each row the cycle in which it begins, and from then on its columns, as shapes in cycles and rows."""
    beats, columns = activity.beats, activity.config.columns
    for row in range(activity.config.element_rows):
        begin = int(activity.starts[0, row, 0])
        shapes = []
        for number, tile in enumerate(activity.tiles):
            share = float(activity.useful(number)[row])
            useful = len(tile.columns) if share else 0
            for strength, part in ((share, range(useful)), (0, range(useful, columns))):
                if part:
                    path = _outline(activity.starts[number, row, part.start : part.stop] - begin, beats[number])
                    shapes.append(
                        f'<path {_fill(number, strength)} transform="scale(1 {1 / columns:.5f}) '
                        f'translate(0 {part.start})" d="{path}"/>'
                    )
        yield begin, "".join(shapes)


def _outline(starts: Integers, beats: Integers) -> str:
    """Return some columns of a row while they multiply a tile, as a path in cycles and cells."""
    # The left edge from the first column down, and the right edge up again.
    steps = np.diff(starts).tolist()
    down = "v1" + "".join(f"h{step}v1" if step else "v1" for step in steps)
    up = "v-1" + "".join(f"h{-step}v-1" if step else "v-1" for step in reversed(steps))
    cycles = np.zeros(beats[-1] + 1, dtype=bool)
    cycles[beats] = True
    return "".join(f"M{starts[0] + start} 0{down}h{stop - start}{up}z" for start, stop in _runs(cycles))


def _shares(activity: Activity) -> Iterator[tuple[int, str]]:
    """Yield for each row the cycle in which it begins, and from then on the share of its columns that work, as opacity.

    The colour is that of the tile that most of them multiply. Padding counts with the opacity that it has elsewhere.
    """
    count, columns = len(activity.streams), activity.config.columns
    for row in range(activity.config.element_rows):
        begin = int(activity.starts[0, row, 0])
        working = np.zeros((len(activity.tiles), count - begin))
        useful = np.zeros_like(working)
        for number, (tile, beats) in enumerate(zip(activity.tiles, activity.beats, strict=True)):
            flags = np.bincount(beats)
            share = activity.useful(number)[row]
            for counts, used, weight in ((working, columns, 1), (useful, len(tile.columns), share)):
                if weight:
                    sums = np.convolve(np.bincount(activity.starts[number, row, :used] - begin), flags)
                    counts[number, : len(sums)] = weight * sums
        strength = (_PALE * working + (1 - _PALE) * useful).sum(axis=0) / columns
        shade = np.ceil(strength * _SHADES).astype(int)
        key = np.where(shade > 0, working.argmax(axis=0) % _COLOURS + _COLOURS * shade, -1)
        ends = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]
        paths: dict[int, str] = {}
        for start, stop in pairwise(ends):
            paths[int(key[start])] = paths.get(int(key[start]), "") + f"M{start} 0v1h{stop - start}v-1z"
        paths.pop(-1, None)
        yield (
            begin,
            "".join(
                f'<path class="{_colour(key)}" fill-opacity="{_short(key // _COLOURS / _SHADES)}" d="{path}"/>'
                for key, path in sorted(paths.items())
            ),
        )


def _draw_strip(page: _Page, activity: Activity, name: str, left: float, scale: float) -> None:
    """Draw the cycles in which beats of a stream are taken, by tile, and those in which they wait."""
    taken, tiles = activity.taken(name), activity.tiles
    page.text(left - 10, page.y + _STRIP - 2.5, name, size=13, anchor="end")
    page.box("idle", left, page.y, len(taken) * scale, _STRIP)
    lengths = {
        "weights": [0 if t.keep else activity.config.rows for t in tiles],
        "activations": [len(t.activations) for t in tiles],
        "results": [len(t.activations) * t.emit for t in tiles],
    }[name]
    owner = np.repeat(np.arange(len(tiles)), lengths)
    colours = np.full(len(taken), -1)
    colours[taken] = owner % _COLOURS
    page.add(f'<g transform="translate({left} {_short(page.y)}) scale({scale:.5f} 1)">')
    for colour in range(_COLOURS):
        runs = _runs(colours == colour)
        gap = 0.0
        if scale >= 4:  # there is room to show each beat
            runs = [(cycle, cycle + 1) for start, stop in runs for cycle in range(start, stop)]
            gap = 1 / scale
        if runs:
            path = "".join(f"M{start} 0v{_STRIP}h{_short(stop - start - gap)}v-{_STRIP}z" for start, stop in runs)
            page.add(f'<path class="{_colour(colour)}" d="{path}"/>')
    waits = "".join(
        f"M{start} 8v{_STRIP - 8}h{stop - start}v-{_STRIP - 8}z"
        for start, stop in _runs(activity.stream(f"{name}__valid") & ~taken)
    )
    if waits:
        page.add(f'<path class="wait" d="{waits}"/>')
    page.add("</g>")


def _draw_axis(page: _Page, activity: Activity, left: float, scale: float, top: float) -> None:
    """Draw cycles below the timeline, and the places of the snapshots."""
    count = len(activity.streams)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * scale >= 44)
    lines = "".join(
        f"M{_short(left + cycle * scale)} {_short(top)}V{_short(page.y + 5)}" for cycle in range(0, count, step)
    )
    page.add(f'<path class="axis" d="{lines}"/>')
    marks = "".join(
        f"M{_short(left + (cycle + 0.5) * scale)} {_short(top - 4)}V{_short(page.y)}" for cycle in activity.loads
    )
    page.add(f'<path class="below" d="{marks}"/><path class="at" d="{marks}"/>')
    tips = "".join(_triangle(left + (cycle + 0.5) * scale, top - 8, 8) for cycle in activity.loads)
    page.add(f'<path class="fg" d="{tips}"/>')
    for cycle in range(0, count, step):
        page.note(left + cycle * scale, page.y + 20, str(cycle), anchor="middle")
    page.note(left - 10, page.y + 20, "cycle", anchor="end")
    page.y += 20
