"""Entries of the cache, damaged in every way: a look-up returns the stored content, or it is made again."""

import os
from pathlib import Path
from random import Random

from openmxu.runtime import cache
from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.damage import damage_entry


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Keep a few entries, damage one of them, and ask for all of them twice."""
    random = Random(f"entries {seed}")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    cache._kept.clear()
    wanted = {}
    for number in range(random.randrange(1, 5)):
        kind, key = random.choice(cache.KINDS), cache.key(str(seed), str(number))
        wanted[kind, key] = random.randbytes(random.choice((0, 1, 31, 32, 33, 500, 5000)))
        cache.keep(kind, key, wanted[kind, key])
    paths = [cache.directory() / kind / key for kind, key in wanted]
    done = damage_entry(random.choice(paths), paths, random)
    for _ in range(2):
        for (kind, key), content in wanted.items():
            try:
                entry = cache.fetch(kind, key, lambda content=content: content)  # type: ignore[misc]
            except Exception as error:
                return LOST, f"{done}: {error!r}"
            if entry != content:
                return WRONG, done
    return SURVIVED, done
