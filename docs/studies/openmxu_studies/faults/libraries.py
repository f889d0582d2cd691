"""A warm cache with a damaged entry, then a product: netlists and libraries are right or made again."""

import os
from pathlib import Path
from random import Random

from openmxu.runtime import cache
from openmxu_sim.engines.compiled.model import load_model
from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.damage import damage_entry
from openmxu_studies.faults.products import Product

_warm: dict[str, dict[Path, bytes]] = {}
"""Contents of a cache after a product, by mode and by path."""


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Multiply with the engine compiled, from a cache in which one entry is damaged."""
    random = Random(f"libraries {seed}")
    product = Product(random)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    if product.mode not in _warm:
        _forget()
        product.by("compiled")
        _warm[product.mode] = {
            path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
    for name, content in _warm[product.mode].items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
    paths = [folder / name for name in sorted(_warm[product.mode])]
    chosen = random.choice(paths)
    text = f"{chosen.parent.name} {damage_entry(chosen, paths, random)}"
    _forget()
    try:
        return (SURVIVED if product.by("compiled") == product.right else WRONG), text
    except Exception as error:
        return LOST, f"{text}: {error!r}"


def _forget() -> None:
    """Forget everything that this process has loaded."""
    cache._kept.clear()
    load_model.cache_clear()
