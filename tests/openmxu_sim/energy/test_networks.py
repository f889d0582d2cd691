"""Energies of networks: parts measured on a library of our own, put together as the page of units says."""

import pytest

from openmxu.area.subject.designs import register_bits
from openmxu.area.subject.points import ADDER, CONVERTER, PROCESSING_ELEMENT
from openmxu.area.target.liberty import parse_library
from openmxu_sim.energy.inference import with_energies
from openmxu_sim.energy.meter import measure_one
from openmxu_sim.networks.costs import Costs, Ledger
from openmxu_sim.networks.numerics import Numerics, Work

from ...conftest import needs_compiler
from .library import library
from .test_meter import result

pytestmark = needs_compiler

_MEASURED = "where energies are measured"


def costs(numerics: Numerics, stages: int = 1) -> Costs:
    ledger = Ledger(numerics.unit(3, stages), numerics)
    ledger.note(Work("mm", 1, 5, 4, 3, "layer"))
    return ledger.costs()


@pytest.mark.parametrize("terms", [1, 2])
def test_of_measured_parts(terms: int) -> None:
    """A 2x3 unit of fp8: each part as often as it is there in a beat of 6 products."""
    told: list[str] = []
    given = costs(Numerics("fp8_e4m3", rows=2, terms=terms))
    [found] = with_energies([given], parse_library(library(), "round.lib"), told.append)
    elements = {1: 6, 2: 3}[terms]
    element = measure_one(result(PROCESSING_ELEMENT, "fp8_e4m3", terms=terms), "normal")
    idle = measure_one(element.result, "idle")
    adder, converter = (measure_one(result(*part), "normal") for part in ((ADDER, "fp32"), (CONVERTER, "fp8_e4m3")))
    bits, counted = sum(register_bits(found.config)), element.result.area
    assert counted is not None
    a_bit = (element.clock + element.flip_flops) / counted.flip_flops
    product = (elements * element.total + 5 * converter.total + 3 * adder.total + bits * a_bit) / 6
    still = elements * idle.total / 6 + bits * idle.clock / counted.flip_flops / 6
    expected = 5 * 4 * 3 * product + (6 * found.cycles - 5 * 4 * 3) * still
    assert found.millijoules == pytest.approx(expected / 1e9)
    assert any("pJ a cycle" in line for line in told)


@pytest.mark.parametrize(
    ("numerics", "stages", "error", "text"),
    [
        (Numerics(accumulate="bf16"), 1, ValueError, f"accumulate must be fp32 {_MEASURED}, not 'bf16'$"),
        (Numerics(), 3, ValueError, f"stages must be 1 {_MEASURED}, not '3'$"),
        (Numerics(subnormals="ieee"), 1, ValueError, f"subnormals must be flush {_MEASURED}, not 'ieee'$"),
        (Numerics(), 1, OSError, r"liberty must be a readable file, not 'nowhere\.lib': No such file"),
    ],
)
def test_messages(numerics: Numerics, stages: int, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        with_energies([costs(numerics, stages)], "nowhere.lib")
