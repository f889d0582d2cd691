"""C compilers that misbehave: a product has the right bits, or there is an error that says why it has none."""

import os
from pathlib import Path
from random import Random

from openmxu.runtime import cache, native
from openmxu_sim.engines.compiled.model import load_model
from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.products import Product

_PATIENCE = 3.0
"""Most seconds of a compiler here; a good one takes one."""

_KINDS = {
    "garbage": 'for each; do [ "$last" = -o ] && head -c {number} /dev/urandom > "$each"; last="$each"; done',
    "nothing": "exit 0",
    "failure": "exit {number}",
    "signal": "kill -{signal} $$",
    "hang": "sleep 1000",
    "hang of the version": '[ "$1" = --version ] && sleep 1000; exec cc "$@"',
    "cut": 'cc "$@" && for each; do [ "$last" = -o ] && truncate -s {number} "$each"; last="$each"; done',
    "other arguments": 'exec cc "$@" -ffast-math -DX={number}',
    "lie": """for each; do case $each in *.c) sed -i '{change}' "$each";; esac; done; exec cc "$@\"""",
}

_LIES = ("[&]/|", r"[|]/\&", r"[\^]/\&", "[+]/-", ">>.1/>>2", "<</>>", "0x/0x1", "unit_run/unit_walk", "==.0/!=0")
"""What sed changes in the text: an operator, a constant, a name."""


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Multiply with a bad compiler and, from the same cache, with the good one."""
    random = Random(f"compilers {seed}")
    product = Product(random)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["CC"] = str(folder / "cc")
    native._LIMIT = native._ANSWER_LIMIT = _PATIENCE
    name, line = random.choice([*_KINDS, "lie", "lie", "cut"]), random.randrange(50, 1500)
    program = _KINDS[name]
    for word, value in {
        "number": random.randrange(1, 20000),
        "signal": random.choice(("SEGV", "KILL", "TERM", "ABRT")),
        "change": f"{line},{line + random.choice((0, 1, 50, 3000))}s/{random.choice(_LIES)}/",
    }.items():
        program = program.replace(f"{{{word}}}", str(value))
    (folder / "cc").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "cc").chmod(0o755)
    text = f"{name}: {program}"
    try:
        try:
            bad = _fresh(product)
        except (native.CompilationError, RuntimeError) as error:
            bad = product.right
            if "\n" in str(error):
                return LOST, f"{text}: {error!r}"
        native._LIMIT = native._ANSWER_LIMIT = 300.0
        del os.environ["CC"]
        return (SURVIVED if bad == _fresh(product) == product.right else WRONG), text
    except Exception as error:
        return LOST, f"{text}: {error!r}"


def _fresh(product: Product) -> bytes:
    cache._kept.clear()
    load_model.cache_clear()
    return product.by("compiled")
