"""C compilers that misbehave: a product has the right bits, or there is an error that says why it has none."""

import os
from pathlib import Path
from random import Random

from openmxu.runtime import cache, native
from openmxu.runtime.native import CompilationError
from openmxu_sim.engines.compiled.model import load_model
from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.products import Product

_PATIENCE = 3.0
"""Most seconds of a compiler here; a good one takes one."""

_LIE = r"""
for each; do case $each in *.c) sed -i '{change}' "$each";; esac; done
exec cc "$@"
"""

_KINDS = {
    "garbage": 'for each; do [ "$last" = -o ] && head -c {number} /dev/urandom > "$each"; last="$each"; done',
    "nothing": "exit 0",
    "failure": "exit {number}",
    "signal": "kill -{signal} $$",
    "hang": "sleep 1000",
    "hang of the version": '[ "$1" = --version ] && sleep 1000; exec cc "$@"',
    "cut": 'cc "$@" && for each; do [ "$last" = -o ] && truncate -s {number} "$each"; last="$each"; done',
    "other arguments": 'exec cc "$@" -ffast-math -DX={number}',
    "lie": _LIE,
}


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Multiply with a bad compiler and, from the same cache, with the good one."""
    random = Random(f"compilers {seed}")
    product = Product(random)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["CC"] = str(folder / "cc")
    native._LIMIT = native._ANSWER_LIMIT = _PATIENCE
    name = random.choice([*_KINDS, "lie", "lie", "cut"])
    program = _KINDS[name].replace("{number}", str(random.randrange(1, 20000)))
    program = program.replace("{signal}", random.choice(("SEGV", "KILL", "TERM", "ABRT")))
    program = program.replace("{change}", _lie(random))
    (folder / "cc").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "cc").chmod(0o755)
    text = f"{name}: {program.strip()}"
    try:
        for compiler in ("bad", "good"):
            cache._kept.clear()
            load_model.cache_clear()
            if compiler == "good":
                native._LIMIT = native._ANSWER_LIMIT = 300.0
                del os.environ["CC"]
            try:
                bits = product.by("compiled")
            except (CompilationError, RuntimeError) as error:
                if compiler == "good" or "\n" in str(error):
                    return LOST, f"{text}: {compiler}: {error!r}"
                continue
            if bits != product.right:
                return WRONG, f"{text}: {compiler}"
    except Exception as error:
        return LOST, f"{text}: {error!r}"
    return SURVIVED, text


def _lie(random: Random) -> str:
    """Return a command of sed that changes the program: an operator, a constant, a name."""
    old, new = random.choice(
        (
            ("[&]", "|"),
            ("[|]", r"\&"),
            ("[\\^]", r"\&"),
            ("[+]", "-"),
            (">> 1", ">> 2"),
            ("<<", ">>"),
            ("0x", "0x1"),
            ("unit_run", "unit_walk"),
            ("== 0", "!= 0"),
            ("COLUMNS", "ROWS"),
        )
    )
    line = random.randrange(50, 1500)
    return f"{line},{line + random.choice((0, 1, 50, 3000))}s/{old}/{new}/"
