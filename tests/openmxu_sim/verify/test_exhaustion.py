"""Broken arithmetic is seen; what is right is checked in test_checks.py."""

from collections.abc import Callable
from functools import partial

import pytest

from openmxu.arith import Splitter
from openmxu.arith.datapath import product
from openmxu.arith.datapath import round as rounding
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu.yosys.mutation import mutants
from openmxu_sim.verify.exhaustion import Tally, additions, biased_products, dot_products, parts, sweep

from ...conftest import slow


def _truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rounding._nearest_even
    monkeypatch.setattr(rounding, "_nearest_even", lambda fmt, bits: (right(fmt, bits)[0], 0 & bits[0]))


def _keep_subnormals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands are unpacked as in the other mode."""
    right = product.unpack
    monkeypatch.setattr(product, "unpack", lambda m, bits, fmt, _, *, name: right(m, bits, fmt, "ieee", name=name))


@pytest.mark.parametrize(
    ("break_", "look", "first"),
    [
        (_truncate, partial(sweep, "fp32 -> bf16", "flush"), "00808001: got 80, expected 81"),
        (_truncate, partial(sweep, "fp16 + fp16", "flush"), ""),
        (_truncate, partial(sweep, "rest part of fp32", "flush"), "04808081: got 80, expected 81"),
        (_keep_subnormals, partial(sweep, "bf16 x bf16 -> fp32", "flush"), ""),
        (_truncate, partial(additions, "flush", 0, 10**5), ""),
    ],
)
def test_broken_arithmetic_is_seen(
    break_: Callable[[pytest.MonkeyPatch], None], look: Callable[[], Tally], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_(monkeypatch)
    tally = look()
    assert tally.wrong
    assert first in tally.first


@pytest.mark.parametrize("form", [AREA, slow(SPEED), slow(FPGA)])
def test_broken_sums_of_products_are_seen(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties of totals that are inverted."""
    right = rounding._nearest_even
    monkeypatch.setattr(rounding, "_one_more_to_nearest_even", lambda fmt, bits: right(fmt, bits)[1])
    tally = dot_products("bf16", "fp32", partial(biased_products, 1), form=form)
    assert tally.wrong
    assert "got" in tally.first


def test_broken_parts_are_seen() -> None:
    drawn = mutants(Splitter(subnormals="flush"), 12, 0, flat=True)
    # What all parts pass through: it shows in the first of them.
    number = next(each for each in range(1, 13) if "converter.i[" in drawn.describe(each))
    assert parts("flush", change=lambda _: drawn.one(number)).wrong
