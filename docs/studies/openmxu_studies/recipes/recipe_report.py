"""The record of recipes, its tables and its plot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openmxu.pages.figures import COLOURS, plain, svg
from openmxu.pages.tables import table
from openmxu_studies.layouts.formats import Cost, Layouts
from openmxu_studies.recipes.recipe_plan import ELEMENTS, PLAIN, REFERENCE
from openmxu_studies.spread import Studied
from openmxu_studies.training.training_plot import draw_rows

NETWORKS: Mapping[str, tuple[str, str]] = {
    "resnet": ("A ResNet of seven convolutions on handwritten digits", "accuracy"),
    "vit": ("A vision transformer on handwritten digits", "accuracy"),
    "text": ("A transformer of 11 million parameters on text", "loss, nats"),
}
"""Titles of the networks, and what their scores are."""


@dataclass(frozen=True)
class Result:
    """A network trained once; the score is not finite where training failed."""

    network: str
    recipe: str
    seed: int
    steps: int
    score: float
    seconds: float


@dataclass(frozen=True)
class Recipes(Studied):
    """Results of the study."""

    results: tuple[Result, ...]

    def scores(self, network: str, recipe: str) -> dict[int, float]:
        """Return the scores by seed."""
        return {r.seed: r.score for r in self.results if (r.network, r.recipe) == (network, recipe)}

    def recipes(self, network: str) -> list[str]:
        """Return the recipes of a network."""
        return list(dict.fromkeys(result.recipe for result in self.results if result.network == network))

    def verdict(self, network: str, recipe: str) -> str:
        """Tell how a recipe compares with bf16: ``as bf16`` if the mean difference over common seeds is within the
        standard deviation of bf16's scores, else ``better`` or ``worse``; ``failed`` if a score is not finite.
        """
        own, reference = self.scores(network, recipe), self.scores(network, REFERENCE)
        if not all(map(isfinite, own.values())):
            return "failed"
        spread = stdev(reference.values()) if len(reference) > 1 else nan
        difference = fmean(own[seed] - reference[seed] for seed in own.keys() & reference.keys())
        if abs(difference) <= spread:
            return "as bf16"
        return "better" if (difference > 0) == (network != "text") else "worse"


def to_markdown(record: Recipes) -> str:
    """Return all tables."""
    minutes = sum(result.seconds for result in record.results) / 60
    lines = record.opening("recipes", f"; {minutes:.0f} minutes of one core")
    for network, (title, score) in NETWORKS.items():
        names = record.recipes(network)
        if not names:
            continue
        steps = next(result.steps for result in record.results if result.network == network)
        rows = [_row(record, network, recipe) for recipe in names]
        heads = ["recipe", "seeds", score, "sd", "less bf16's", "against bf16"]
        lines += ["", f"## {title}", "", f"{steps} steps.", "", table(heads, rows)]
    return "\n".join(lines) + "\n"


def _row(record: Recipes, network: str, recipe: str) -> list[str]:
    own, reference = record.scores(network, recipe), record.scores(network, REFERENCE)
    values = list(own.values())
    difference = fmean(own[seed] - reference[seed] for seed in own.keys() & reference.keys())
    spread = f"{stdev(values):.4f}" if len(values) > 1 and all(map(isfinite, values)) else ""
    verdict = "" if recipe == REFERENCE else record.verdict(network, recipe)
    return [recipe, str(len(values)), f"{fmean(values):.4f}", spread, f"{difference:+.4f}", verdict]


def to_svg(record: Recipes, layouts: Layouts) -> bytes:
    """Draw a row for each recipe that our hardware runs: its scores, and energy and area of its laid-out element."""
    networks = [network for network in NETWORKS if record.recipes(network)]
    measured = {recipe for network in networks for recipe in record.recipes(network)}
    shown = [recipe for recipe in ELEMENTS if recipe in measured]
    figure = Figure(figsize=(14, 1.6 + 0.4 * len(shown)), layout="constrained")
    columns = figure.subplots(1, len(networks) + len(_COSTS), sharey=True)
    for axes, network in zip(columns, networks, strict=False):
        _draw_scores(axes, record, network, shown)
        axes.set_title(_SHORT[network], fontsize=11, loc="left")
        axes.set_xlabel(f"{NETWORKS[network][1]}; grey: {PLAIN}")
    costs = [layouts.find("processing element", ELEMENTS[recipe]) for recipe in shown]
    for axes, (title, of_cost) in zip(columns[len(networks) :], _COSTS.items(), strict=True):
        bars = axes.barh(range(len(shown)), [of_cost(cost) if cost else 0 for cost in costs], 0.6, color=COLOURS[4])
        axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=9)
        axes.set_title(title, fontsize=11, loc="left")
        axes.margins(x=0.25)
    for axes in columns:
        plain(axes)
    draw_rows(
        columns[0],
        [each if each.startswith(ELEMENTS[each]) else f"{each} ({ELEMENTS[each]} element)" for each in shown],
    )
    return svg(figure)


_SHORT = {"resnet": "ResNet, digits", "vit": "Transformer, digits", "text": "Transformer, text"}
"""Titles of the plot."""

_COSTS: Mapping[str, Callable[[Cost], float]] = {
    "energy, pJ": lambda cost: fmean(cost.wired_pj),
    "area, µm²": lambda cost: cost.core_um2,
}
"""Of an element of one stage on IHP's process: energy of a multiply-add with its wires, and area."""


def recorded_layouts() -> Layouts:
    """Return the record of layouts, of ``openmxu study layouts``."""
    return Layouts.of_json((Path(__file__).parents[3] / "reference" / "layouts.json").read_text())


def _draw_scores(axes: Axes, record: Recipes, network: str, shown: Sequence[str]) -> None:
    """Draw a network's mean score by each recipe, with the standard deviation."""
    for row, recipe in enumerate(shown):
        scores: Sequence[float] = [score for score in record.scores(network, recipe).values() if isfinite(score)]
        if scores:
            spread = stdev(scores) if len(scores) > 1 else 0
            axes.errorbar(fmean(scores), row, xerr=spread, color=COLOURS[0], marker="o", capsize=3)
    plain_scores = record.scores(network, PLAIN)
    if plain_scores:
        axes.axvline(fmean(plain_scores.values()), color="#888888", linewidth=0.8)
