"""What the golden model says of wrong arguments: each is checked under its own name, and nothing is cast silently."""

import re
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.golden.formats import check_patterns

ONE, TWO = np.ones((1, 1), np.float32), np.ones((2, 2), np.float32)
PASSES = "precision must be 'default' for"
BROADCAST = "a and b must have shapes that broadcast, not"
MODES = "subnormals must be 'flush' or 'ieee', not "
TYPES = "must be an array of float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, not"
UNMASKED = "must be an array without a mask, not a masked array: .*"
WIDE = r"must be patterns of 16 bits \(bf16\), not"
NAMES = "source must be one of bf16, fp16, tf32, fp8_e5m2,.* fp32, or eXfY with 2 <= X <= 8 and 1 <= Y <= 23, not"
OTHERS = [np.ones((1, 1), dtype) for dtype in ("f8", "i4", "c8", ">f4", "U4", ml_dtypes.float8_e5m2fnuz)]
MASKED = [np.ma.masked_equal(TWO, 0), [np.ma.masked_equal(TWO[0], 1)] * 2]


def product(a: Any = ONE, b: Any = ONE, rows: Any = 1, **options: Any) -> partial[Any]:
    return partial(golden.matmul, a, b, rows=rows, **options)


def shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[partial[Any], type[Exception], str]:
    text = f"a and b must have shapes (M, K) and (K, N), not {a} and {b}"
    return product(np.ones(a, np.float32), np.ones(b, np.float32)), ValueError, re.escape(text)


def checked(patterns: Any) -> partial[Any]:
    return partial(check_patterns, patterns, golden.FORMATS["bf16"], "bits")


CASES: list[tuple[partial[Any], type[Exception], str]] = [
    (partial(golden.add, 0, 0, subnormals=None), ValueError, f"{MODES}None"),  # type: ignore[arg-type]
    (partial(golden.multiply, 0, 0, subnormals="FLUSH"), ValueError, f"{MODES}'FLUSH'"),
    (partial(golden.convert, 0, subnormals="x"), ValueError, f"{MODES}'x'"),
    (product(subnormals="x"), ValueError, f"{MODES}'x'"),
    (partial(golden.add, 0, 0, "fp64"), ValueError, "fmt must be one of .*, not 'fp64'"),
    (partial(golden.multiply, 0, 0, "fp64"), ValueError, "operand must be one of .*, not 'fp64'"),
    (partial(golden.multiply, 0, 0, "bf16", "fp64"), ValueError, "result must be one of .*, not 'fp64'"),
    (partial(golden.convert, 0, "fp64", "bf16"), ValueError, "source must be one of .*, not 'fp64'"),
    (partial(golden.convert, 0, "fp32", "fp64"), ValueError, "target must be one of .*, not 'fp64'"),
    (product(operand="fp64"), ValueError, "operand must be one of .*, not 'fp64'"),
    (product(accumulate="fp64"), ValueError, "accumulate must be one of .*, not 'fp64'"),
    (product(result="fp64"), ValueError, "result must be one of .*, not 'fp64'"),
    (partial(golden.find_format, 32), TypeError, "fmt must be the name of a format, not 32"),  # type: ignore[arg-type]
    *(
        (partial(golden.find_format, name, "source"), ValueError, f"{NAMES} {name!r}")
        for name in ("e1f3", "e9f3", "e5f0", "e5f24", "e05f3", "e5f3x", "float32", "", "BF16")
    ),
    # A pattern of another format is refused, not cut; values are not taken for patterns.
    (partial(golden.multiply, 0x3F800000, 0), ValueError, f"a {WIDE} 0x3f800000"),
    (partial(golden.add, 0, 256, "fp8_e4m3"), ValueError, r"b must be patterns of 8 bits \(fp8_e4m3\), not 0x100"),
    (partial(golden.convert, 1 << 16, "bf16", "fp32"), ValueError, f"bits {WIDE} 0x10000"),
    (partial(golden.from_bits, 1 << 32), ValueError, r"bits must be patterns of 32 bits \(fp32\), not 0x100000000"),
    (checked([0, -1]), ValueError, f"bits {WIDE} -0x1"),
    (checked(np.array([3, 0xFFFF_FFFF], np.uint32)), ValueError, f"bits {WIDE} 0xffffffff"),
    (partial(golden.add, 1.0, 0), TypeError, "a must be bit patterns in an integer array, not float64"),
    (partial(golden.convert, 1.0), TypeError, "bits must be bit patterns in an integer array, not float64"),
    (checked(np.zeros(3, np.float32)), TypeError, "bits must be bit patterns in an integer array, not float32"),
    (checked([True]), TypeError, "bits must be bit patterns in an integer array, not bool"),
    (checked("7FC0"), TypeError, "bits must be bit patterns in an integer array, not .*"),
    (partial(golden.add, [0, 0], [0] * 3), ValueError, rf"{BROADCAST} \(2,\) and \(3,\)"),
    *(shapes(*both) for both in (((2, 3), (4, 5)), ((3,), (3, 2)), ((2, 3), (3,)), ((1, 2, 3), (3, 2)), ((), ()))),
    (product(rows=0), ValueError, "rows must be an integer >= 1, not 0"),
    (product(rows=-1), ValueError, "rows must be an integer >= 1, not -1"),
    (product(rows=2.0), TypeError, r"rows must be an integer >= 1, not 2\.0"),
    (partial(model.matmul, ONE, ONE, rows=1, threads=0), ValueError, "threads must be an integer >= 1, not 0"),
    (partial(model.matmul, ONE, ONE, rows=1, threads="2"), TypeError, "threads must be an integer >= 1, not '2'"),
    (product(precision="low"), ValueError, "precision must be 'default', 'high', 'highest', 'exact9', not 'low'"),
    (product(operand="fp16", precision="high"), ValueError, f"{PASSES} operands in fp16, not 'high'"),
    (product(accumulate="bf16", precision="high"), ValueError, f"{PASSES} sums in bf16, not 'high'"),
    *((product(a=other), TypeError, f"a {TYPES} {other.dtype}") for other in OTHERS),
    *((product(b=other), TypeError, f"b {TYPES} {other.dtype}") for other in OTHERS),
    *((partial(golden.to_bits, other), TypeError, f"array {TYPES} {other.dtype}") for other in OTHERS),
    *((product(masked, TWO), TypeError, f"a {UNMASKED}") for masked in MASKED),
    *((product(TWO, masked), TypeError, f"b {UNMASKED}") for masked in MASKED),
    (partial(golden.convert, np.ma.masked_equal([1, 2], 1)), TypeError, f"bits {UNMASKED}"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES)
def test_messages(call: partial[Any], error: type[Exception], message: str) -> None:
    """The engine that has the golden model's bits has its words, too."""
    for function in (golden.matmul, model.matmul) if call.func == golden.matmul else (call.func,):
        with pytest.raises(error, match=f"^{message}$"):
            function(*call.args, **call.keywords)
