"""The golden model: the definition of every bit of an OpenMXU result, in numpy.

This package is the oracle the hardware and every engine are compared with, bit for bit. It shares no code
with them and has its own table of formats. It works on values, not on guard, round and sticky bits: a
pattern is decoded exactly into binary64, the exact result is formed there, and one function rounds it.

========================  ============================================================================
:func:`convert`           one format into another
:func:`multiply`          two operands of one format, the product in another
:func:`add`               two numbers of one format, the sum in the same one
:func:`dot_product_add`   several products and a sum, added at once with one rounding
:func:`matmul`            matrices, summed in the order the hardware sums
:func:`to_bits`           the fp32 patterns of an array in one of the types of :data:`DTYPES`
:func:`from_bits`         the float32 array of fp32 patterns
:func:`find_format`       the :class:`Format` of a name
:func:`to_array`          the array of a format's patterns, in numpy's type for it
========================  ============================================================================
"""

from openmxu_sim.golden.arithmetic import add, convert, dot_product_add, multiply
from openmxu_sim.golden.formats import DTYPES, FORMATS, Format, check_unmasked, find_format
from openmxu_sim.golden.matrix import from_bits, matmul, to_array, to_bits
from openmxu_sim.golden.setup import check_count

__all__ = [
    "DTYPES",
    "FORMATS",
    "Format",
    "add",
    "check_count",
    "check_unmasked",
    "convert",
    "dot_product_add",
    "find_format",
    "from_bits",
    "matmul",
    "multiply",
    "to_array",
    "to_bits",
]
