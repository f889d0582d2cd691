"""Running solvers: each query a process of its own, which gives its memory back and can be ended."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["SOLVERS", "Answer", "SolverError", "solve", "version"]

_PACKAGES = {"z3": "z3-solver", "bitwuzla": "bitwuzla"}

SOLVERS = tuple(_PACKAGES)
"""Names of the solvers. They share no code, and each has its own encoding of floating-point numbers."""


class SolverError(RuntimeError):
    """A solver is not installed, or failed; the text says why."""


@dataclass(frozen=True)
class Answer:
    """What a solver says about a query.

    Parameters
    ----------
    satisfiable
        ``None``: it gave up, or the time limit did.
    values
        If satisfiable: values of the declared bit vectors, by name, for which the assertions hold.
    """

    satisfiable: bool | None
    values: Mapping[str, int]


def version(solver: str) -> str:
    """Name and version, as in ``z3 4.13.0``.

    Raises
    ------
    ValueError
        There is no such solver.
    SolverError
        It is not installed.
    """
    if solver not in _PACKAGES:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, not {solver!r}")
    if find_spec(solver) is None:
        raise SolverError(f"{solver} is missing: pip install 'openmxu[verify]'")
    return f"{solver} {importlib.metadata.version(_PACKAGES[solver])}"


def solve(text: str, solver: str, *, limit: float) -> Answer:
    """Look for values of the declared constants for which all assertions of ``text`` hold.

    Parameters
    ----------
    text
        SMT-LIB: declarations, definitions and assertions.
    solver
        One of :data:`SOLVERS`.
    limit
        Seconds after which the solver is ended.

    Raises
    ------
    ValueError
        There is no such solver.
    SolverError
        It is not installed, or failed.
    """
    version(solver)
    try:
        # run() ends the process whatever happens here, an interrupt included.
        process = subprocess.run([sys.executable, "-P", "-m", "openmxu.formal.worker", solver], input=text,
                                 text=True, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, {})
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise SolverError(f"{solver}: {reason}")
    found = json.loads(process.stdout)
    satisfiable = {"sat": True, "unsat": False}.get(found["answer"])
    return Answer(satisfiable, {name: int(value, 16) for name, value in found["values"].items()})
