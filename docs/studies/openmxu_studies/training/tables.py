"""The study in tables."""

from collections.abc import Iterator
from math import isfinite
from statistics import fmean

from openmxu.runtime.machine import tool_version
from openmxu_studies.training.plan import PLAIN, REFERENCE, SWEPT, TASKS, Case, name
from openmxu_studies.training.record import Study

_TITLES = {"digits": "A convolutional network on handwritten digits", "text": "A small transformer on text"}
_SCORES = {"digits": "accuracy", "text": "loss, nats"}


def to_markdown(found: Study) -> str:
    """Return all tables."""
    seeds = {task: len(found.scores(task, REFERENCE)) for task in TASKS}
    terms = max(case.terms for case in found.cases(TASKS[0]))
    source = {"mnist": "10,000 digits of MNIST", "sklearn": "scikit-learn's 1,797 digits"}[found.source]
    lines = [
        f"`openmxu study training{' --full' * found.full}{f' --terms {terms}' * (terms > 1)}`, {found.date}, "
        f"{found.machine}; {source}; "
        f"{found.seconds / 60:.0f} minutes of one core.",
        "",
        *(f"- {tool_version(tool, version)}" for tool, version in found.tools.items()),
    ]
    for task in TASKS:
        lines += [
            "",
            f"## {_TITLES[task]}",
            "",
            f"{found.steps[task]} steps, {seeds[task]} seeds. A seed has the same first weights and data in all rows. "
            "Lost and overflowed: shares of gradients.",
            "",
            *_cases(found, task),
            "",
            *(_sweep(found, task) if terms == 1 else [_beside_one_term(found, task, terms)]),
        ]
    lines += ["", "## From one arithmetic to another", "", *_passages(found)] if found.passages else []
    return "\n".join(lines) + "\n"


def _cases(found: Study, task: str) -> Iterator[str]:
    yield f"| operands | {_SCORES[task]} | sd | less fp32's | lost | overflowed | cycles of a step | element, GE |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case in found.cases(task):
        if case.weight == 0:
            spread = found.spread(task, case)
            numbers = [_score(fmean(found.scores(task, case))), f"{spread:.4f}" if isfinite(spread) else ""]
            numbers += [_difference(found, task, case), *_lost(found, task, case)]
            yield f"| {name(case)} | {' | '.join(numbers)} |"


def _score(value: float) -> str:
    """Format a mean score, or the failure of a training."""
    return f"{value:.4f}" if isfinite(value) else "failed"


def _difference(found: Study, task: str, case: Case) -> str:
    """Format the mean over seeds of the difference from fp32 operands."""
    pairs = zip(found.scores(task, case), found.scores(task, REFERENCE), strict=True)
    differences = [one - other for one, other in pairs]
    mean = fmean(differences)
    return f"{mean:+.4f}" if isfinite(mean) else ""


def _lost(found: Study, task: str, case: Case) -> list[str]:
    if case == PLAIN:
        return [""] * 4
    shares = [f"{found.mean(task, case, what):.2g}" for what in ("lost", "overflowed")]
    area = found.area(case)
    return [*shares, f"{found.mean(task, case, 'cycles'):,.0f}", "" if area is None else f"{area:,.0f}"]


def _beside_one_term(found: Study, task: str, terms: int) -> str:
    one, several = (found.scores(task, Case("bf16", terms=each)) for each in (1, terms))
    apart, spread = fmean(several) - fmean(one), found.spread(task, Case("bf16"))
    where = "within" if abs(apart) <= spread else "beyond"
    return f"{terms} terms score {apart:+z.4f} beside one term, {where} the sd of its seeds, {spread:.4f}."


def _sweep(found: Study, task: str) -> Iterator[str]:
    yield f"Losses multiplied by a power of two, and gradients divided by it; {_swept_seeds(found, task)} seeds:"
    yield ""
    weights = sorted({case.weight for case in found.cases(task)}, reverse=True)
    heads = [f"2^{weight}" if weight else "1" for weight in weights]
    yield f"| operands | {' | '.join(heads)} |"
    yield "|---|" + "--:|" * len(heads)
    for case in SWEPT:
        cells = [_cell(found, task, case._replace(weight=weight)) for weight in weights]
        if any(cells[1:]):
            yield f"| {name(case)} | {' | '.join(cells)} |"


def _swept_seeds(found: Study, task: str) -> int:
    return min(len(found.scores(task, case)) for case in found.cases(task))


def _cell(found: Study, task: str, case: Case) -> str:
    scores = found.scores(task, case)[: _swept_seeds(found, task)]
    return f"{_score(fmean(scores))} ({found.mean(task, case, 'lost'):.2g} lost)" if scores else ""


def _passages(found: Study) -> Iterator[str]:
    yield "| trained with | file | used with | parameters changed | accuracy where trained | where used |"
    yield "|---|---|---|--:|--:|--:|"
    for each in found.passages:
        changed = f"{each.changed} of {each.parameters:,}"
        yield f"| {each.trained} | {each.file} | {each.used} | {changed} | {each.before:.4f} | {each.after:.4f} |"
