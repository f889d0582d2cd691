"""The command ``cache``."""

import argparse
from typing import Any

from openmxu.cli.frame import add_command, offer, subcommands


def add_cache(commands: Any) -> None:
    parser = add_command(
        commands,
        "cache",
        _cache,
        "show or clear the cache: compiled simulations and models, areas, checks",
        "  openmxu cache\n  openmxu cache clear\n  openmxu cache clear --kind simulations",
    )
    from openmxu.runtime.cache import KINDS

    actions = subcommands(parser, required=False)
    clear = add_command(
        actions,
        "clear",
        _cache_clear,
        "delete cache entries; they are built or measured again when needed",
        "  openmxu cache clear\n  openmxu cache clear --kind simulations",
    )
    offer(clear, kind=lambda: KINDS)
    clear.add_argument("--kind", metavar="NAME", help="one of the kinds that openmxu cache shows (default: all)")


def _cache(options: argparse.Namespace) -> None:
    from openmxu.runtime import cache

    bound, kinds = cache.size_bound(), cache.usage()
    total = cache.Usage(*map(sum, zip(*kinds.values(), strict=True)))
    if not total.entries:
        print(f"nothing is cached in {cache.directory()}")
        return
    print(cache.directory())
    for kind, (entries, size) in (kinds | {"total": total}).items():
        print(f"{kind:<12} {entries:>6} entries {size / 2**20:>9.1f} MiB")
    print(f"{'at most':<12} {'':>14} {bound / 2**20:>9.1f} MiB")


def _cache_clear(options: argparse.Namespace) -> None:
    from openmxu.runtime import cache

    entries, size = cache.clear(options.kind)
    print(f"deleted {entries} entries, {size / 2**20:.1f} MiB, from {cache.directory()}")
