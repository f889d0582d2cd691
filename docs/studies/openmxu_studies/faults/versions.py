"""Processes of two versions of the sources that start at once, with one empty cache: each gets its own bits."""

from pathlib import Path
from random import Random

from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.copies import EDITS, Copy, references


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Start two or three processes, then one more of each version."""
    random = Random(f"versions {seed}")
    product, right = references(random, folder)
    edit = random.choice(EDITS)
    copies = {None: Copy(folder / "right"), edit: Copy(folder / "edited")}
    copies[edit].change(edit)
    versions = [None, edit, *random.choices((None, edit), k=random.randrange(2))]
    random.shuffle(versions)
    started = [(version, copies[version].start(product, folder / "cache")) for version in versions]
    results = [(version, process.answer()) for version, process in started]
    results += [(version, copy.multiply(product, folder / "cache")) for version, copy in copies.items()]
    for version, bits in results:
        if bits != right[version]:
            return (LOST if isinstance(bits, str) else WRONG), f"{version}: {bits!r}"
    return SURVIVED, str(edit)
