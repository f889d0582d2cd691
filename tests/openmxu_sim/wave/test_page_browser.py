"""The page in a real browser, driven by mouse and keyboard: what it shows is what the engine ``compiled`` gives."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu.spec.stages import TERMS, split_stages
from openmxu_sim import golden
from openmxu_sim.engines import compiled
from openmxu_sim.engines.compiled import Trace, Window, record
from openmxu_sim.engines.compiled.trace import STREAMS
from openmxu_sim.operands.stimulus import Stalls, Stimulus, collect, stimulus
from openmxu_sim.wave import heat_page, live_page, observe, product, random_run
from openmxu_sim.wave.page.c_text import page_config

from ...conftest import needs_compiler
from .conftest import needs_zig

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make setup-browser").expect
pytestmark = [pytest.mark.slow, needs_compiler, needs_zig]

BEGINNING = random_run(4, 4, 1, (6, 8, 5))
"""The run with which the page begins."""

READY = "body[data-state=ready]"


@pytest.fixture(scope="module")
def text() -> str:
    return live_page(BEGINNING, terms=TERMS)


@pytest.fixture
def page(show: Callable[..., Any], text: str) -> Any:
    return show(text)


CORNERS = np.uint32(
    [
        *(0, 1 << 31, 1, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F808000, 0x3F818000),
        *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F0000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x00FF8000),
        *(0x1F800000, 0x20000000, 0x5F000000, 0x5F7F0001, 0x0080FFFF, 0x017F7FFF, 0x3F80FFFF),
    ]
)


def matrix(generator: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    shape = rows, columns
    kind = generator.integers(3)
    if kind == 0:
        return generator.integers(0, 1 << 32, shape, dtype=np.uint32)
    if kind == 1:
        return generator.choice(CORNERS, shape)
    return golden.to_bits(generator.standard_normal(shape).astype(np.float32))


def results(page: Any) -> list[str]:
    return page.locator("#c button").all_text_contents()


def choose(page: Any, **wanted: object) -> None:
    for name, value in wanted.items():
        page.select_option(f"#{name}", str(value))
    page.wait_for_selector(READY)


def enter(page: Any, selector: str, typed: str) -> None:
    page.fill(selector, typed)
    page.press(selector, "Enter")
    page.wait_for_selector(READY)


def box_of(page: Any, selector: str) -> dict[str, float]:
    box = page.locator(selector).bounding_box()
    assert box is not None, selector
    return dict(box)


def all_of(count: int) -> str:
    return f"{count} of {count}: bit-identical to the golden model"


UNITS = [
    *((4, 4, 1, 1), (1, 1, 2, 1), (8, 3, 3, 1), (3, 8, 4, 1), (5, 2, 5, 1), (2, 7, 6, 1), (8, 8, 7, 1)),
    *((4, 4, 1, 4), (8, 3, 7, 4), (6, 5, 3, 2), (8, 8, 1, 8), (8, 2, 4, 4)),
]
CLICKED = int(os.environ.get("OPENMXU_CLICKED", "120"))
"""Runs through the controls, which take a tenth of a second each; the others are called."""


def draw(generator: np.random.Generator, count: int) -> Iterator[SimpleNamespace]:
    """Runs of any bits, on a few units one after the other, and what the engine makes of each."""
    each = -(-count // len(UNITS))
    for number in range(count):
        rows, columns, stages, terms = UNITS[number // each]
        config = page_config(rows, columns, stages, terms)
        if number % 5 == 0:
            precision, seed = str(generator.choice(list(PASSES))), int(generator.integers(8))
            m, k, n = (int(size) for size in generator.integers(1, [6, 12, 9]))
        a, b = matrix(generator, m, k), matrix(generator, k, n)
        run = compiled.run(stimulus(config, a, b, precision), stalls=Stalls(seed) if seed else None)
        assert run.counters is not None
        # All activations have gone in long before the last result is given.
        _, busy, stalled, held_up, *_ = run.counters
        told = f"busy cycles: {busy}; stall cycles: input {stalled}, output {held_up}"
        chosen = {"rows": rows, "columns": columns, "stages": stages, "terms": terms}
        chosen |= {"precision": precision, "stalls": seed}
        result = collect(config, run.beats, m, k, n)
        yield SimpleNamespace(chosen=chosen, a=a, b=b, result=result, cycles=run.cycles, counters=told)


def test_same_bits_and_cycles_as_the_engine(page: Any) -> None:
    for name in ("a", "b"):
        page.click(f"[data-text={name}]")
    choose(page, view="hex")
    page.click("#last")  # and there it stays
    before: dict[str, object] = {}
    for run in draw(np.random.default_rng(19), CLICKED):
        changed = {name: value for name, value in run.chosen.items() if before.get(name) != value}
        if changed.keys() & {"rows", "terms"}:  # in between, rows are no multiple of terms
            choose(page, terms=1)
            changed["terms"] = run.chosen["terms"]
        choose(page, **changed)
        before = run.chosen
        for name, bits in (("a", run.a), ("b", run.b)):
            page.fill(f"#{name}-text", "\n".join(" ".join(f"0x{word:08X}" for word in row) for row in bits.tolist()))
        page.wait_for_selector(READY)
        assert results(page) == [f"{word:08X}" for word in run.result.ravel().tolist()], run
        assert page.inner_text("#total") == str(run.cycles), run
        assert page.inner_text("#counters") == run.counters, run
        assert page.inner_text("#verdict") == all_of(run.result.size), run


def test_same_bits_and_cycles_many_times(page: Any) -> None:
    """The same through the function behind the controls, so that there are a thousand in all."""
    for run in draw(np.random.default_rng(20), 1000 - CLICKED):
        given = run.chosen | {"m": len(run.a), "k": len(run.b), "n": run.b.shape[1]}
        given |= {"a": run.a.ravel().tolist(), "b": run.b.ravel().tolist()}
        found = page.evaluate(
            "given => openmxu.page.machines.run(given).then(run => [run.results.map(each => each.bits), run.cycles])",
            given,
        )
        assert found == [run.result.ravel().tolist(), run.cycles], run


def test_model_is_the_golden_model(page: Any) -> None:
    """The independent model in the page: corner by corner, then any bits, in all precisions."""
    generator = np.random.default_rng(7)
    for number in range(240):
        terms = int(generator.choice(TERMS)) if number >= 120 else 1
        if number < 4:
            a, b, rows = CORNERS[:, None], CORNERS[None, :], 1
        elif number == 120:  # a sum just below the smallest normal number, which rounding must not lift to it
            a = np.array([[0x20000000, 0x1A000000]], dtype=np.uint32)
            b, rows, terms = a.T | np.array([[0], [1 << 31]], dtype=np.uint32), 2, 2
        else:
            m, k, n, rows = (int(each) for each in generator.integers(1, [9, 17, 9, 9 if terms == 1 else 3]))
            rows *= terms
            a, b = matrix(generator, m, k), matrix(generator, k, n)
        precision = list(PASSES)[number % 4]
        passes = [[int(left), int(right)] for left, right in PASSES[precision]]
        found = page.evaluate(
            "given => Array.from(openmxu.Model.multiply(given))",
            {"a": a.ravel().tolist(), "b": b.ravel().tolist(), "m": len(a), "k": len(b), "n": b.shape[1]}
            | {"inner": len(b), "columns": b.shape[1], "rows": rows, "terms": terms, "passes": passes},
        )
        exact = golden.matmul(golden.from_bits(a), golden.from_bits(b), rows=rows, precision=precision, terms=terms)
        assert found == golden.to_bits(exact).ravel().tolist(), (number, precision)


def traced(terms: int = 1) -> tuple[Stimulus, Trace]:
    """What the engine did in the run with which the page begins, or with several terms."""
    asked = stimulus(page_config(4, 4, 1, terms), BEGINNING.a, BEGINNING.b)
    return asked, record(asked, Window(range(4 // terms), range(4), range(4096)))[1]


def expected_results() -> Iterator[list[str]]:
    """Cycle by cycle, what is there of the result when the cycle's beat has been given."""
    asked, trace = traced()
    shown = np.full((len(asked.a), asked.b.shape[1]), "·", dtype=object)
    owners = iter([(tile, row) for tile in asked.tiles if tile.emit for row in tile.activations])
    valid, ready = (trace.streams[:, STREAMS.index(f"results__{end}")] for end in ("valid", "ready"))
    for cycle in range(trace.ran):
        if valid[cycle] and ready[cycle]:
            tile, row = next(owners)
            for lane, column in enumerate(tile.columns):
                shown[row, column] = f"{trace.results[cycle, lane]:08X}"
        yield shown.ravel().tolist()


@pytest.mark.parametrize("terms", TERMS[:3])
def test_every_cycle_shows_what_the_unit_holds(terms: int, page: Any) -> None:
    choose(page, terms=terms)
    asked, trace = traced(terms)
    seen = observe(asked)
    several, shadow = [("", "o_weight"), ("s", "shadow")][terms > 1]
    registers = {
        f"{name}{several}": golden.from_bits(trace.limbs(each).view("<u2")[..., :terms].astype(np.uint32), "bf16")
        for name, each in (("activation", "o_activation"), ("weight", "active"), ("shadow weight", shadow))
    }
    shadows = np.moveaxis(registers[f"shadow weight{several}"], -1, 2).reshape(trace.ran, 4, 4)
    tile_of = f"weightsOf(n >> 4, Math.floor((n >> 2 & 3) / {terms}), n & 3, (n >> 2) % {terms}).shadow"
    owners = page.evaluate(f"Array.from(Array({shadows.size}).keys(), n => openmxu.page.run.{tile_of})")
    b = golden.from_bits(golden.convert(asked.b, subnormals="flush"), "bf16")
    for (*_, row, column), tile, held in zip(np.ndindex(shadows.shape), owners, shadows.flat, strict=True):
        own, first = asked.tiles[tile], row // terms * terms  # the element's
        padding = tile < 0 or column >= len(own.columns)
        assert (held == 0) if padding else held in b[own.inner][first:, own.columns[column]]
    registers["partial sum"] = golden.from_bits(trace.register("o_psum"))[..., None]
    for cycle in range(trace.ran):
        page.fill("#time", str(cycle))
        tiles = seen.tile_at(cycle)
        labels = page.locator("#cells button").evaluate_all("all => all.map(each => each.ariaLabel)")
        for (row, column), label in zip(np.ndindex(4 // terms, 4), labels, strict=True):
            place, *parts, tile = re.split(", |: ", label)
            rows = f"row {row}" if terms == 1 else f"rows {terms * row}–{terms * row + terms - 1}"
            assert place == f"{rows} column {column}"
            assert tile == ("idle" if tiles[row, column] < 0 else f"tile {tiles[row, column]}")
            for name, part in zip(registers, parts, strict=True):
                assert part.startswith(f"{name} ")
                number = [float(each) for each in part.removeprefix(f"{name} ").replace("−", "-").split()]
                assert number == pytest.approx(registers[name][cycle, row, column], rel=6e-4, abs=1e-30), (cycle, label)
        for stream in ("weights", "activations", "results"):
            for end in ("valid", "ready"):
                lamp = page.get_attribute(f"[data-lamp={stream}-{end}]", "aria-label")
                high = trace.streams[cycle, STREAMS.index(f"{stream}__{end}")]
                assert lamp == f"{end} {'high' if high else 'low'}", cycle
        goes = trace.streams[cycle, STREAMS.index("admission.o_go")]
        assert (page.inner_text("#why") == "a beat enters") == bool(goes)


def test_time_goes_back_and_forth(page: Any) -> None:
    last = int(page.get_attribute("#time", "max") or "")
    choose(page, view="hex")
    page.click("#first")
    expect(page.locator("#clock")).to_have_text(f"cycle 0 of {last}")
    forth = list(expected_results())
    assert len(forth) == last + 1
    for key, cycles in (("ArrowRight", range(last + 1)), ("ArrowLeft", range(last, -1, -1))):
        for cycle in cycles:
            assert (page.inner_text("#cycle"), results(page)) == (str(cycle), forth[cycle])
            page.keyboard.press(key)
    page.fill("#time", str(last - 1))
    assert results(page) == forth[last - 1]
    page.keyboard.press("End")
    page.click("#machine-title")
    page.keyboard.press("Home")
    expect(page.locator("#cycle")).to_have_text("0")
    choose(page, speed=60)
    page.click("#machine-title")
    page.keyboard.press(" ")
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator("#cycle")).to_have_text(str(last))
    expect(page.locator("#play")).to_have_text("Play")
    assert "·" not in results(page)


@pytest.mark.parametrize("terms", [1, 2, 4])
def test_a_result_lights_what_went_into_it(terms: int, page: Any) -> None:
    choose(page, terms=terms)
    page.click("#last")
    page.locator("#c button").nth(2 * 5 + 4).click()  # row 2, column 4: in the second tile of columns
    lit = page.locator("#a input.lit, #b input.lit").evaluate_all("all => all.map(each => each.ariaLabel)")
    assert lit == [f"A row 2 column {k}" for k in range(8)] + [f"B row {k} column 4" for k in range(8)]
    rows = page.locator("#inspector tr:has(td)")
    steps = [row.locator("td").all_inner_texts() for row in rows.all()]
    assert [step[0] for step in steps if len(step) > 2] == [str(k) for k in range(8)]
    assert [len(step) for step in steps if len(step) > 2] == [7 if k % terms == 0 else 4 for k in range(8)]
    last = golden.from_bits(replace(BEGINNING, terms=terms).golden)[2, 4]
    assert page.inner_text("#inspector h3 >> nth=0") == f"C[2][4] = {float(f'{last:.9g}')!r}".replace("-", "−")
    assert page.locator("#inspector .good").inner_text() == "bit-identical to the golden model"
    assert page.locator("#inspector .bad").count() == 0
    left, right = golden.from_bits(BEGINNING.a)[2:3], golden.from_bits(BEGINNING.b)[:, 4:5]
    parts = [golden.matmul(left[:, tile], right[tile], rows=4, terms=terms).item() for tile in (slice(4), slice(4, 8))]
    shown = [step[0].replace("−", "-") for step in steps if len(step) == 2]
    first, second = (re.findall(r"-?[\d.]+(?:e-\d+)?", line.split(": ")[1]) for line in shown)
    assert [float(word) for word in first] == pytest.approx(parts[:1], rel=1e-4)
    assert [float(word) for word in second] == pytest.approx([*parts, float(last)], rel=1e-4)
    # The cycle of the last products: in the last row of elements, column 0 of the array.
    rows.nth(4 - terms).locator("button").click()
    assert page.locator("#inspector tr.now td").first.inner_text() == str(4 - terms)
    label = page.locator("#cells button").nth(4 * (4 // terms - 1)).get_attribute("aria-label") or ""
    bf16 = golden.from_bits(golden.convert(BEGINNING.a, subnormals="flush"), "bf16")[2, 3]
    shown = re.findall(r"activations? [^,]*?(\S+),", label)[0].replace("−", "-")
    assert float(shown) == pytest.approx(float(bf16), rel=1e-3)


@pytest.mark.parametrize("terms", TERMS[:3])
def test_a_cell_opens(terms: int, page: Any) -> None:
    for stages in (1, 3, 7):
        choose(page, stages=stages, terms=terms)
        for cell in (0, 6 // terms, 16 // terms - 1):
            page.locator("#cells button").nth(cell).click()
            for cycle in (16, 23, 30):
                page.fill("#time", str(cycle))
                row = cell // 4
                rows = f"row {row}" if terms == 1 else f"rows {terms * row}–{terms * row + terms - 1}"
                assert page.inner_text("#inspector h3") == f"Processing element, {rows}, column {cell % 4}"
                step = split_stages(stages)[1]
                said = f"In cycle {cycle + step} its sum register holds this sum."
                assert page.inner_text("#inspector p.good") == said
                [drawn] = page.locator("#inspector svg.element").all_text_contents()
                assert (drawn.count("×"), drawn.count("+")) == (terms, 1)
            page.locator("#cells button").nth(cell).click()
            expect(page.locator("#inspector h3")).to_have_count(0)


def test_space_plays_after_a_click(page: Any) -> None:
    """A button that was clicked is not pressed again by Space; a button that the keyboard has reached is."""
    for clicked in ("[data-preset=identity]", "#first", "#inspector button >> nth=0"):
        page.locator("#c button").first.click()
        page.click(clicked)
        page.wait_for_selector(READY)
        page.keyboard.press("Home")
        page.keyboard.press(" ")
        page.wait_for_function("Number(document.getElementById('cycle').textContent) > 1")
        page.keyboard.press(" ")
        expect(page.locator("#play")).to_have_text("Play")
        page.locator("#c button").first.click()
    page.focus("#last")
    page.keyboard.press(" ")
    expect(page.locator("#cycle")).to_have_text(str(page.get_attribute("#time", "max")))


def test_presets_and_fields(page: Any) -> None:
    page.click("#last")
    for name in ("random", "identity", "overflow", "nan", "cancellation"):
        page.click(f"[data-preset={name}]")
        page.wait_for_selector(READY)
        expect(page.locator("#verdict")).to_have_text(all_of(30))
        shown = " ".join(results(page))
        assert ("NaN" in shown) == (name in ("overflow", "nan")), name
        assert ("∞" in shown) >= (name == "overflow"), name
    page.click("[data-preset=digit]")
    expect(page.locator("#verdict")).to_have_text(all_of(64))
    image = np.array(results(page)).reshape(8, 8)
    left = np.array([each.input_value() for each in page.locator("#a input").all()]).reshape(8, 8)
    np.testing.assert_array_equal(image, left[:, ::-1])
    page.fill("#a input >> nth=0", "wombat")
    page.press("#a input >> nth=0", "Enter")
    expect(page.locator("#mistake")).to_contain_text('not "wombat"')
    enter(page, "#a input >> nth=0", "-inf")
    expect(page.locator("#mistake")).to_be_hidden()
    expect(page.locator("#c button").nth(7)).to_have_text("−∞")
    enter(page, "#k", "3")
    assert page.locator("#a input").count() == 24
    page.click("[data-text=b]")
    page.fill("#b-text", "1 2\n3")
    expect(page.locator("#mistake")).to_contain_text("Lines of B must have equally many numbers")
    page.fill("#b-text", "1 2\n3 4")
    expect(page.locator("#mistake")).to_have_text("A has 3 columns and B 2 rows: both must be K")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("bits + 0x7fff + ((bits >>> 16) & 1)", "bits + 0x8000"),
        ("const equal = result.bits === golden[index];", "const equal = (result.bits ^ 1) === golden[index];"),
    ],
    ids=["another rounding", "another comparison"],
)
def test_wrong_bits_are_seen(right: str, wrong: str, show: Callable[..., Any], text: str) -> None:
    """Negative control: where model and machine code differ, the page says so."""
    assert text.count(right) == 1
    page = show(text.replace(right, wrong))
    page.click("[data-text=a]")
    page.fill("#a-text", "\n".join("0x3F808000 " * 8 for _ in range(6)))  # halfway between two numbers of bf16
    page.wait_for_selector(READY)
    page.click("#last")
    expect(page.locator("#verdict .bad")).to_contain_text("differ from the golden model")
    assert page.locator("#bar .differs").count() == page.locator("#c .differs").count() > 0


def test_without_webassembly(show: Callable[..., Any], text: str) -> None:
    """A recorded run, with the golden bits of the day on which it was recorded."""
    page = show(text, script="delete globalThis.WebAssembly")
    expect(page.locator("#notice")).to_have_text("This browser runs no WebAssembly here: you see a recorded run.")
    assert page.inner_text("h1") == "OpenMXU recorded"
    assert page.inner_text("#about").startswith("A recorded run of the netlist of an open bf16 matrix unit")
    expect(page.locator("#rows")).to_be_disabled()
    page.click("#last")
    expect(page.locator("#verdict")).to_have_text(all_of(30))
    choose(page, view="hex")
    assert results(page) == [f"{word:08X}" for word in BEGINNING.golden.ravel().tolist()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(scheme: str, show: Callable[..., Any], text: str) -> None:
    """Nothing is wider than the screen, everything can be reached, and time can be moved with a thumb."""
    page = show(text, width=390, height=844, color_scheme=scheme, has_touch=True)
    for size, terms in ((4, 1), (8, 1), (8, 4)):
        choose(page, rows=size, columns=size, terms=terms)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        for number in range(size * size // terms):
            box = box_of(page, f"#cells button >> nth={number}")
            assert 0 <= box["x"] <= 390 - box["width"]
    page.tap("#forward")
    page.locator("#c button").first.tap()
    expect(page.locator("#inspector h3").first).to_contain_text("C[0][0]")
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[scheme]


def test_keyboard(page: Any) -> None:
    """A few Tabs lead to Play, a grid is one stop, and arrow keys move within it, in fields as in a spreadsheet.

    Everything that can be used has a name.
    """
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input, textarea')].filter(each => !(each.ariaLabel || "
        "each.textContent.trim() && each.matches('button') || each.labels?.length)).map(each => each.outerHTML)"
    )
    assert nameless == []

    def focused(*keys: str) -> str:
        for key in keys:
            page.keyboard.press(key)
        return str(page.evaluate("document.activeElement.ariaLabel"))

    assert focused(*4 * ["Tab"]) == "Play"
    page.focus("#n")
    keys = "Tab", "Tab", "ArrowRight", "ArrowDown", "ArrowDown"  # "as text" is between
    assert focused(*keys) == "A row 2 column 1"
    page.keyboard.type("-12")
    assert focused("ArrowLeft") == "A row 2 column 1", "within the text"
    assert focused("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowLeft") == "A row 1 column 0"
    expect(page.get_by_label("A row 2 column 1")).to_have_value("-12")
    assert focused("Tab", "Tab", "ArrowDown") == "B row 1 column 0"
    page.wait_for_selector(READY)
    page.click("#last")
    expect(page.locator("#verdict")).to_have_text(all_of(30))
    page.locator("#cells button").first.focus()
    assert focused("ArrowRight", "ArrowDown").startswith("row 1 column 1: activation ")
    page.keyboard.press("Enter")
    assert page.inner_text("#inspector h3") == "Processing element, row 1, column 1"


def test_says_what_becomes_of_a_number(page: Any) -> None:
    """Where it is not taken as it was typed; and what was told goes with the next change. Rows are whole elements."""
    for typed, taken in (("1e50", "∞"), ("-1e-39", "−0"), ("2.5", ""), ("0x7F800000", "")):
        enter(page, "#a input >> nth=0", typed)
        words = f"{typed} is no normal number of fp32: the unit takes it as {taken}" if taken else ""
        expect(page.locator("#mistake")).to_have_text(words)
    expect(page.locator("#mistake")).to_be_hidden()
    for typed, words in (("99", "99 becomes 16"), ("", "nothing becomes 1"), ("6", "")):
        enter(page, "#m", typed)
        expect(page.locator("#mistake")).to_have_text(words and f"M must be an integer from 1 to 16: {words}")
        assert page.locator("#a input").count() == 8 * int(page.input_value("#m"))
    page.click("[data-text=b]")
    page.fill("#b-text", "\n".join(["1 1e99"] * 8))
    expect(page.locator("#mistake")).to_contain_text("1e99 is no normal number of fp32")
    page.select_option("#terms", "4")
    page.select_option("#rows", "6")
    expect(page.locator("#mistake")).to_have_text("Rows must be a multiple of terms=4, not 6")
    choose(page, rows=8)
    expect(page.locator("#mistake")).to_be_hidden()
    assert re.search("takes 4 activations .* rounds once", page.inner_text("#element"))


CUT = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  return [...document.querySelectorAll(".grid input, .grid button")].filter((each) => {
    pen.font = getComputedStyle(each).font;
    return pen.measureText(each.value || each.textContent).width > each.clientWidth;
  }).map((each) => each.value || each.textContent);
}"""


@pytest.mark.parametrize("width", [1400, 1280, 1100, 1021, 832, 701, 390])
def test_numbers_are_whole(width: int, show: Callable[..., Any]) -> None:
    """No cell of A, B or C cuts its number, with eight columns and with sixteen, as values and as patterns."""
    page = show(live_page(random_run(4, 4, 1, (8, 8, 8)), stages=[1]), width=width, height=800)
    page.click("#last")
    for side in (8, 16):
        for name in ("k", "n"):
            enter(page, f"#{name}", str(side))
        for view in ("value", "hex"):
            choose(page, view=view)
            assert page.evaluate(CUT) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


WRITTEN = """const fillText = CanvasRenderingContext2D.prototype.fillText;
globalThis.written = new Set();
CanvasRenderingContext2D.prototype.fillText = function (words, ...place) {
  written.add(words);
  return fillText.call(this, words, ...place);
};"""


@pytest.mark.parametrize(("width", "height"), [(1400, 860), (832, 720), (390, 844)])
def test_first_minute(width: int, height: int, show: Callable[..., Any]) -> None:
    """The default unit opens with work to see and some results; all is named, and Play begins with the first cycle."""
    default = live_page(random_run(8, 8, 1, (12, 16, 16)), stages=[1])
    page = show(default, WRITTEN, width, height)
    there = sum(each != "·" for each in results(page))
    assert 192 / 4 <= there < 192
    cells = page.locator("#cells button").evaluate_all("all => all.map(each => each.ariaLabel.split(', ').at(-1))")
    assert len({*cells} - {"idle"}) >= 2
    for words in ("weights", "activations", "sums in the bank", "results"):
        assert page.evaluate("words => [...written].some(each => each.startsWith(words))", words), words
    assert page.inner_text("#about").startswith("The netlist of an open bf16 matrix unit multiplies your matrices")
    cycle = int(page.inner_text("#cycle"))
    page.click("#play")
    page.wait_for_function("Number(document.getElementById('cycle').textContent) === 2")
    page.click("#play")
    page.fill("#time", str(cycle))
    page.click("#play")
    page.wait_for_function("cycle => Number(document.getElementById('cycle').textContent) === cycle + 1", arg=cycle)


@pytest.mark.parametrize(
    ("width", "height", "wanted"),
    [
        (1064, 720, ["[data-preset=digit]", "#rows", "#n", "#a", "#scene", "#c", "#hint"]),
        (832, 720, ["[data-preset=digit]", "#rows", "#n", "#a", "#b", "#scene", "#verdict"]),
        (390, 844, ["[data-preset=random]", "#scene"]),
    ],
)
def test_controls_come_first(width: int, height: int, wanted: list[str], show: Callable[..., Any], text: str) -> None:
    """In the frame of the documentation, and on a phone, no control that is named is under the fold."""
    page = show(text, width=width, height=height)
    fold = box_of(page, "#transport")
    assert fold["y"] + fold["height"] <= height
    for each in wanted:
        box = box_of(page, each)
        assert box["y"] + min(box["height"], 100) < fold["y"], each
        assert box["x"] >= 0
    first, machine = (box_of(page, each) for each in ("[data-preset=random]", "#machine"))
    assert (first["y"], first["x"]) < (machine["y"], machine["x"]) or first["x"] < machine["x"]


def test_lines_of_the_bank(page: Any) -> None:
    """Each sum that the bank holds is in a line of the picture, whatever waits."""
    counted = page.evaluate("""async () => {
      const counts = [];
      for (let stalls = 0; stalls <= 7; stalls++) {
        const given = { rows: 2, columns: 3, stages: 3, terms: 1, precision: "high", stalls, m: 16, k: 5, n: 16 };
        const ones = new Array(80).fill(0x3f800000);
        const run = await openmxu.page.machines.run({ ...given, a: ones, b: ones });
        for (let cycle = 0; cycle < run.count; cycle++) {
          const gone = run.taken.results[cycle];
          const there = run.beats.filter((each) => run.written(each, 0) <= cycle && each.place >= gone);
          const held = new Set(there.map((each) => each.place));
          const shown = run.bank(cycle).filter(([line]) => line && !line.left);
          if (held.size !== shown.length || shown.some(([line]) => !held.has(line.beat.place))) return [stalls, cycle];
        }
        counts.push(run.lines);
      }
      return counts;
    }""")
    assert len(counted) == 8
    assert 16 <= min(counted) <= max(counted) < 256


@pytest.mark.parametrize("terms", [1, 2])
def test_heat_map(terms: int, show: Callable[..., Any]) -> None:
    activity = observe(product(MxuConfig(rows=4, columns=3, terms=terms), 12, 7, 7), stalls=Stalls(3))
    page = show(heat_page(activity))
    for cycle in (0, 20, 37, 50):
        page.fill("#time", str(cycle))
        tiles = activity.tile_at(cycle)
        label = f"{(tiles >= 0).sum()} of {12 // terms} processing elements are busy in cycle {cycle}"
        expect(page.locator("#scene")).to_have_attribute("aria-label", label)
        box = box_of(page, "#scene")
        assert box["height"] == pytest.approx(box["width"] * 4 / 3, abs=1)
        for row, column in ((0, 0), (3, 1)):
            page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 3, box["y"] + (row + 0.5) * box["height"] / 4)
            line = row // terms
            wanted = "idle" if tiles[line, column] < 0 else f"tile {tiles[line, column]}"
            rows = f"Row {row}" if terms == 1 else f"Rows {2 * line}–{2 * line + 1}"
            expect(page.locator("#hint")).to_contain_text(f"{rows}, column {column}: {wanted}")
    page.click("#show-share")
    expect(page.locator("#show-share")).to_have_attribute("aria-pressed", "true")
