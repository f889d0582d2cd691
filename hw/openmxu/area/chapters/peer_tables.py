"""Published designs beside ours, for people."""

from collections.abc import Iterable, Iterator, Sequence

from openmxu.area.finding.comparison import ComparedDesign, ComparedTarget, Comparison, Figures
from openmxu.area.target.targets import RECIPES
from openmxu.pages.tables import Marked, Table, escaped, inert, reason


def to_markdown(peers: Comparison) -> str:
    """A comparison as Markdown: a table for each target, a list of the designs, and the failures."""
    timing = sorted({target.timing for target in peers.targets if target.timing})
    about = [[row.name, row.url, row.version, row.licence, row.notes] for row in peers.designs if row.against]
    notes = sorted({(f"{each.design} on {each.target}", each.note) for each in peers.figures if each.note})
    tools = "; ".join([f"OpenMXU {peers.tools['OpenMXU']}", peers.tools["Yosys"], *timing])
    blocks = [
        f"Measured with {tools}. Areas are "
        "those of combinational gates; all designs were read from Verilog, ours after export, and mapped by the same "
        "script. Delays are before placing, with the loads of gates and the library's default wire load, if it has "
        "one. Ratios are relative to our part, the first row of each group.",
        *(block for library in _with_recipes(peers) for block in _best(peers, library)),
        *(block for target in peers.targets for block in _target(peers, target)),
        "### The designs",
        str(Table(["design", "from", "version", "licence", "what it is"], about, words=5)),
        *_reasons("### Not measured", peers.failed),
        *_reasons("### Without a delay", notes),
    ]
    return "\n\n".join(blocks) + "\n"


def _reasons(heading: str, reasons: Sequence[tuple[str, str]]) -> Iterator[str]:
    if reasons:
        yield heading
        yield "\n".join(f"- {inert(f'{name}: {reason(error)}')}" for name, error in reasons)


def _with_recipes(peers: Comparison) -> list[list[ComparedTarget]]:
    """The targets of each library with several recipes."""
    libraries = dict.fromkeys(target.sha256 for target in peers.targets if target.sha256)
    groups = [[target for target in peers.targets if target.sha256 == library] for library in libraries]
    return [group for group in groups if len(group) > 1]


def _best(peers: Comparison, targets: Sequence[ComparedTarget]) -> Iterator[str]:
    """Each design with the recipe that suits it most: a recipe that was chosen for ours may not suit others."""
    nand2 = targets[0].nand2_area
    rows = []
    for design in peers.designs:
        names = (design.name, design.against)
        (area, recipe), (ours, _) = (least(peers, name, targets, "combinational") for name in names)
        (delay, faster), (our_delay, _) = (least(peers, name, targets, "delay") for name in names)
        areas = [_shown(area), _shown(area and area * nand2), recipe, _ratio(area, ours)]
        rows.append([_called(design), *areas, _shown(delay, 2), faster, _ratio(delay, our_delay)])
    yield f"### {targets[0].name}, each design with its best recipe"
    yield str(Table(["design", targets[0].unit, "µm²", "recipe", "to ours", "ns", "recipe", "to ours"], rows))


def least(peers: Comparison, name: str, targets: Iterable[ComparedTarget], figure: str) -> tuple[float | None, str]:
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
    own, timed = target.nand2_area not in (0, 1), bool(target.timing)
    headings = ["design", *["µm²"] * own, target.unit, "to ours", "flip-flops", *["their µm²"] * own, "depth"]
    headings += ["ns", "to ours"] * timed
    yield str(Table(headings, [_row(peers, target, design, own=own) for design in peers.designs]))


def _row(peers: Comparison, target: ComparedTarget, design: ComparedDesign, *, own: bool) -> list[str]:
    figures = peers.find(design.name, target.label)
    ours = peers.find(design.against, target.label) or Figures("", "")
    if figures is None or figures.combinational is None:
        return [_called(design), "not read" if figures is None else "failed"]
    row = [_called(design), *[_shown(figures.combinational * target.nand2_area)] * own]
    row.append(f"{figures.combinational:,.0f}{f' + {figures.dsps} DSP' * bool(figures.dsps)}")
    row += [_ratio(figures.combinational, ours.combinational), f"{figures.flip_flops:,}"]
    row += [_shown((figures.sequential or 0) * target.nand2_area)] * own + [_shown(figures.depth)]
    return row + [_shown(figures.delay, 2), _ratio(figures.delay, ours.delay)] * bool(target.timing)


def _called(design: ComparedDesign) -> str:
    return design.name if design.against else Marked(f"**{escaped(design.name)}**, ours")


def _shown(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _ratio(value: float | None, base: float | None) -> str:
    return f"{value / base:.2f}" if value is not None and base else ""
