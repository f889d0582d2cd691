"""The systolic array: a row of processing elements, and rows on top of each other.

::

                        column 0        1         2        weights and sums enter a cycle later in each column
                            │           │         │
    activation, row 0 ───▶ pe ──────▶ pe ─────▶ pe
                            │           │         │
    row 1, row_step later ▶ pe ──────▶ pe ─────▶ pe
                            │           │         │
    row 2, row_step later ▶ pe ──────▶ pe ─────▶ pe
                            ▼           ▼         ▼        sums leave a cycle later in each column

Invariant: beat n's activation is registered in row r and column c in cycle n + r · row_step + c after it enters row
0, with the marks beside it; the sum from above needs row_step cycles for each row and starts a cycle later in each
column. So both meet in every element, and nothing in the array waits or carries a valid bit.
"""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.unit.hierarchy import repeat
from openmxu.unit.pe import ProcessingElement

_BAND = 16
"""Rows of a band: 128 rows are 8 equal bands of 16 equal rows."""

# Buses are plain vectors, lane 0 lowest, not array layouts: Amaranth would name every element of a layout in every
# module, which would be most of the text and of the time at 128x128.


def processing_element(config: MxuConfig) -> ProcessingElement:
    """A new processing element of a unit."""
    return ProcessingElement(
        config.operand, weight=config.weight, subnormals=config.subnormals, stages=config.stages, terms=config.terms
    )


class Row(wiring.Component):
    """C processing elements side by side: activations and marks enter at the left and move right.

    Latency: that of the processing element, and one cycle more for each column.
    Throughput: one activation per cycle. Back-pressure: none.

    Parameters
    ----------
    config
        The unit that the row is part of.

    Members
    -------
    i_activation : In(terms · word_width)
    i_swap, i_load : In(1)
    i_weights, o_weights : columns · weight_width
        Column c is expected, and delivered, c cycles after column 0.
    i_psums, o_psums : columns · 32
        Likewise.
    """

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        weights = config.columns * config.weight_width
        psums = config.columns * FP32.width
        super().__init__(
            {
                "i_activation": In(config.terms * config.word_width),
                "i_swap": In(1),
                "i_load": In(1),
                "i_weights": In(weights),
                "o_weights": Out(weights),
                "i_psums": In(psums),
                "o_psums": Out(psums),
            }
        )

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"row_{self.config.cell_name}_c{self.config.columns}"

    def elaborate(self, platform: object) -> Module:
        """A chain of processing elements."""
        m = Module()
        activation, swap, load = self.i_activation, self.i_swap, self.i_load
        cells = repeat(platform, lambda: processing_element(self.config), self.config.columns)
        for column, cell in enumerate(cells):
            m.submodules[f"pe_{column}"] = cell
            m.d.comb += [
                cell.i_activation.eq(activation),
                cell.i_swap.eq(swap),
                cell.i_load.eq(load),
                cell.i_weight.eq(self.i_weights.word_select(column, len(cell.i_weight))),
                cell.i_psum.eq(self.i_psums.word_select(column, len(cell.i_psum))),
            ]
            activation, swap, load = cell.o_activation, cell.o_swap, cell.o_load
        m.d.comb += [
            self.o_weights.eq(Cat(cell.o_weight for cell in cells)),
            self.o_psums.eq(Cat(cell.o_psum for cell in cells)),
        ]
        return m


class SystolicArray(wiring.Component):
    """R x C weight-stationary array, ``o_psums[c] = i_psums[c] + Σ_r activation[r] · weight[r][c]``.

    r ascends: each row adds its product to the partial sum from above.

    Arrays can be stacked; a tall one is a stack of bands, as a band's buses are then written once.

    With several terms a row of processing elements adds as many products at once: it stands for as many rows, and has
    one swap and one load mark.

    Latency: :attr:`latency` cycles from row 0's activation to column 0's sum. The activations of the processing
    elements' row r are expected r · ``config.row_step`` cycles after row 0's, column c's sum comes out c cycles after
    column 0's.
    Throughput: one sum per column and cycle. Back-pressure: none.

    Parameters
    ----------
    config
        The unit that the array is part of.

    Members
    -------
    i_activations : In(rows · word_width)
    i_swaps : In(element_rows)
        With the first activation of a tile, row by row as skewed as the activations.
    i_loads : In(element_rows)
        Rows whose shadow registers take over the weight above them; not skewed.
    i_weights : In(columns · weight_width)
        Into row 0; column c expected c cycles after column 0.
    o_weights : Out(columns · weight_width)
        The last row's shadow registers.
    i_psums : In(columns · 32)
        Into row 0, element_rows · ``config.row_step`` cycles before their sums; +0 if the array is used alone.
    o_psums : Out(columns · 32)
    """

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        weights = config.columns * config.weight_width
        psums = config.columns * FP32.width
        super().__init__(
            {
                "i_activations": In(config.rows * config.word_width),
                "i_swaps": In(config.element_rows),
                "i_loads": In(config.element_rows),
                "i_weights": In(weights),
                "o_weights": Out(weights),
                "i_psums": In(psums),
                "o_psums": Out(psums),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from row 0's activation to column 0's sum."""
        return self.config.array_latency

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"array_{self.config.cell_name}_r{self.config.rows}_c{self.config.columns}"

    def elaborate(self, platform: object) -> Module:
        """Rows, or bands of rows, on top of each other."""
        m = Module()
        if self.config.element_rows <= _BAND:
            parts = [
                (f"row_{index}", index, 1, row, (row.i_activation, row.i_swap, row.i_load))
                for index, row in enumerate(repeat(platform, lambda: Row(self.config), self.config.element_rows))
            ]
        else:
            parts = [
                (f"band_{start // _BAND}", start, count, band, (band.i_activations, band.i_swaps, band.i_loads))
                for start, count, band in self._bands(platform)
            ]
        width = self.config.terms * self.config.word_width
        weights, psums = self.i_weights, self.i_psums
        for name, start, count, part, (activations, swaps, loads) in parts:
            m.submodules[name] = part
            m.d.comb += [
                activations.eq(self.i_activations[start * width : (start + count) * width]),
                swaps.eq(self.i_swaps[start : start + count]),
                loads.eq(self.i_loads[start : start + count]),
                part.i_weights.eq(weights),
                part.i_psums.eq(psums),
            ]
            weights, psums = part.o_weights, part.o_psums
        m.d.comb += [self.o_weights.eq(weights), self.o_psums.eq(psums)]
        return m

    def _bands(self, platform: object) -> list[tuple[int, int, Any]]:
        """Bands with their first rows and heights: as many full ones as there are, and the rest."""
        terms = self.config.terms
        full, rest = divmod(self.config.element_rows, _BAND)
        heights = [_BAND] * full
        bands = [*repeat(platform, lambda: SystolicArray(replace(self.config, rows=_BAND * terms)), full)]
        if rest:
            heights.append(rest)
            bands += repeat(platform, lambda: SystolicArray(replace(self.config, rows=rest * terms)), 1)
        return [(index * _BAND, heights[index], band) for index, band in enumerate(bands)]
