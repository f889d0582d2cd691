"""What the compiled engine takes for granted is what the unit is; and where it is not, that is found."""

import re

import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu_evidence.exploration.bugs import SEEDED_BUGS, Bug, seeded
from openmxu_sim.engines.compiled import wiring
from openmxu_sim.engines.compiled.source import constants, netlists, unit_source
from openmxu_sim.engines.compiled.wiring import WiringError, check_parts, check_wiring

from ...conftest import slow

E4F2 = FloatFormat.parse("e4f2")

UNITS = [
    slow(MxuConfig(rows=1, columns=1, depth=2)),
    slow(MxuConfig(rows=1, columns=3, depth=4, subnormals="ieee")),
    slow(MxuConfig(rows=3, columns=1, depth=16)),
    slow(MxuConfig(rows=5, columns=4, stages=6)),
    MxuConfig(rows=18, columns=3, stages=2, depth=8),  # in bands
    slow(MxuConfig(rows=2, columns=3, stages=7, operand=E4F2, source=E4F2)),
    slow(MxuConfig(rows=16, columns=16)),
]


@pytest.mark.parametrize("config", UNITS, ids=str)
def test_units(config: MxuConfig) -> None:
    cells, columns = config.rows * config.columns, config.columns
    # Emission, admission, two edges, the unit's own outputs.
    others = 4 + 11 + 2 * 4 + 3 + columns + 1
    assert check_wiring(config) == 7 * cells + 6 * columns + others
    assert check_parts(config) == 4


SMALL = MxuConfig(rows=2, columns=3, depth=4, stages=3)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("activation and weight are exchanged", "pe"),
        ("another mark clears NaN", "column"),
        ("a result that nobody takes is withdrawn", "emission"),
        slow("a beat of weights too many may enter", "admission"),
        ("a beat that waits is overwritten", "admission"),
    ],
)
def test_bugs_inside_parts(name: str, part: str) -> None:
    """They leave the wiring as it is, and are no business of its check."""
    unit = seeded(SEEDED_BUGS[name])
    assert check_wiring(SMALL, unit) > 0
    with pytest.raises(WiringError, match=f"^{part} must be in the unit what it is alone: bit "):
        check_parts(SMALL, unit)


BETWEEN_PARTS: dict[str, str | Bug] = {
    "pe(1, 0).i_activation[0] must be activation_edge.o_words[16] 3 cycles later, "
    "not activation_edge.o_words[16] 4 cycles later": "activations are skewed too far",
    "pe(0, 0).i_activation[0] must be activation_edge.o_words[0] 1 cycle later, "
    "not activation_edge.o_words[16] 1 cycle later": "rows of activations are reversed",
    "pe(0, 0).i_weight[0] must be weight_edge.o_words[0], "
    "not weight_edge.o_words[32]": "columns of weights are reversed",
    "pe(0, 0).i_psum[31] must be constant 0, not constant 1": "sums start from -0",
    "admission.i_freed must be in the unit": "places are never freed",
    "lane 0 of weight_edge must be in the unit what it is alone: "
    "bit 15 of register offered is not like bit 15 of choose": "words that wait are overwritten",
    "pe(0, 0).i_swap[0] must be admission.o_swaps[0], not admission.o_loads[0]": Bug(
        "array", "cell.i_swap.eq(swap)", "cell.i_swap.eq(load)"
    ),
    "pe(0, 1).i_activation[0] must be pe(0, 0).o_activation[0], not activation_edge.o_words[0] 1 cycle later": Bug(
        "array", "activation, swap, load = cell.o_activation", "activation, swap, load = activation"
    ),
    "column(0).i_control[0] must be admission.o_control[0] 7 cycles later, "
    "not admission.o_control[0] 6 cycles later": Bug(
        "mxu", "cycles = skew.base + config.array_latency", "cycles = config.array_latency"
    ),
    "column(0).i_control[0] must be admission.o_control[0] 7 cycles later, not the net i_control[0]": Bug(
        "skew", 'name=f"{name}_{cycle}")', 'name=f"{name}_{cycle}", init={"valid": 1} if name == "control" else None)'
    ),
    r"pe(0, 0).i_activation[0] must be activation_edge.o_words[0] 1 cycle later, not the net \w+ 1 cycle later": Bug(
        "skew",
        "m.d.sync += line.eq(Cat(value, line))",
        "\n    with m.If(value[0]):\n        m.d.sync += line.eq(Cat(value, line))",
    ),
    "admission.i_add[0] must be unit.activations__payload[66], not unit.activations__payload[68]": Bug(
        "mxu",
        'getattr(admission, f"i_{mark}").eq(self.activations.payload[mark])',
        'getattr(admission, f"i_{mark}").eq(self.activations.payload["emit" if mark == "add" else mark])',
    ),
    "column(0).i_fetch[0] must be emission.o_fetch[0], not the net bank.i_fetch": Bug(
        "accumulator", "column.i_fetch.eq(emission.o_fetch)", "column.i_fetch.eq(emission.o_fetch & self.o.ready)"
    ),
    "unit.results__payload[0] must be column(0).o_data[0], not column(2).o_data[0]": Bug(
        "accumulator", "self.o.payload.data[index].eq", "self.o.payload.data[self.config.columns - 1 - index].eq"
    ),
    r"lane 0 of weight_edge must be in the unit what it is alone: bit \d+ of input i_words is not like .*": Bug(
        "edge", "converter.i.eq(words[lane])", "converter.i.eq(words[-1])"
    ),
    "weight_edge.i_take[0] must be admission.o_weights_taken[0], not constant 1": Bug(
        "mxu", "edge.i_take.eq(taken)", "edge.i_take.eq(1)"
    ),
    "pe_0 must be in the unit": Bug("array", 'm.submodules[f"pe_{column}"]', 'm.submodules[f"pe_{column + 1}"]'),
    "column(1) must be in the unit, once": Bug(
        "accumulator", 'm.submodules[f"column_{index}"]', 'm.submodules[f"column_{2 * index}"]'
    ),
}
"""Messages about wrong connections, each with the seeded bug that makes it, or one of our own."""


@pytest.mark.parametrize("wiring", [*[*BETWEEN_PARTS][1::2], *map(slow, [*BETWEEN_PARTS][::2])])
def test_bugs_between_parts(wiring: str) -> None:
    bug = BETWEEN_PARTS[wiring]
    pattern = re.escape(wiring)
    for several in (r"\w+", r"\d+", ".*"):
        pattern = pattern.replace(re.escape(several), several)
    with pytest.raises(WiringError, match=f"^{pattern}$"):
        check_wiring(SMALL, seeded(SEEDED_BUGS[bug] if isinstance(bug, str) else bug))


def test_the_machine_code_has_the_numbers_that_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = constants(SMALL)
    text = unit_source(SMALL, netlists(SMALL))
    assert all(f"  {name} = {value},\n" in text for name, value in numbers.items())
    for name in ("ROW_STEP", "SKEW_BASE", "CONTROL_DELAY"):
        changed = numbers | {name: numbers[name] + 1}
        monkeypatch.setattr(wiring, "constants", lambda config, changed=changed: changed)
        with pytest.raises(WiringError, match=r"later, not .* later$"):
            check_wiring(SMALL)
