"""Sources that change while a process runs: no netlist is ever cached under sources that it was not made from."""

from pathlib import Path
from random import Random

from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.copies import EDITS, Copy, references

_IMPORTS = (
    "openmxu.arith.datapath.round",
    "openmxu.unit.pe",
    "openmxu.unit.accumulator",
    "openmxu_sim.engines.compiled.source",
    "openmxu_sim.engines.compiled.try_unit",
)


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Edit the sources between a process's imports and its product, then start a process on each version."""
    random = Random(f"edits {seed}")
    product, right = references(random, folder)
    edit, imports = random.choice(EDITS), random.sample(_IMPORTS, random.randrange(len(_IMPORTS) + 1))
    from_edited, taken_back = random.random() < 0.5, random.random() < 0.3
    text = f"{edit}, edited first: {from_edited}, taken back: {taken_back}, imported: {imports}"
    copy, cache = Copy(folder / "copy"), folder / "cache"
    if from_edited:
        copy.change(edit)
    process = copy.start(product, cache, imports)
    process.wait()
    copy.change(edit, back=from_edited)
    if taken_back:
        copy.change(edit, back=not from_edited)
    answer = process.answer()
    if answer not in (right[edit], right[None]):
        return (LOST if isinstance(answer, str) else WRONG), f"{text}: {answer!r}"
    now = edit if from_edited == taken_back else None
    for version in (now, edit if now is None else None):
        if version != now:
            copy.change(edit, back=version is None)
        answer = copy.multiply(product, cache)
        if answer != right[version]:
            return (LOST if isinstance(answer, str) else WRONG), f"{text}: {answer!r} afterwards"
    return SURVIVED, text
