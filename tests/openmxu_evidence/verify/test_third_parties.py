"""Samples against SoftFloat, MPFR and XLA; and broken arithmetic, which each of them must see, and exhaustion too.

JAX is no part of the test environment: it takes 600 MB. Its place is taken by numpy, which shows that the
comparison works; the comparison with JAX itself is part of the thorough ``openmxu verify``.
"""

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openmxu.arith import Splitter
from openmxu.arith.datapath import product
from openmxu.arith.datapath import round as rounding
from openmxu.spec.forms import AREA, FPGA, SPEED
from openmxu_evidence.verify.exhaustion import Tally, additions, dot_products, parts, products_in_pairs, sweep
from openmxu_evidence.verify.mutation import mutants
from openmxu_evidence.verify.third_parties import (
    OPERATIONS,
    ORACLES,
    SUBJECTS,
    OracleNotFoundError,
    products_by_jax,
    sample,
)
from openmxu_sim import golden

from ...conftest import slow
from ...openmxu_sim.golden.berkeley import flushed

BOTH = pytest.mark.parametrize("oracle", ORACLES)


def test_progress_and_seeds() -> None:
    seen: list[tuple[int, int]] = []
    sample("golden", "fp32 -> bf16", "flush", "softfloat", 70_000, seed=3, progress=lambda *both: seen.append(both))
    assert seen == [(65_536, 70_000), (70_000, 70_000)]


@BOTH
@pytest.mark.parametrize(
    ("function", "name"),
    [("add", "fp32 + fp32"), ("add", "fp16 + fp16"), ("multiply", "bf16 x bf16 -> fp32"), ("convert", "fp32 -> bf16")],
)
def test_truncation_is_seen(function: str, name: str, oracle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results with their last bits missing: what comes of rounding one bit too early, towards zero."""
    kept = np.uint32(0xFFFFFFFF ^ (0x100 if name == "bf16 x bf16 -> fp32" else 1))  # 0x100: of an exact product
    right = getattr(golden, function)
    monkeypatch.setattr(golden, function, lambda *given, **mode: right(*given, **mode) & kept)
    tally = sample("golden", name, "ieee", oracle, 10_000)
    assert tally.wrong > 100
    assert "expected" in tally.first


@BOTH
@pytest.mark.parametrize("name", ["fp32 x fp32", "fp16 x fp16", "fp32 -> fp16"])
def test_underflow_decided_after_rounding_is_seen(name: str, oracle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model rounds with gradual underflow and flushes what is then subnormal."""
    operation = OPERATIONS[name]
    right = getattr(golden, operation.kind)

    def wrong(*arguments: Any, subnormals: str) -> Any:
        given = [flushed(each, operation.operand) if isinstance(each, np.ndarray) else each for each in arguments]
        return flushed(right(*given, subnormals="ieee"), operation.result)

    monkeypatch.setattr(golden, operation.kind, wrong)
    tally = sample("golden", name, "flush", oracle, 50_000)
    assert 0 < tally.wrong < 100


@BOTH
@pytest.mark.parametrize("name", ["fp16 + fp16", "fp32 -> bf16", slow("fp32 + fp32"), slow("bf16 x bf16 -> fp32")])
def test_the_other_mode_is_seen(name: str, oracle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates that keep subnormal numbers, checked as if they flushed them."""
    made = SUBJECTS["gates"]
    monkeypatch.setitem(SUBJECTS, "gates", lambda name, _: made(name, "ieee"))
    assert sample("gates", name, "flush", oracle, 10_000).wrong


def test_gates_that_truncate_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    _truncate(monkeypatch)
    monkeypatch.setitem(SUBJECTS, "gates", SUBJECTS["gates"].__wrapped__)  # these gates are not to be kept
    for oracle in ORACLES:
        assert sample("gates", "fp32 -> bf16", "flush", oracle, 10_000).wrong > 100


def _stand_in() -> Any:
    """What is used of JAX, by numpy: operations that flush subnormal operands and results."""

    def flushed(values: Any) -> Any:
        return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)

    def jit(function: Callable[..., Any]) -> Callable[..., Any]:
        return np.errstate(all="ignore")(lambda x, y: flushed(function(flushed(x), flushed(y))))

    return SimpleNamespace(jit=jit, devices=lambda kind: [kind], default_device=contextlib.nullcontext)


def test_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another order of summation is seen."""
    monkeypatch.setitem(sys.modules, "jax", _stand_in())
    seen: list[tuple[int, int]] = []
    tally = products_by_jax(20_000, progress=lambda *both: seen.append(both))
    assert not tally.wrong, tally.first
    assert tally.count >= 20_000
    assert seen[-1] == (20_000, 20_000)
    tally = products_by_jax(20_000, matmul=lambda a, b, **options: golden.matmul(a[:, ::-1], b[::-1], **options))
    assert tally.wrong > 1000
    assert "expected" in tally.first


@pytest.mark.parametrize(
    ("package", "extra", "compare"),
    [
        ("jax", "jax", lambda: products_by_jax(1)),
        ("softfloatpy", "verify", lambda: sample("golden", "fp32 + fp32", "ieee", "softfloat", 1)),
        ("gmpy2", "verify", lambda: sample("golden", "fp32 + fp32", "ieee", "mpfr", 1)),
    ],
)
def test_missing_package(
    package: str, extra: str, compare: Callable[[], Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    text = rf"^{package} is not installed: .*pip install .*\[{extra}\]'$"
    with pytest.raises(OracleNotFoundError, match=text):
        compare()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("golden", "fp32 + fp32", "no"), "subnormals must be 'flush' or 'ieee', not 'no'"),
        (("gates", "fp32 x fp32", "flush"), r"operation with gates must be one of fp32 \+ fp32, .*, not 'fp32 x fp32'"),
    ],
)
def test_messages(given: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample(*given, "mpfr", 1)


# Exhaustion; that it finds nothing in what is right is checked in test_checks.py


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
        slow(_truncate, partial(sweep, "fp16 + fp16", "flush"), ""),
        slow(_truncate, partial(sweep, "rest part of fp32", "flush"), "04808081: got 80, expected 81"),
        slow(_keep_subnormals, partial(sweep, "bf16 x bf16 -> fp32", "flush"), ""),
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
    tally = dot_products("e2f1", "e4f3", products_in_pairs, form=form)
    assert tally.wrong
    assert "got" in tally.first


def test_broken_parts_are_seen() -> None:
    drawn = mutants(Splitter(subnormals="flush"), 12, 0, flat=True)
    # What all parts pass through: it shows in the first of them.
    number = next(each for each in range(1, 13) if "converter.i[" in drawn.describe(each))
    assert parts("flush", change=lambda _: drawn.one(number)).wrong
