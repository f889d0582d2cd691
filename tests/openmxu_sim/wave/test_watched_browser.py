"""The page in which the accelerator runs: what it shows, by the definition, the program and the simulated RTL."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from openmxu.spec.accelerator import exchanges, rows_fed, rows_read, rows_written
from openmxu_sim.accelerator import Memories, check_waits, run
from openmxu_sim.accelerator.simulation import SimulatedAccelerator
from openmxu_sim.wave.page.watched import CONFIG, accelerator_page, digits, recogniser

from ...conftest import needs_compiler
from .conftest import needs_zig
from .test_page import check_alone

pytestmark = needs_compiler

network, page_text = cache(recogniser), cache(accelerator_page)


def memories(digit: int) -> Memories:
    made = Memories(CONFIG, network().weights)
    network().put("digit", digits()[digit][np.newaxis], made.scratchpad)
    return made


def test_each_digit_is_recognised() -> None:
    check_waits(CONFIG, network().program)
    for digit in range(10):
        run(network().program, made := memories(digit))
        assert network().get("scores", made.scratchpad).argmax() == digit


def opened(show: Callable[..., Any], width: int) -> Any:
    page = show(page_text(), width=width, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return page


@needs_zig
@pytest.mark.slow
def test_words_and_cycles_of_each_digit(show: Callable[..., Any]) -> None:
    """Those of the definition, and of the RTL as it is simulated elsewhere; a word that differs is seen."""
    check_alone(page_text())
    page, machine = opened(show, 1280), SimulatedAccelerator(CONFIG)
    for digit in range(10):
        page.click(f"#digits button >> nth={digit}")
        page.click("#last")
        machine.write(network().program, made := memories(digit))
        assert page.inner_text("#clock") == f"cycle {machine.run().cycles} of {page.get_attribute('#time', 'max')}"
        run(network().program, made)
        words = page.evaluate("Array.from(openmxu.page.run.scratchpad(openmxu.page.run.count)[0])")
        assert words == made.scratchpad.ravel()[: len(words)].tolist()
        assert page.inner_text("#verdict.good") == f"{len(words)} of {len(words)} words as defined"
        classes = page.locator("#scores li").evaluate_all("all => all.map(each => each.className)")
        assert classes == ["good" if each == digit else "" for each in range(10)]
    page.evaluate("openmxu.page.run.defined[400] ^= 1; openmxu.page.transport.refresh()")
    assert page.inner_text("#verdict.bad") == f"1 of {len(words)} words differ from the definition"


STATES = ["not fetched yet", "is fetched", "is checked", "waits", "begins", "ends", "runs", "done"]


@needs_zig
@pytest.mark.slow
def test_every_cycle(show: Callable[..., Any]) -> None:
    """Rows read and written are the program's; no command goes back, or begins before what it waits for is done."""
    page, program = opened(show, 390), network().program
    accesses, before, waited = [], [0] * len(program), set()
    page.click("#first")
    for _ in range(int(page.get_attribute("#time", "max")) + 1):
        texts = page.locator("#commands span").all_inner_texts()
        accesses.append(page.evaluate("['reads', 'writes', 'busy'].map(id => $(id).textContent)"))
        now = [next(at for at, state in enumerate(STATES) if text.startswith(state)) for text in texts]
        assert all(a <= b for a, b in zip(before, now, strict=True)), (before, now)
        waits = {(at, int(name)) for at, text in enumerate(texts) for name in re.findall(r"command (\d) is done", text)}
        assert all(now[name] < STATES.index("done") for _, name in waits)
        before, waited = now, waited | waits
        page.keyboard.press("ArrowRight")
    assert waited == {(2, 1), (3, 2), (4, 3)}
    assert before == [STATES.index("done")] * len(program)
    *shown, busy = zip(*accesses, strict=True)
    for rows, rows_of in zip(shown, (rows_read, rows_written), strict=True):
        assert [int(row) for row in rows if row != "–"] == np.concatenate([*map(rows_of, program)]).tolist()
    fed = sum(len(rows_fed(command)) for command in program if command.opcode == "matmul")
    assert sum(int(text.split()[0]) for text in busy) == CONFIG.size**2 * fed


@needs_zig
@pytest.mark.slow
def test_elements_hold_the_operands(show: Callable[..., Any]) -> None:
    """While it is busy: the word of its row, and the weight of its place in the tile."""
    run(network().program, made := memories(3))
    expected = []
    for number, command in enumerate(network().program):
        for at, row in enumerate(rows_fed(command) if command.opcode == "matmul" else []):
            x, y, kx, ky = (command.levels[name].trips for name in ("x", "y", "kx", "ky"))
            tile = at // (x * y)
            if exchanges(command):
                vector = made.scratchpad[rows_read(command)[tile - 1]] if tile else np.full(4, 0x3F80)
                expected.append((number, network().weights[row], vector[:, np.newaxis].repeat(4, axis=1)))
                continue
            first = command.values["weights"] + 4 * tile + 2 + 2 * (tile // (kx * ky))  # its last row
            expected.append((number, made.scratchpad[row], network().weights[first : first + 4][::-1]))
    page = opened(show, 900)
    for row, column in np.ndindex(4, 4):
        a, w = (f"run.at(cycle, 'mxu_array_row_{row}_pe_{column}_{name}')" for name in ("o_activation", "active"))
        held = f"run.cycles.map(cycle => [run.busy(cycle, {row}, {column}), {a}, {w}])"
        values = [each for each in page.evaluate(f"(run => {held})(openmxu.page.run)") if each[0] >= 0]
        assert values == [[number, words[row], weights[row, column]] for number, words, weights in expected]
