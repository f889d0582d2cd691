"""Where bf16 stands, by numbers that can be followed by hand."""

from dataclasses import replace

from openmxu.area import Report, Result
from openmxu.area.chapters.features import standing
from openmxu.area.subject.block_elements import block_point, other_points
from openmxu.area.subject.points import PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Area
from openmxu.cells.liberty import generic_library
from openmxu.export.verilog import to_rtlil
from openmxu.spec.formats import BF16
from openmxu.unit.block_element import BlockElement

from ..conftest import GENERIC


def test_ratios() -> None:
    """Relative to as many terms of bf16, over two libraries; what was not measured is empty."""
    designs = [point(PROCESSING_ELEMENT, BF16), block_point("int8", 1)]
    designs += [point(PROCESSING_ELEMENT, BF16, terms=4), block_point("nvfp4", 4)]
    results = [
        Result(design, replace(GENERIC, name=library), Area(area, area, 0.0, cell_area=area), "", "", "")
        for library, areas in (("one", (1000.0, 400.0, 3000.0, 1500.0)), ("two", (2000.0, 900.0, 4000.0, 2400.0)))
        for design, area in zip(designs, areas, strict=True)
    ]
    doubtful = replace(GENERIC, library=replace(generic_library(), doubt="it says so"))
    results += [replace(each, target=doubtful, area=Area(7.0, 7.0, 0.0)) for each in results[:2]]
    assert standing(Report("", results)).rows == [
        ["bf16", "16", "1,000 to 2,000 GE", "750 to 1,000 GE", ""],
        ["int8", "8", "0.40 to 0.45", "", ""],
        ["nvfp4", "4.5", "", "0.50 to 0.60", ""],
    ]
    assert not standing(Report("", results[:2]))


def test_points_are_their_elements() -> None:
    """A point's RTLIL is that of the element that it names."""
    designs = {design.name: design for design in other_points()}
    assert len(designs) == 26
    for numbers, bits, terms in (("nvfp4", 4, 8), ("int8", 8, 1)):
        design = designs[f"element of blocks {bits} x {bits}, {numbers}, {terms} term{'s' * (terms > 1)}"]
        assert design.rtlil() == to_rtlil(BlockElement(numbers, terms=terms), name=design.top)
        assert (design.is_for(GENERIC.recipe), design.is_for("speed")) == (True, False)
    names = [name for name, design in designs.items() if design.options.get("numbers") == "mxfp8_e4m3"]
    assert names == [f"element of blocks 4 x 4, mxfp8_e4m3, {terms} terms" for terms in (4, 8)]
