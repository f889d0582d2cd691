"""Texts of an exported bench: templates, and the files of beats."""

from collections.abc import Mapping
from importlib.resources import files

from openmxu.export.bench import Export
from openmxu.runtime.extras import release
from openmxu.unit.axi import AxiMxu
from openmxu_sim.exported.beats import Beats

BEATS = ("weights.hex", "activations.hex", "results.hex")
"""Files of beats."""

_ABOVE = {
    "weights.hex": "from the top{part}last, {columns} words of {source}, word 0 lowest",
    "activations.hex": "from the top{part}keep, emit, clear_nan, add, last, first, {rows} words of {source}, "
    "word 0 lowest",
    "results.hex": "from the top: last, {columns} words of {result}, word 0 lowest",
}


def is_on_bus(export: Export) -> bool:
    """Whether the unit has AXI ports."""
    return isinstance(export.component, AxiMxu)


def fill(template: str, values: Mapping[str, object]) -> str:
    """Return a template of this package with each ``@NAME@`` in it replaced."""
    text = files(__package__).joinpath(template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def fill_common(export: Export) -> dict[str, object]:
    """Return the values that all templates have in them."""
    return {"NAME": export.name, "WRITTEN": f"Written by OpenMXU {release()}: {export.command}"}


def write_beats(beats: Beats) -> list[str]:
    """Return the text of each of :data:`BEATS`, for ``$readmemh``: a beat a line."""
    config = beats.config
    values = {
        "part": ": part (3 bits), " if config.splitter else ": ",
        "rows": config.rows,
        "columns": config.columns,
        "source": config.source,
        "result": config.result,
    }
    texts = []
    streams = (beats.weights, beats.activations, beats.results)
    for name, width, stream in zip(BEATS, beats.widths, streams, strict=True):
        digits = -(-width // 4)
        head = f"// {len(stream)} beats of {width} bits: {_ABOVE[name].format(**values)}"
        texts.append("\n".join([head, *(f"{beat:0{digits}x}" for beat in stream), ""]))
    return texts
