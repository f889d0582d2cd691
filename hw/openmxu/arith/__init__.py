"""Floating-point arithmetic in hardware: rigid pipelines, and streams around them."""

from openmxu.arith.adder import Adder
from openmxu.arith.block_multiply_add import BlockMultiplyAdd
from openmxu.arith.converter import Converter
from openmxu.arith.datapath.product import SignificandProduct
from openmxu.arith.dot_product_add import DotProductAdd
from openmxu.arith.multiplier import Multiplier
from openmxu.arith.multiply_add import MultiplyAdd
from openmxu.arith.recoder import Recoder
from openmxu.arith.splitter import Splitter
from openmxu.arith.streamed import Streamed

__all__ = [
    "Adder",
    "BlockMultiplyAdd",
    "Converter",
    "DotProductAdd",
    "Multiplier",
    "MultiplyAdd",
    "Recoder",
    "SignificandProduct",
    "Splitter",
    "Streamed",
]
