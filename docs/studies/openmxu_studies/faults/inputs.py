"""Damaged files that a command reads: it gives the right result for their content, or an error of one line."""

import io
import json
import os
from pathlib import Path
from random import Random

import numpy as np

from openmxu.area.pages.schema import SCHEMA
from openmxu.cells.liberty import generic_library, parse_library
from openmxu_sim import golden
from openmxu_sim.operands import vectors
from openmxu_studies.faults import LOST, SURVIVED, WRONG
from openmxu_studies.faults.command import call
from openmxu_studies.faults.damage import damage_content


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Run a command on a damaged matrix, cell library or report."""
    random = Random(f"inputs {seed}")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    return random.choice((_matrix, _matrix, _library, _report))(random, folder)


def _matrix(random: Random, folder: Path) -> tuple[str, str]:
    seed = random.randrange(1 << 30)
    a, b = (golden.from_bits(vectors.matrix(shape, "fp32", seed)) for shape in ((3, 4), (4, 2)))
    buffer = io.BytesIO()
    np.save(buffer, a)
    damaged = damage_content(buffer.getvalue(), random)
    (folder / "A.npy").write_bytes(damaged)
    np.save(folder / "B.npy", b)
    names = [str(folder / name) for name in ("A.npy", "B.npy", "C.npy")]
    try:
        result = call(["matmul", *names[:2], "-o", names[2], "--rows", "2", "--columns", "2", "--engine", "golden"])
    except Exception as error:
        return LOST, f"{damaged!r}: {error!r}"
    if not result.is_clear or (result.code == 0) != Path(names[2]).exists():
        return LOST, f"{damaged!r}: {result}"
    if result.code != 0:
        return SURVIVED, result.errors[0]
    product = np.load(names[2])
    try:
        left = np.load(names[0], allow_pickle=False)
    except Exception as error:
        return WRONG, f"{damaged!r} was taken: {error}"
    if left.dtype != np.float32:
        return SURVIVED, f"another dtype, {left.dtype}"
    right = golden.matmul(left, b, rows=2)
    return (SURVIVED if product.tobytes() == right.tobytes() else WRONG), repr(damaged)


def _library(random: Random, folder: Path) -> tuple[str, str]:
    text = damage_content(generic_library().text, random)
    try:
        library = parse_library(text, "cells.lib")
    except ValueError as error:
        return (SURVIVED if "\n" not in str(error) else LOST), repr(error)
    except Exception as error:
        return LOST, repr(error)
    whole = 0 < library.nand2_area < float("inf")
    return (SURVIVED if whole else WRONG), f"nand2_area {library.nand2_area}"


def _report(random: Random, folder: Path) -> tuple[str, str]:
    """Explain a figure of a report that is damaged, or has a strange value."""
    figures = {"target": "generic", "recipe": "area", "unit": "GE", "area": 1.5, "flip_flops": 0, "memory_bits": 0}
    run = {
        "name": "adder fp32",
        "top": "adder",
        "options": {"stages": 1},
        **figures,
        "depth": 7,
        "delay_ns": None,
        "figure": "0123456789ab",
        "rtlil_sha256": "0" * 64,
        "script": "synth",
        "error": "",
    }
    whole = {
        "schema": SCHEMA,
        "tool": "Yosys",
        "results": [run],
        "targets": [
            {"name": "generic", "title": "gates", "recipe": "area", "library": {"name": "generic", "sha256": "0" * 64}}
        ],
        "catalog": [{"design": "adder", **figures, "terms": [{"count": 1, **run}]}],
    }
    text = json.dumps(whole)
    value: object = random.choice((None, [], {}, "", -1, 1e400, "1", True, ["x"], {"a": {}}))
    text = random.choice(
        (
            text,
            text.replace("1.5", json.dumps(value)),
            text.replace('"synth"', json.dumps(value)),
            text.replace('"results"', '"other"'),
        )
    )
    damaged = damage_content(text.encode(), random) if random.random() < 0.7 else text.encode()
    (folder / "area.json").write_bytes(damaged)
    try:
        result = call(["area", "--explain", "adder fp32", "-o", str(folder)])
    except Exception as error:
        return LOST, f"{damaged!r}: {error!r}"
    return (SURVIVED if result.is_clear else LOST), f"{damaged!r}: {result}"
