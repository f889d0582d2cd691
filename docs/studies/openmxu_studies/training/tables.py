"""The study in tables."""

from collections.abc import Iterator
from math import isfinite
from statistics import fmean

from openmxu_studies.training.plan import PLAIN, REFERENCE, SWEPT, TASKS, Case, name
from openmxu_studies.training.record import Study

_TITLES = {"digits": "A convolutional network on handwritten digits", "text": "A small transformer on text"}
_SCORES = {"digits": "accuracy", "text": "loss, nats"}


def to_markdown(study: Study) -> str:
    """Return all tables."""
    seeds = {task: len(study.scores(task, REFERENCE)) for task in TASKS}
    terms = max(case.terms for case in study.cases(TASKS[0]))
    source = {"mnist": "10,000 digits of MNIST", "sklearn": "scikit-learn's 1,797 digits"}[study.source]
    lines = study.opening("training", f"; {source}; {study.seconds / 60:.0f} minutes of one core", terms=terms)
    for task in TASKS:
        lines += [
            "",
            f"## {_TITLES[task]}",
            "",
            f"{study.steps[task]} steps, {seeds[task]} seeds. A seed has the same first weights and data in all rows. "
            "Lost and overflowed: shares of gradients.",
            "",
            *_cases(study, task),
            "",
            *(_sweep(study, task) if terms == 1 else [_beside_one_term(study, task, terms)]),
        ]
    lines += ["", "## From one arithmetic to another", "", *_passages(study)] if study.passages else []
    return "\n".join(lines) + "\n"


def _cases(study: Study, task: str) -> Iterator[str]:
    yield f"| operands | {_SCORES[task]} | sd | less fp32's | lost | overflowed | cycles of a step | element, GE |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case in study.cases(task):
        if case.weight == 0:
            spread = study.spread(task, case)
            numbers = [_score(fmean(study.scores(task, case))), f"{spread:.4f}" if isfinite(spread) else ""]
            numbers += [_difference(study, task, case), *_lost(study, task, case)]
            yield f"| {name(case)} | {' | '.join(numbers)} |"


def _score(value: float) -> str:
    """Format a mean score, or the failure of a training."""
    return f"{value:.4f}" if isfinite(value) else "failed"


def _difference(study: Study, task: str, case: Case) -> str:
    """Format the mean over seeds of the difference from fp32 operands."""
    pairs = zip(study.scores(task, case), study.scores(task, REFERENCE), strict=True)
    differences = [one - other for one, other in pairs]
    mean = fmean(differences)
    return f"{mean:+.4f}" if isfinite(mean) else ""


def _lost(study: Study, task: str, case: Case) -> list[str]:
    if case == PLAIN:
        return [""] * 4
    shares = [f"{study.mean(task, case, what):.2g}" for what in ("lost", "overflowed")]
    area = study.area(case)
    return [*shares, f"{study.mean(task, case, 'cycles'):,.0f}", "" if area is None else f"{area:,.0f}"]


def _beside_one_term(study: Study, task: str, terms: int) -> str:
    one, several = (study.scores(task, Case("bf16", terms=count)) for count in (1, terms))
    apart, spread = fmean(several) - fmean(one), study.spread(task, Case("bf16"))
    where = "within" if abs(apart) <= spread else "beyond"
    return f"{terms} terms score {apart:+z.4f} beside one term, {where} the sd of its seeds, {spread:.4f}."


def _sweep(study: Study, task: str) -> Iterator[str]:
    yield f"Losses multiplied by a power of two, and gradients divided by it; {_swept_seeds(study, task)} seeds:"
    yield ""
    weights = sorted({case.weight for case in study.cases(task)}, reverse=True)
    heads = [f"2^{weight}" if weight else "1" for weight in weights]
    yield f"| operands | {' | '.join(heads)} |"
    yield "|---|" + "--:|" * len(heads)
    for case in SWEPT:
        cells = [_cell(study, task, case._replace(weight=weight)) for weight in weights]
        if any(cells[1:]):
            yield f"| {name(case)} | {' | '.join(cells)} |"


def _swept_seeds(study: Study, task: str) -> int:
    return min(len(study.scores(task, case)) for case in study.cases(task))


def _cell(study: Study, task: str, case: Case) -> str:
    scores = study.scores(task, case)[: _swept_seeds(study, task)]
    return f"{_score(fmean(scores))} ({study.mean(task, case, 'lost'):.2g} lost)" if scores else ""


def _passages(study: Study) -> Iterator[str]:
    yield "| trained with | file | used with | parameters changed | accuracy where trained | where used |"
    yield "|---|---|---|--:|--:|--:|"
    for row in study.passages:
        changed = f"{row.changed} of {row.parameters:,}"
        yield f"| {row.trained} | {row.file} | {row.used} | {changed} | {row.before:.4f} | {row.after:.4f} |"
