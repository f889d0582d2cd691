"""Running solvers: each query in a process of its own, which frees its memory and can be ended."""

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from openmxu.runtime import process
from openmxu.runtime.extras import install
from openmxu.runtime.process import TimeLimitError

_PACKAGES = {"z3": "z3-solver", "bitwuzla": "bitwuzla"}

SOLVERS = tuple(_PACKAGES)
"""Names of the solvers. They share no code, and each has its own encoding of floating-point numbers."""


class SolverError(RuntimeError):
    """A solver is not installed, or failed; the text says why."""


@dataclass(frozen=True)
class Answer:
    """A solver's answer to a query."""

    satisfiable: bool | None
    """``None``: the solver gave up, or exceeded the time limit."""
    values: Mapping[str, int]
    """If satisfiable: values of the declared bit vectors, by name, for which the assertions hold."""


def version(solver: str) -> str:
    """Name and version, as in ``z3 4.13.0``."""
    if solver not in _PACKAGES:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, not {solver!r}")
    if find_spec(solver) is None:
        raise SolverError(f"{solver} is missing: {install('verify')}")
    return f"{solver} {importlib.metadata.version(_PACKAGES[solver])}"


def solve(text: str, solver: str, *, limit: float) -> Answer:
    """Look for values of the declared constants for which all assertions of ``text`` hold."""
    version(solver)
    try:
        done = process.run(
            [sys.executable, "-P", "-m", "openmxu_evidence.formal.worker", solver], what=solver, limit=limit, text=text
        )
    except TimeLimitError:
        return Answer(None, {})
    if done.code:
        reason = "; ".join(done.last(1)) or done.ending
        raise SolverError(f"{solver}: {reason}")
    reply = json.loads(done.output)
    satisfiable = {"sat": True, "unsat": False}.get(reply["answer"])
    return Answer(satisfiable, {name: int(value, 16) for name, value in reply["values"].items()})
