"""The record of recipes, its tables and its plot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openmxu.pages.figures import plain, svg
from openmxu.pages.tables import table
from openmxu_studies.layouts.formats import Cost, Layouts
from openmxu_studies.recipes.recipe_plan import ELEMENTS, PLAIN, REFERENCE
from openmxu_studies.spread import Studied
from openmxu_studies.training.training_plot import point_style

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
    """Draw the score of each recipe that our hardware runs, against energy and area of its laid-out element."""
    networks = [network for network in NETWORKS if record.recipes(network)]
    figure = Figure(figsize=(11, 4.2 * len(networks)), layout="constrained")
    axes = figure.subplots(len(networks), 2, squeeze=False)
    for row, network in zip(axes, networks, strict=True):
        for place, (title, of_cost) in zip(row, _COSTS.items(), strict=True):
            _draw(place, record, network, layouts, of_cost)
            place.set_xlabel(title)
            place.set_ylabel(NETWORKS[network][1])
            place.set_title(NETWORKS[network][0], fontsize=11, loc="left")
            plain(place)
    figure.legend(*axes[0][0].get_legend_handles_labels(), frameon=False, ncols=4, loc="outside lower center")
    return svg(figure)


_COSTS: Mapping[str, Callable[[Cost], float]] = {
    "energy of a multiply-add with its wires, pJ": lambda cost: fmean(cost.wired_pj),
    "area of a processing element, µm²": lambda cost: cost.core_um2,
}
"""Axes of the plot: figures of an element of one stage on IHP's process."""


def recorded_layouts() -> Layouts:
    """Return the record of layouts, of ``openmxu study layouts``."""
    return Layouts.of_json((Path(__file__).parents[3] / "reference" / "layouts.json").read_text())


def _draw(axes: Axes, record: Recipes, network: str, layouts: Layouts, of_cost: Callable[[Cost], float]) -> None:
    shown = [recipe for recipe in record.recipes(network) if recipe in ELEMENTS]
    for number, recipe in enumerate(shown):
        cost = layouts.find("processing element", ELEMENTS[recipe])
        scores: Sequence[float] = [score for score in record.scores(network, recipe).values() if isfinite(score)]
        if cost is None or not scores:
            continue
        spread = stdev(scores) if len(scores) > 1 else 0
        axes.errorbar(of_cost(cost), fmean(scores), spread, label=recipe, **point_style(number))
    plain_scores = record.scores(network, PLAIN)
    if plain_scores:
        axes.axhline(fmean(plain_scores.values()), color="#888888", linewidth=0.8, label=PLAIN)
    axes.set_xlim(left=0)
