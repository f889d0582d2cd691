"""The wavefront: what the picture says is what the registers held, and it says it to everybody."""

import re
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu_sim import golden
from openmxu_sim.engines.compiled import Trace, Window, record
from openmxu_sim.operands.stimulus import Stalls
from openmxu_sim.wave import MOST_CYCLES, Activity, default_sizes, draw, observe, product, watch
from openmxu_sim.wave.page import wasm

from ...conftest import Command, Said, needs_compiler, slow

pytestmark = needs_compiler

SVG = "{http://www.w3.org/2000/svg}"
SMALL = MxuConfig(rows=4, columns=3)
DEEP = MxuConfig(rows=3, columns=5, stages=6, depth=4)
FOUR = MxuConfig(rows=8, columns=3, terms=4)
TWO = MxuConfig(rows=6, columns=4, stages=4, depth=8, terms=2)


def operands(trace: Trace, name: str, config: MxuConfig) -> np.ndarray:
    """(cycles, rows, columns): bf16 operands in the elements' registers, each in the row that it is of."""
    halves = trace.limbs(name).astype("<u4").view("<u2")[..., : config.terms]
    return np.moveaxis(halves, -1, 2).reshape(trace.ran, config.rows, config.columns)


@pytest.mark.parametrize("stalls", [None, Stalls(8)], ids=["free", "stalled"])
@pytest.mark.parametrize(
    ("config", "m", "k"),
    [
        pytest.param(SMALL, 7, 9, id="4x3"),
        pytest.param(DEEP, 7, 7, id="3x5_s6"),
        pytest.param(DEEP, 11, 3, id="weights-kept"),
        pytest.param(FOUR, 7, 14, id="8x3_t4"),
        slow(TWO, 7, 13, id="6x4_t2_s4"),
        slow(TWO, 11, 5, id="6x4_t2_s4-weights-kept"),
    ],
)
def test_cells_multiply_what_is_said(config: MxuConfig, m: int, k: int, stalls: Stalls | None) -> None:
    given = product(config, m, k, config.columns + 2)
    assert any(tile.keep for tile in given.tiles) == (k <= config.rows)
    window = Window(range(config.element_rows), range(config.columns), range(MOST_CYCLES))
    _, trace = record(given, window, stalls=stalls)
    shadow = "o_weight" if config.terms == 1 else "shadow"
    held = {name: operands(trace, name, config) for name in ("o_activation", "active", shadow)}
    seen = observe(given, stalls=stalls, at=range(trace.ran))
    assert [len(beats) for beats in seen.beats] == [len(tile.activations) for tile in given.tiles]
    weights, activations = [], []
    for block in given.blocks():
        own = golden.convert(block.weights[::-1], "fp32", "bf16", subnormals="flush")
        weights.append(own if len(own) else weights[-1])
        activations.append(golden.convert(block.activations, "fp32", "bf16", subnormals="flush"))
    multiplied = np.zeros(len(given.tiles), dtype=int)
    for cycle in range(trace.ran):
        tiles = seen.tile_at(cycle)
        for row, column in np.argwhere(tiles >= 0).tolist():
            tile = tiles[row, column]
            [beat] = np.flatnonzero(seen.beats[tile] == cycle - seen.starts[tile, row, column])
            multiplied[tile] += 1
            rows = slice(row * config.terms, (row + 1) * config.terms)
            np.testing.assert_array_equal(held["o_activation"][cycle, rows, column], activations[tile][beat, rows])
            np.testing.assert_array_equal(held["active"][cycle, rows, column], weights[tile][rows, column])
        loads = seen.loads[cycle]
        np.testing.assert_array_equal(loads >= 0, trace.register("o_load")[cycle] == 1)
        for row, column in np.argwhere(loads >= 0).tolist():
            first = row * config.terms  # which a weight enters
            assert held[shadow][cycle, first, column] in weights[loads[row, column]][first:, column]
    cells = config.element_rows * config.columns
    assert multiplied.tolist() == [len(tile.activations) * cells for tile in given.tiles]


@pytest.mark.parametrize("config", [SMALL, FOUR], ids=["", "t4"])
def test_large_units_are_watched_part_by_part(config: MxuConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    given, told = product(config, 5, 6, 7), []
    whole = observe(given)
    monkeypatch.setattr(watch, "_AT_ONCE", 1)
    in_parts = observe(given, progress=lambda *state: told.append(state))
    np.testing.assert_array_equal(in_parts.starts, whole.starts)
    assert list(in_parts.loads) == list(whole.loads)
    for cycle, loads in in_parts.loads.items():
        np.testing.assert_array_equal(loads, whole.loads[cycle])
    parts = config.rows // config.terms
    assert told == [(number * 15, parts * 15) for number in range(1, parts + 1)]


def area(path: str) -> float:
    total = 0.0
    for part in path.split("M")[1:]:
        x = enclosed = 0.0
        for step, length in re.findall(r"([hv])([^hvz]+)", part):
            x, enclosed = (x + float(length), enclosed) if step == "h" else (x, enclosed + x * float(length))
        total += abs(enclosed)
    return total


def shapes(root: ElementTree.Element) -> list[tuple[str, float]]:
    """Classes and areas of the paths that are drawn several times, each time."""
    known = {f"#{group.get('id')}": list(group) for group in root.iterfind(f"{SVG}defs/*")}
    paths = [path for use in root.iter(f"{SVG}use") for path in known[use.get("href", "")]]
    return [(path.get("class", ""), area(path.get("d", "")) * float(path.get("fill-opacity", 1))) for path in paths]


@pytest.mark.parametrize("stalls", [None, Stalls(3)], ids=["free", "stalled"])
@pytest.mark.parametrize(
    ("config", "m", "k", "n"),
    [
        pytest.param(SMALL, 7, 6, 5, id=""),
        pytest.param(DEEP, 11, 2, 4, id="weights-kept"),
        pytest.param(FOUR, 7, 14, 5, id="t4"),
        slow(TWO, 11, 5, 3, id="t2-weights-kept"),
    ],
)
def test_timeline_has_the_area_of_the_product(config: MxuConfig, m: int, k: int, n: int, stalls: Any) -> None:
    """What is not pale is M·K·N, all is what the array did; with several terms, a cell counts its real products."""
    seen = observe(product(config, m, k, n), stalls=stalls)
    drawn = shapes(ElementTree.fromstring(draw(seen)))
    assert seen.products == m * k * n
    done = sum(len(tile.activations) for tile in seen.tiles) * config.element_rows * config.columns
    if config.terms == 1:
        assert sum(size for _, size in drawn) == done
    strength = sum(size * (0.45 if "padding" in kind else 1) for kind, size in drawn)
    assert strength == pytest.approx(0.45 * done + 0.55 * m * k * n / config.terms)


@pytest.mark.parametrize(("config", "k"), [(SMALL, 6), (FOUR, 13)], ids=["", "t4"])
def test_snapshots(config: MxuConfig, k: int) -> None:
    seen = observe(product(config, 7, k, 5), at=[9, 14, 20])
    root = ElementTree.fromstring(draw(seen))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("transform", "").startswith("scale(")]
    assert len(groups) == 3
    for group, cycle in zip(groups, seen.loads, strict=True):
        tiles = seen.tile_at(cycle)
        for colour in range(4):
            drawn = sum(area(path.get("d", "")) for path in group if f"t{colour}" in path.get("class", "").split())
            assert drawn == (tiles[tiles >= 0] % 4 == colour).sum()
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"cycle 9", "cycle 14", "cycle 20", f"{(seen.tile_at(20) >= 0).mean():.0%} busy"} <= set(texts)
    [(wide, high)] = {tuple(map(float, group.get("transform", "")[6:-1].split())) for group in groups}
    assert high == pytest.approx(config.terms * wide, abs=1e-3)
    rows = {"row 0", "row 3"} if config.terms == 1 else {"rows 0–3", "rows 4–7"}
    assert rows <= set(texts)
    assert any("takes 4 rows of operands" in (text or "") for text in texts) == (config.terms == 4)


@pytest.fixture(scope="module")
def large() -> Activity:
    """A unit whose cells have no room for marks, nor its rows for columns; its streams wait."""
    config = MxuConfig(rows=64, columns=64)
    return observe(product(config, 96, 100, 128), stalls=Stalls(3))


@pytest.mark.parametrize("terms", [1, slow(4)])
def test_large_pictures_are_small(terms: int, large: Activity) -> None:
    seen = large if terms == 1 else observe(product(MxuConfig(rows=256, columns=8, terms=4), 300, 302, 13))
    text = draw(seen)
    assert len(text) < 200_000
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}circle"))
    drawn = sum(size for _, size in shapes(root))
    # Shares are rounded up, to sixteenths; padding counts .45.
    config, beats = seen.config, sum(len(tile.activations) for tile in seen.tiles)
    expected = 0.45 * beats * config.element_rows + 0.55 * seen.products / (config.terms * config.columns)
    assert expected <= drawn < 1.06 * expected


def test_pictures_describe_themselves(large: Activity) -> None:
    root = ElementTree.fromstring(draw(large, made_by="openmxu wave --rows 64"))
    title, described = (root.findtext(f"{SVG}{tag}") or "" for tag in ("title", "desc"))
    assert title == "Wavefront of 96×100 times 100×128 on 64×64 processing elements"
    assert f"{large.cycles} cycles from the first beat to the last result" in described
    assert described.endswith("Made by: openmxu wave --rows 64")
    assert large.utilisation == 96 * 100 * 128 / (64 * 64 * large.cycles)


def colour(style: str, name: str) -> np.ndarray:
    """Its linear light."""
    [code] = re.findall(rf"\.{name}{{fill:#(......)}}", style)
    srgb = np.array([*bytes.fromhex(code)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(to_xyz @ np.clip(light, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


VISION = {  # Machado, Oliveira and Fernandes, 2009, severity 1
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_stay_apart_for_everybody(mode: str, large: Activity) -> None:
    light, dark = draw(large).split("@media (prefers-color-scheme:dark)")
    idle, *tiles = (colour(light if mode == "light" else dark, name) for name in ("idle", "t0", "t1", "t2", "t3"))
    for one in tiles:
        low, high = sorted(each @ [0.2126, 0.7152, 0.0722] for each in (one, idle))
        assert (high + 0.05) / (low + 0.05) >= 3
    for matrix in VISION.values():
        for one, other in combinations(tiles, 2):
            assert np.linalg.norm(lab(np.array(matrix) @ one) - lab(np.array(matrix) @ other)) >= 20


def test_command(command: Command) -> None:
    assert command("wave") == (0, "", "wrote wavefront.svg: 12x16x16 on 8x8, 4 tiles, 78 cycles, utilisation 61.5%\n")
    documented = Path(__file__).parents[3] / "docs/images/wavefront.svg"
    assert Path("wavefront.svg").read_bytes() == documented.read_bytes(), f"run openmxu wave -o {documented}"
    described = ElementTree.parse("wavefront.svg").getroot().findtext(f"{SVG}desc") or ""
    assert described.endswith("Made by: openmxu wave --rows 8 --columns 8 --stages 1 --m 12 --k 16 --n 16")
    options = "--rows 4 --columns 3 --stages 6 --terms 2 --m 7 --k 5 --n 4 --stalls 3 --at 20,30"
    assert command(f"wave {options} -o w.svg")[0] == 0
    described = ElementTree.parse("w.svg").getroot().findtext(f"{SVG}desc") or ""
    assert "the array in the cycles 20, 30" in described
    assert described.endswith("--terms 2 --m 7 --k 5 --n 4 --stalls 3 --at 20,30")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rows 0", "rows must be an integer from 1 to 65536, not 0"),
        ("--rows 257", "rows must be at most 256 for an image, not 257"),
        ("--m 9999", "the product of m, k and n must take at most 4096 cycles for an image, not at least 39996"),
        ("--m 1000000 --k 1000000000", "the product of m, k and n must take at most 4096 cycles for an image*"),
        ("--m 900 --stalls 1", "the product of m, k and n must take at most 4096 cycles for an image, not *"),
        ("--k 0", "k must be an integer >= 1, not 0"),
        ("--stages 8", "stages must be an integer from 1 to 7, not 8"),
        ("--terms 3", "terms must be 1, 2, 4 or 8, not 3"),
        ("--rows 6 --terms 4 -o run.html", "rows must be a multiple of terms=4, not 6"),
        ("--stalls -1", "stalls must be an integer >= 0, not -1"),
        ("--at 9,78", "at must be cycles from 0 to 77, not 78"),
        ("-o w.bmp", "output must end in .svg, .html or .htm, not 'w.bmp'"),
        ("-o missing/w.svg", "output missing/w.svg cannot be written: No such file or directory"),
        ("--at 3 -o run.html", "at requires an image, an output that ends in .svg, not a page"),
        ("--k 0 -o run.html", "m, k and n must be from 1 to 16 in a page, not 0"),
        ("--stalls -1 -o run.html", "stalls must be an integer >= 0, not -1"),
        ("-o missing/run.html", "output missing/run.html cannot be written: No such file or directory"),
    ],
)
def test_mistakes(options: str, words: str, refused: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    assert fnmatch(refused(f"wave {options}"), f"openmxu wave: {words}\n")


@pytest.mark.parametrize(
    "config", [SMALL, FOUR, slow(MxuConfig(rows=5, columns=2, stages=7)), slow(MxuConfig(8, 2, stages=7, terms=2))]
)
def test_default_sizes_follow_one_another_without_a_bubble(config: MxuConfig) -> None:
    m, k, n = default_sizes(config)
    seen = observe(product(config, m, k, n))
    assert len(seen.tiles) == 4
    assert np.diff(np.flatnonzero(seen.stream("admission.o_go"))).max() == 1
