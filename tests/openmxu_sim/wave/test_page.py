"""The page in which a unit runs: its machine is the engine ``compiled``, and the file has everything in it."""

import base64
import json
import re
import zlib
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from openmxu.export.provenance import NETLIST, provenance
from openmxu.runtime import native
from openmxu.runtime.extras import install
from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles, tiles
from openmxu_sim import golden, simulate
from openmxu_sim.engines.compiled import Window, record
from openmxu_sim.engines.compiled.model import load_model
from openmxu_sim.engines.compiled.source import netlists
from openmxu_sim.engines.compiled.trace import STREAMS
from openmxu_sim.operands.stimulus import Stalls, collect, stimulus
from openmxu_sim.wave import Given, Record, heat_page, live_page, observe, product, random_run, record_run
from openmxu_sim.wave.page import document, machine, shipped, wasm, watched
from openmxu_sim.wave.page.c_text import MOST_SIDE, SIZES, page_config
from openmxu_sim.wave.page.layout import frame_layout
from openmxu_sim.wave.page.machine import fetch_text

from ...conftest import Command, load_file, needs_compiler, slow
from .conftest import needs_zig

pytestmark = needs_compiler


def patterns(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.integers(0, 1 << 32, shape, dtype=np.uint32)


def words(seen: Record, name: str, count: int) -> np.ndarray:
    """(cycles, count) of a part of the frames."""
    element = seen.given.stages, seen.given.terms
    start = frame_layout(fetch_text(*element), *element)[name]
    return seen.frames[:, start : start + count]


@pytest.mark.parametrize(
    ("rows", "columns", "stages", "terms"),
    [
        (4, 2, 1, 2),
        slow(8, 3, 1, 4),
        slow(2, 3, 1, 1),
        slow(8, 8, 6, 1),
        slow(3, 1, 6, 1),
        slow(6, 2, 7, 2),
        slow(4, 8, 3, 4),
        slow(8, 5, 4, 8),
    ],
)
def test_every_cycle_is_that_of_the_engine(rows: int, columns: int, stages: int, terms: int) -> None:
    """All registers, streams and words, cycle by cycle, for any bits, in every precision, with stalls and without."""
    generator = np.random.default_rng(rows)
    config = page_config(rows, columns, stages, terms)
    window = Window(range(rows // terms), range(columns), range(16384))
    for number, precision in enumerate(PASSES):
        m, k, n = generator.integers(1, MOST_SIDE + 1, 3).tolist()
        seed = number if number % 2 else None
        matrices = patterns(generator, m, k), patterns(generator, k, n)
        given = Given(*matrices, rows, columns, stages, precision, seed, terms)
        seen = record_run(given)
        stalls = None if seed is None else Stalls(seed)
        asked = stimulus(config, given.a, given.b, precision)
        run, trace = record(asked, window, stalls=stalls)
        assert (seen.cycles, len(seen.frames)) == (run.cycles, trace.ran)
        np.testing.assert_array_equal(words(seen, "streams", len(STREAMS)), trace.streams)
        for name, count in (("activations", rows), ("weights", columns), ("results", columns)):
            np.testing.assert_array_equal(words(seen, name, count), getattr(trace, name))
        layout = frame_layout(fetch_text(stages, terms), stages, terms)
        cells = seen.frames[:, layout["cells"] :].reshape(trace.ran, rows // terms, columns, layout["limbs"])
        for name, (limb, width) in layout["names"]["unit"].items():
            each = cells[..., limb : limb + -(-width // 32)]
            np.testing.assert_array_equal(each & (1 if width == 1 else 0xFFFFFFFF), trace.limbs(name))
        valid, ready = (trace.streams[:, STREAMS.index(f"results__{end}")] for end in ("valid", "ready"))
        beats = words(seen, "results", columns)[valid & ready == 1]
        np.testing.assert_array_equal(collect(config, beats, m, k, n), given.golden)
        check_bank(seen, asked.tiles, layout)


def check_bank(seen: Record, parts: tuple, layout: dict) -> None:
    """A sum is in the bank when the page says so, and is the result if its tile is emitted; a reason is given."""
    given = seen.given
    go = np.flatnonzero(words(seen, "streams", len(STREAMS))[:, STREAMS.index("admission.o_go")])
    delay = layout["write_delay"] + (given.rows // given.terms - 1) * layout["row_step"]
    bank = words(seen, "bank", SIZES[-1])
    owners = [(tile, beat) for tile in parts for beat in range(len(tile.activations))]
    assert len(owners) == len(go)
    for cycle, (tile, beat) in zip(go.tolist(), owners, strict=True):
        for column, n in enumerate(tile.columns) if tile.emit else ():
            assert bank[cycle + delay + column + 1, column] == given.golden[tile.activations[beat], n]


@pytest.mark.parametrize("terms", [1, 2, slow(4), slow(8)])
def test_tiles_are_those_of_the_tiling(terms: int) -> None:
    generator = np.random.default_rng(terms)
    for _ in range(20):
        rows, columns = terms * int(generator.integers(1, 8 // terms + 1)), int(generator.integers(1, 9))
        m, k, n = generator.integers(1, MOST_SIDE + 1, 3).tolist()
        precision = str(generator.choice(list(PASSES)))
        matrices = patterns(generator, m, k), patterns(generator, k, n)
        seen = record_run(Given(*matrices, rows, columns, 1, precision, terms=terms))
        expected = tiles(page_config(rows, columns, 1, terms), m, k, n, precision)
        for numbers, tile in zip(seen.tiles.tolist(), expected, strict=True):
            row, count, inner, inners, weight_row, column, width, marks, weight_marks = numbers
            assert (range(row, row + count), range(inner, inner + inners)) == (tile.activations, tile.inner)
            assert (range(column, column + width), weight_row) == (tile.columns, tile.inner.start)
            flags = [marks >> bit & 1 for bit in range(2, 6)]
            assert flags == [tile.add, tile.clear_nan, tile.emit, tile.keep]
            assert (marks >> 6, weight_marks >> 1) == (tile.activation_part, tile.weight_part)


@pytest.mark.parametrize(
    ("config", "sizes", "stalls"),
    [
        (MxuConfig(rows=8, columns=8), (12, 16, 16), None),
        (MxuConfig(rows=4, columns=2, terms=2), (12, 16, 16), 3),
        slow(MxuConfig(rows=8, columns=8, terms=4), (12, 16, 16), 3),
        slow(MxuConfig(rows=2, columns=3), (9, 5, 16), 5),
    ],
)
def test_as_many_cycles_as_the_picture(config: MxuConfig, sizes: tuple[int, int, int], stalls: int | None) -> None:
    page = record_run(random_run(config.rows, config.columns, 1, sizes, stalls=stalls, terms=config.terms))
    picture = observe(product(config, *sizes), stalls=None if stalls is None else Stalls(stalls))
    assert page.cycles == picture.cycles


@pytest.mark.parametrize(("sizes", "terms"), [(((1, 2), (7, 5)), 1), slow(((4, 2), (8, 5)), 4)])
def test_parts_that_are_there_once_are_the_same_for_all_sizes(sizes: tuple, terms: int) -> None:
    one, other = (netlists(page_config(*size, 7, terms)) for size in sizes)
    assert {name for name in one if one[name] != other[name]} == {"admission", "status"}


@pytest.mark.parametrize(
    ("rows", "sizes", "terms", "words"),
    [
        (2, (17, 1, 1), 1, "m, k and n must be from 1 to 16 in a page, not 17"),
        (2, (1, 1, 17), 1, "m, k and n must be from 1 to 16 in a page, not 17"),
        (9, (1, 1, 1), 1, "rows must be from 1 to 8 in a page, not 9"),
        (6, (1, 1, 1), 4, "rows must be a multiple of terms=4, not 6"),
    ],
)
def test_what_does_not_fit_a_page(rows: int, sizes: tuple[int, int, int], terms: int, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        random_run(rows, 2, 1, sizes, terms=terms)


def data_of(page: str) -> dict:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def check_alone(page: str) -> None:
    """Nothing comes from elsewhere, nothing of the template is left, and the file is small."""
    assert len(page.encode()) < 1_000_000
    assert not re.findall(r"""\b(?:src|href)\s*=\s*["'](?!#)|@import|url\((?!#)|https?://|fetch\(|import\(""", page)
    assert not re.findall(r"\{\{\w+\}\}", page)


def test_recorded_page() -> None:
    given = random_run(4, 2, 1, (4, 5, 3), stalls=9, terms=2)
    page = live_page(given, live=False, made_by='openmxu wave --m "4" </script>')
    check_alone(page)
    data = data_of(page)
    assert "modules" not in data
    assert "multiplies your matrices" not in page.partition("<script")[0]
    assert (list(data["layouts"]), data["recorded"]["terms"]) == (["1 2"], 2)
    assert data["recorded"]["golden"] == given.golden.ravel().tolist()
    assert data["seeds"][data["recorded"]["stalls"] - 1] == 9
    assert '<meta name="generator" content="openmxu wave --m &quot;4&quot; &lt;/script&gt;">' in page


@pytest.mark.parametrize("terms", [slow(1), 2])
def test_heat_page(terms: int) -> None:
    activity = observe(product(MxuConfig(rows=4, columns=3, terms=terms), 12, 30, 40), stalls=Stalls(3))
    page = heat_page(activity)
    check_alone(page)
    heat = data_of(page)["heat"]
    assert [heat[name] for name in ("rows", "columns", "terms", "m", "k", "n")] == [4, 3, terms, 12, 30, 40]
    assert ("takes 2 rows of operands" in page) == (terms == 2)
    assert heat["beats"] == [beats.tolist() for beats in activity.beats]


@pytest.mark.slow
@needs_zig
def test_live_page() -> None:
    page = live_page(random_run(8, 8, 1, (16, 16, 16), terms=2))
    check_alone(page)
    offered = [(terms, stages) for stages, terms, _ in data_of(page)["sizes"]]
    assert offered == [(terms, stages) for terms in (1, 2, 4) for stages in range(1, 8)]


_DOCS = Path(__file__).parents[3] / "docs"
_SHIPPED = _DOCS.parent / "sim/openmxu_sim/wave/live.html"
NETLISTS = {
    "live": lambda: provenance()[NETLIST],
    "accelerator": lambda: shipped.digest(watched.netlist(watched.CONFIG)),
}
BODIES = {"live": "live", "accelerator": "watched"}


@pytest.mark.parametrize("name", BODIES)
def test_files_are_of_these_sources(name: str) -> None:
    """Of this netlist, and these sheets and scripts; the package has the same file as a clone."""
    page = (_DOCS / f"{name}.html").read_text()
    assert shipped.is_current(page, NETLISTS[name](), BODIES[name]), "run make live"
    assert not shipped.is_current(page, "another", BODIES[name])
    check_alone(page)
    assert name != "live" or page == _SHIPPED.read_text()


@pytest.mark.slow
def test_files_are_what_the_sources_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of their text, which has digests of the C text that their modules were compiled from."""
    written = {name: (_DOCS / f"{name}.html").read_text() for name in BODIES}
    data = data_of(written["live"])
    modules = BytesIO(inflated(data["modules"]))
    lengths = iter([length for *_, length in data["sizes"]])
    monkeypatch.setattr(document, "build_wasm", lambda text: modules.read(next(lengths)))
    monkeypatch.setattr(watched, "build_wasm", lambda text: inflated(data_of(written["accelerator"])["module"]))
    pages = load_file(_DOCS / "live.py")
    assert {name: getattr(pages, name)() for name in BODIES} == written, "run make live"


def inflated(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))


def test_another_netlist_is_not_what_the_file_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped.find_shipped(shipped.MADE_BY) == _SHIPPED.read_text()
    monkeypatch.setattr(shipped, "provenance", lambda: {NETLIST: "another"})
    assert shipped.find_shipped(shipped.MADE_BY) is None


def test_command_without_a_compiler_for_the_web(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    said = (
        f"wrote run.html: a recorded run, 2x4x5 on 4x2, {cycles(page_config(4, 2, 1, 2), 2, 4, 5)} cycles\n"
        f"for a unit that runs in the page, install the package ziglang: {install('zig')}\n"
    )
    assert command("wave --rows 4 --columns 2 --terms 2 --m 2 --k 4 --n 5 -o run.html") == (0, "", said)
    page = Path("run.html").read_text()
    assert "modules" not in data_of(page)
    assert 'content="openmxu wave --rows 4 --columns 2 --stages 1 --terms 2 --m 2 --k 4 --n 5"' in page


@pytest.mark.parametrize("output", ["run.html", "run.svg"])
def test_command_without_any_compiler(
    output: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.delenv("CC", raising=False)
    for module in (wasm, native):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    for load in (machine._load, load_model):
        load.cache_clear()
    wanted = f"install one (Debian and Ubuntu: apt install gcc; anywhere: {install('zig')})"
    complaint = f"openmxu wave: a C compiler is needed; {wanted}\n"
    said = "wrote default.html: a live unit, 6x8x8 on 4x4, 42 cycles\n"
    assert command("wave -o default.html") == (0, "", said)
    assert Path("default.html").read_text() == _SHIPPED.read_text()
    assert command(f"wave --rows 1 --columns 1 --m 1 --k 1 --n 1 -o {output}") == (2, "", complaint)
    assert not Path(output).exists()


def test_command_for_a_product_too_large_to_be_live(command: Command) -> None:
    code, out, err = command("wave --rows 4 --columns 3 --terms 4 --m 20 -o run.HTML")
    assert (code, out) == (0, "")
    assert err.startswith("wrote run.HTML: 20x8x6 on 4x3, 4 tiles, ")
    assert data_of(Path("run.HTML").read_text())["heat"]["m"] == 20
    assert "1×3 processing elements of 4 terms" in Path("run.HTML").read_text()


def test_notebooks_show_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    given = random_run(4, 3, 1, (9, 9, 2))
    shown = record_run(given)._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert shown.count('"') == 6
    found = simulate(golden.from_bits(given.a), golden.from_bits(given.b), rows=4, columns=3, engine="golden")
    text = found._repr_html_()
    assert text.startswith("<div>9×9×2 on 4×3 by golden: ")
    values = re.findall(r"<td>([^<]*)</td>", text)
    assert values == [f"{value:.6g}" for value in golden.from_bits(given.golden)[:8].ravel().tolist()] + ["…"]
    asked = product(MxuConfig(rows=4, columns=3), 5, 4, 3)
    assert ElementTree.fromstring(observe(asked)._repr_html_()).tag.endswith("svg")
    _, trace = record(asked, Window(range(1, 3), range(2), range(10)))
    assert f"a run of {trace.ran} cycles: rows 1 to 2, columns 0 to 1, cycles 0 to 9;" in trace._repr_html_()
    assert ElementTree.fromstring(f"<p>{trace._repr_html_()}</p>").findtext(".//td") == "o_psum"
