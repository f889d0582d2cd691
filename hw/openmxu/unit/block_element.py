"""Processing elements of integers and of numbers in blocks, to compare with: one scale for all terms of a word."""

from openmxu.arith import BlockMultiplyAdd, DotProductAdd
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8
from openmxu.spec.stages import STAGES, check_stages, check_terms
from openmxu.unit.pe import Cell


class BlockElement(Cell):
    """A cell of an array of other numbers, to compare with: integers, or numbers in blocks with scales.

    As :class:`~openmxu.unit.pe.ProcessingElement`, but one word has the numbers of all terms and their scale, of
    weights, too. Units are not built of it.

    Parameters
    ----------
    block
        A name from :data:`~openmxu.spec.blocks.BLOCK_FORMATS`, or ``"mxfp8_e4m3"``.
    terms
        Products that are added at once: 1, 2, 4 or 8; of mxfp8_e4m3 2, 4 or 8.
    stages
        Registers from product to sum, as of :class:`~openmxu.arith.BlockMultiplyAdd`, 1 at least.

    Members
    -------
    i_activation, o_activation, i_weight, o_weight : terms · width + scale_width
        Numbers, term 0 lowest, below their scale.
    i_swap, o_swap, i_load, o_load : 1
    i_psum, o_psum : 32
        Integers for int8, else fp32.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(self, block: str, *, terms: int = 4, stages: int = 1) -> None:
        widths = {MXFP8.name: (MXFP8.width, 8)} | {x.name: (x.width, x.scale_width) for x in BLOCK_FORMATS.values()}
        if block not in widths:
            raise ValueError(f"block must be one of {', '.join(widths)}, not {block!r}")
        self.block, self.terms = block, check_terms(terms, "flush")
        if block == MXFP8.name and terms == 1:
            raise ValueError(f"terms must be 2, 4 or 8 of {block}, not 1")
        self.stages = check_stages(stages, range(1, 3) if block == "int8" else STAGES)
        number, scale = widths[block]
        self.scaled = scale > 0
        word = self.terms * number + scale
        super().__init__(word, word)

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"pe_{self.block}_t{self.terms}_s{self.stages}"

    def _arithmetic(self) -> BlockMultiplyAdd | DotProductAdd:
        """A new multiply-add."""
        if self.block == MXFP8.name:
            return DotProductAdd(MXFP8, terms=self.terms, stages=self.stages, scaled=True)
        return BlockMultiplyAdd(BLOCK_FORMATS[self.block], terms=self.terms, stages=self.stages)
