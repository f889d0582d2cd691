"""Several terms at once: golden model, engines, and packages for frameworks, against integers of Python."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles
from openmxu_evidence.verify.exact_sums import exact_sums
from openmxu_sim import golden, simulate
from openmxu_sim.engines import model
from openmxu_sim.engines.compiled.wiring import check_parts, check_wiring

from ..bits import matrices, same_bits
from ..conftest import compiled, slow
from ..several_terms import drawn

_FRAMEWORKS = {
    name: (import_module(name), import_module(f"openmxu_sim.{name}")) for name in ("torch", "jax") if find_spec(name)
}
_1, _NAN, _INF = 0x3F80, 0x7FC0, 0x7F80


@pytest.mark.parametrize(
    ("operand", "result", "terms"),
    [
        *(("bf16", "fp32", terms) for terms in (2, 4, 8)),
        ("fp8_e4m3", "fp32", 4),
        ("fp16", "bf16", 4),
        ("fp32", "fp32", 2),
        ("e2f1", "e4f3", 2),
    ],
)
def test_the_golden_model_has_the_bits_of_integers(operand: str, result: str, terms: int) -> None:
    c, a, b = drawn(operand, result, terms, 1000, seed=terms)
    expected = exact_sums(c, a, b, operand, result)
    same_bits(golden.dot_product_add(c, a, b, operand, result), expected, c, *a.T, *b.T, operand="")


@pytest.mark.parametrize(
    ("c", "a", "b", "expected"),
    [
        (0x0000_0000, [0x0000] * 2, [0x8000] * 2, 0x0000_0000),  # +0 and -0
        (0x8000_0000, [0x0000] * 2, [0x8000] * 2, 0x8000_0000),  # -0 where all are: padding is neutral
        (0x3F80_0000, [_1, 0x0000], [0xBF80, _INF], 0x7FC0_0000),  # 0 times infinity
        (0x3F80_0000, [_INF, _1], [_1, 0xBF80], 0x7F80_0000),
        (0xFF80_0000, [_INF, _1], [_1, _1], 0x7FC0_0000),  # infinities of both signs
        (0x3F80_0000, [_NAN, _1], [_1, _1], 0x7FC0_0000),
        (0x0000_0000, [0x7F00, 0xFF00], [0x7F00, 0x7F00], 0x0000_0000),  # 2^254 - 2^254: only operands are infinite
        (0x7F7F_FFFF, [0x7300, 0x0000], [_1, _1], 0x7F80_0000),  # 2^103, half of the last place: overflow
        (0x0000_0000, [0x0080, 0x0000], [0x3F7F, _1], 0x0000_0000),  # (1 - 2^-8) · 2^-126 is flushed
        (0x0080_0000, [0x0080, 0x0000], [0xB300, _1], 0x0080_0000),  # 2^-126 (1 - 2^-25) is not: rounded first
        (0x4D00_0000, [0x3F80] * 2, [0x3F00, 0x3F80], 0x4D00_0000),  # 2^27 + 1/2 + 1: both are cut
        (0x4D00_0000, [0x4080] * 2, [_1] * 2, 0x4D00_0000),  # 2^27 + 4 + 4: a tie
        (0x4D00_0000, [0x4100, _1], [_1] * 2, 0x4D00_0000),  # 2^27 + 8 + 1: as the 1 is cut
        (0x4D00_0000, [0x4100, 0x4000], [_1] * 2, 0x4D00_0001),  # 2^27 + 8 + 2
        (0x4D00_0000, [0x4080] * 2, [0x3FC0] * 2, 0x4D00_0001),  # 2^27 + 12
    ],
)
def test_worked_examples(c: int, a: list[int], b: list[int], expected: int) -> None:
    same_bits(golden.dot_product_add([c], [a], [b]), np.array([expected], np.uint32), c, *a, *b, operand="")


def test_a_product_is_made_of_blocks() -> None:
    """Tiles of R rows, blocks of N within them, the last of each as long as there are operands."""
    a, b = (golden.to_bits(side) >> 16 for side in matrices(3, 27, 2, 4))
    sums = [np.zeros((3, 2), np.uint32) for _ in range(2)]
    for start in range(0, 27, 4):
        block, tile = slice(start, start + 4), start // 16
        sums[tile] = golden.dot_product_add(sums[tile], a[:, np.newaxis, block], b[block].T)
    total = golden.add(*sums)
    got = golden.matmul(*(golden.from_bits(side << np.uint32(16)) for side in (a, b)), rows=16, terms=4)
    same_bits(golden.to_bits(got), total)


@pytest.mark.parametrize(("kind", "scale"), [("all", 1.0), ("normal", 1.0), ("normal", 2.0**-60), ("uniform", 1.0)])
@pytest.mark.parametrize(
    "options",
    [
        {"rows": 8, "terms": 2},
        {"rows": 12, "terms": 4, "precision": "highest"},
        {"rows": 24, "terms": 8},
        {"rows": 8, "terms": 8, "operand": "fp8_e4m3"},
        {"rows": 4, "terms": 4, "operand": "fp32"},
        {"rows": 4, "terms": 2, "accumulate": "bf16"},
    ],
)
def test_the_engine_model(options: dict[str, Any], kind: str, scale: float) -> None:
    """With zeros everywhere, and blocks of nothing but zeros; sums that underflow where products are near 2^-120."""
    a, b = matrices(30, 45, 37, 5, kind)
    if scale != 1.0:
        a, b = (np.float32(scale) * np.copysign(1 + np.abs(side) % 1, side) for side in (a, b))
    a[::3, ::2] = 0
    a[1::3, 16:32] = 0
    same_bits(golden.to_bits(model.matmul(a, b, **options)), golden.to_bits(golden.matmul(a, b, **options)))


@pytest.mark.parametrize("engine", [slow("pysim"), compiled("compiled")])
@pytest.mark.parametrize(
    ("rows", "columns", "stages", "terms", "stalls"), [(8, 2, 1, 4, None), (4, 3, 4, 2, 1), slow(8, 1, 6, 2, None)]
)
def test_engines_with_a_clock(
    rows: int, columns: int, stages: int, terms: int, stalls: int | None, engine: str
) -> None:
    a, b = matrices(9, 2 * rows - 3, 3, 6)
    config = MxuConfig(rows=rows, columns=columns, stages=stages, terms=terms)
    product = simulate(a, b, unit=config, engine=engine, stalls=stalls)
    same_bits(golden.to_bits(product.result), golden.to_bits(golden.matmul(a, b, rows=rows, terms=terms)))
    if stalls is None:
        assert product.statistics.cycles == cycles(config, 9, 2 * rows - 3, 3)


def test_the_compiled_unit_is_wired_as_the_netlist_is() -> None:
    config = MxuConfig(rows=36, columns=2, terms=2, stages=4, status=True)
    assert check_wiring(config) > 0
    assert check_parts(config) > 0


@pytest.mark.parametrize("name", _FRAMEWORKS)
def test_frameworks(name: str) -> None:
    framework, package = _FRAMEWORKS[name]
    a, b = matrices(5, 40, 7, 7, "normal")
    make = framework.tensor if name == "torch" else framework.numpy.asarray
    got = np.asarray(package.matmul(make(a), make(np.ascontiguousarray(b)), rows=16, terms=4))
    same_bits(golden.to_bits(got), golden.to_bits(golden.matmul(a, b, rows=16, terms=4)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 6, "terms": 4}, "rows must be a multiple of terms=4, not 6"),
        ({"rows": 8, "terms": 3}, "terms must be 1, 2, 4(,| or) 8(, 16 or 32)?, not 3"),
        ({"rows": 8, "terms": 2, "subnormals": "ieee"}, "terms must be 1 with gradual underflow, .*, not 2"),
    ],
)
def test_messages(options: dict[str, Any], message: str) -> None:
    for function in (simulate, golden.matmul, model.matmul):
        with pytest.raises(ValueError, match=f"^{message}"):
            function(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), **options)
