"""Designs of others beside ours, for people."""

from collections.abc import Iterator, Sequence

from openmxu.area.finding.comparison import ComparedDesign, ComparedTarget, Comparison, Figures
from openmxu.area.target.targets import RECIPES
from openmxu.pages.tables import Marked, escaped, inert, reason, table


def to_markdown(peers: Comparison) -> str:
    """A comparison as Markdown: a table for each target, a list of the designs, and the failures."""
    blocks = [
        f"Measured with {_tools(peers)}. Every design was read from Verilog, ours after export, and mapped by the same "
        "script. Areas are those of combinational gates, before placing and routing; flip-flops have columns of their "
        "own. Delays are those of the longest path between ports and registers, with the loads of gates and the "
        "library's default wire load, if it has one. Ratios are relative to our part, the first row of each group: "
        "above 1 the other design is larger or slower.",
        *(block for library in _with_recipes(peers) for block in _best(peers, library)),
        *(block for target in peers.targets for block in _target(peers, target)),
        "### The designs",
        table(
            ["design", "from", "version", "licence", "what it is"],
            [[row.name, row.url, row.version, row.licence, row.notes] for row in peers.designs if row.against],
            words=5,
        ),
    ]
    failed = peers.failed
    if failed:
        blocks += ["### Not measured", "\n".join(f"- {inert(f'{name}: {reason(error)}')}" for name, error in failed)]
    notes = {f"- {inert(f'{e.design} on {e.target}: {reason(e.note)}')}" for e in peers.figures if e.note}
    if notes:
        blocks += ["### Without a delay", "\n".join(sorted(notes))]
    return "\n\n".join(blocks) + "\n"


def _tools(peers: Comparison) -> str:
    timing = sorted({target.timing for target in peers.targets if target.timing})
    return "; ".join([f"OpenMXU {peers.tools['OpenMXU']}", peers.tools["Yosys"], *timing])


def _with_recipes(peers: Comparison) -> list[list[ComparedTarget]]:
    """The targets of each library with several recipes."""
    libraries = dict.fromkeys(target.sha256 for target in peers.targets if target.sha256)
    groups = [[target for target in peers.targets if target.sha256 == library] for library in libraries]
    return [group for group in groups if len(group) > 1]


def _best(peers: Comparison, targets: Sequence[ComparedTarget]) -> Iterator[str]:
    """Each design with the recipe that suits it most: a recipe that was chosen for ours may not suit others."""
    nand2 = targets[0].nand2_area
    yield f"### {targets[0].name}, each design with its best recipe"
    yield (
        f"The smallest combinational area and the shortest delay of {len(targets)} recipes, with the recipe of each. "
        f"One GE is {nand2:g} in the unit of the library."
    )
    areas, delays = (
        {design.name: least(peers, design.name, targets, figure) for design in peers.designs}
        for figure in ("combinational", "delay")
    )
    rows = []
    for design in peers.designs:
        area, recipe = areas[design.name]
        delay, faster = delays[design.name]
        rows.append(
            [
                _called(design),
                "" if area is None else f"{area:,.0f}",
                "" if area is None else f"{area * nand2:,.0f}",
                recipe,
                _ratio(area, areas[design.against][0] if design.against else None),
                "" if delay is None else f"{delay:.2f}",
                faster,
                _ratio(delay, delays[design.against][0] if design.against else None),
            ]
        )
    yield table(["design", targets[0].unit, "µm²", "recipe", "to ours", "ns", "recipe", "to ours"], rows)


def least(peers: Comparison, name: str, targets: Sequence[ComparedTarget], figure: str) -> tuple[float | None, str]:
    """A design's smallest figure on targets that differ in their recipes, if it has one, and the recipe."""
    found = ((peers.find(name, target.label), target.recipe) for target in targets)
    figures = ((getattr(each, figure), recipe) for each, recipe in found if each is not None)
    return min(((value, recipe) for value, recipe in figures if value is not None), default=(None, ""))


def _target(peers: Comparison, target: ComparedTarget) -> Iterator[str]:
    """The heading and the table of a target."""
    yield f"### {target.label}"
    if target.sha256:
        yield (
            f"Recipe `{target.recipe}`: {RECIPES[target.recipe]}. One GE is {target.nand2_area:g} in the unit of the "
            f"library, whose SHA-256 begins with {target.sha256[:12]}."
        )
    in_library = target.nand2_area not in (0, 1)
    headings = [
        "design",
        *(["µm²"] if in_library else []),
        target.unit,
        "to ours",
        "flip-flops",
        *(["their µm²"] if in_library else []),
        "depth",
        *(["ns", "to ours"] if target.timing else []),
    ]
    yield table(headings, [_row(peers, target, design, in_library) for design in peers.designs])


def _row(peers: Comparison, target: ComparedTarget, design: ComparedDesign, in_library: bool) -> list[str]:
    figures = peers.find(design.name, target.label)
    ours = peers.find(design.against, target.label) if design.against else None
    name = _called(design)
    if figures is None or figures.combinational is None:
        return [name, "not read" if figures is None else "failed"]
    dsps = f" + {figures.dsps} DSP" if figures.dsps else ""
    return [
        name,
        *([f"{figures.combinational * target.nand2_area:,.0f}"] if in_library else []),
        f"{figures.combinational:,.0f}{dsps}",
        _ratio(figures.combinational, ours.combinational if ours else None),
        f"{figures.flip_flops:,}",
        *([f"{(figures.sequential or 0) * target.nand2_area:,.0f}"] if in_library else []),
        "" if figures.depth is None else str(figures.depth),
        *(_delays(figures, ours) if target.timing else []),
    ]


def _called(design: ComparedDesign) -> str:
    return design.name if design.against else Marked(f"**{escaped(design.name)}**, ours")


def _delays(figures: Figures, ours: Figures | None) -> list[str]:
    shown = "" if figures.delay is None else f"{figures.delay:.2f}"
    return [shown, _ratio(figures.delay, ours.delay if ours else None)]


def _ratio(value: float | None, base: float | None) -> str:
    return f"{value / base:.2f}" if value is not None and base else ""
