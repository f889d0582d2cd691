"""The evidence as a record: run the checks, keep their outcomes, show them."""

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from openmxu import yosys
from openmxu.export.provenance import provenance
from openmxu.runtime import cache, process
from openmxu.runtime.extras import install
from openmxu.runtime.machine import Record, cores, machine_name, tool_version
from openmxu.runtime.native import compiler_version
from openmxu.runtime.sources import still_all
from openmxu_evidence import SOURCES
from openmxu_evidence.formal.solvers import SOLVERS
from openmxu_evidence.formal.solvers import version as solver_version
from openmxu_evidence.verify.check import FAILED, HOLDS, NOT_RUN, OPEN, OUTCOMES, Check, Outcome
from openmxu_evidence.verify.checks import checks
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, find_simulator, load_simulator

MOST_JOBS = 1024
"""Most checks at a time."""

_LIMIT = 6 * 3600.0
"""Seconds after which a check is stopped. The longest take half an hour."""


@dataclass(frozen=True)
class Row:
    """A check and its outcome; see :class:`~openmxu_evidence.verify.check.Check` and ``Outcome``.

    ``seconds`` are those of processors, child processes included, whatever else the machine did meanwhile.
    """

    group: str
    name: str
    against: str
    status: str
    looked_at: str
    detail: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence(Record):
    """A run of the checks."""

    date: str
    """Date of the run's end, such as 2026-01-31."""
    thorough: bool
    """Whether the run was the thorough one."""
    seconds: float
    """Wall time."""
    machine: str
    """Processor and cores."""
    tools: Mapping[str, str]
    """Versions, by name; those of :func:`openmxu.export.provenance.provenance` come first."""
    rows: tuple[Row, ...]
    """Rows, in the order of the checks."""
    resumed: int = 0
    """Number of rows that come from an earlier run, which was interrupted."""
    only: tuple[str, ...] = ()
    """Texts of which each check's group or name contains one; none: all checks were run."""

    def count(self, status: str) -> int:
        """Return the number of rows with this status."""
        return sum(row.status == status for row in self.rows)


def tools(*, thorough: bool, progress: Callable[[str], None] | None = None) -> dict[str, str]:
    """Return the versions of all tools that the checks need."""
    missing: list[str] = []

    def ask(question: Callable[[], str]) -> str:
        try:
            return question()
        except importlib.metadata.PackageNotFoundError as error:
            extra = "jax" if error.name == "jax" else "verify"
            missing.append(f"{error.name} is missing: {install(extra)}")
        except (ValueError, RuntimeError, OSError) as error:
            missing.append(str(error))
        return ""

    versions = {**provenance(), "Python": platform.python_version(), "C compiler": ask(compiler_version)}
    versions["Yosys"] = ask(lambda: yosys.prepare(progress))
    versions["Verilator"] = ask(lambda: load_simulator("verilator").tools)
    if find_simulator("icarus") is not None:  # nothing but a comparison or two needs it
        versions["Icarus"] = ask(lambda: load_simulator("icarus").tools)
    versions |= {solver: ask(partial(solver_version, solver)) for solver in SOLVERS}
    packages = ["amaranth", "numpy", "softfloatpy", "gmpy2", *(["jax"] if thorough else [])]
    versions |= {package: ask(partial(importlib.metadata.version, package)) for package in packages}
    if missing:
        raise ValueError("missing tools: " + "; ".join(missing))
    return versions


def verify(
    *,
    thorough: bool = False,
    faults: bool = False,
    only: Sequence[str] = (),
    jobs: int | None = None,
    resume: bool = False,
    note: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Run the checks, each in a process of its own."""
    known = checks(thorough=thorough, faults=faults)
    for text in only:
        if not any(text in ": ".join(key) for key in known):
            raise ValueError(f"no check has {text!r} in its group or name")
    chosen = {key: check for key, check in known.items() if not only or any(text in ": ".join(key) for text in only)}
    versions = tools(thorough=thorough, progress=note)
    start = time.monotonic()
    others = {name: version for name, version in versions.items() if name not in provenance()}
    kept = _Kept(f"{json.dumps(others)} {machine_name()} {thorough} {faults}")
    rows = {key: row for key in chosen if (row := kept.find(*key)) is not None} if resume else {}
    resumed = len(rows)
    if progress is not None:
        progress(len(rows), len(chosen))

    with process.threads(min(jobs or cores(), len(chosen))) as pool:
        longest_first = sorted(chosen.keys() - rows.keys(), key=lambda key: (-chosen[key].seconds, key))
        alone = partial(_alone, thorough=thorough, faults=faults)
        for future in as_completed([pool.submit(alone, chosen[key]) for key in longest_first]):
            row = future.result()
            rows[row.group, row.name] = row
            kept.keep(row)
            if note is not None and row.status != HOLDS:
                note(f"{row.group}: {row.name}: {row.status}: {row.detail}")
            if progress is not None:
                progress(len(rows), len(chosen))
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    seconds, found = time.monotonic() - start, tuple(rows[key] for key in chosen)
    return Evidence(today, thorough, seconds, machine_name(), versions, found, resumed, tuple(only))


def _alone(check: Check, *, thorough: bool, faults: bool) -> Row:
    """Run a check in a process of its own, which gives all memory back, whatever the tools in it do."""
    key = check.group, check.name
    began = time.monotonic()
    try:
        return Row(**process.call(_run, *key, thorough, faults, what=f"the check {key[0]}: {key[1]}", limit=_LIMIT))
    except RuntimeError as error:
        reason = f"not run to its end: {error}"
        return Row(*key, check.against, FAILED, "", reason, round(time.monotonic() - began, 1))


_UNSEEN = (
    *("command.py", "demo.py", "operands/npy.py"),
    *("commands/", "jax/", "networks/", "onnx/", "pages/", "studies/", "torch/", "wave/"),
)
"""Modules of our packages that no check depends on; import-linter has the same list."""


class _Kept:
    """Rows of earlier checks in the cache, as long as no source file has changed since this process imported it.

    Files that no check depends on may change in between: another commit will do if the files that checks see are equal.
    """

    def __init__(self, conditions: str) -> None:
        digests = [source.digest(_UNSEEN) for source in SOURCES]
        self._digest = None if None in digests else " ".join(map(str, digests))
        self._conditions = conditions

    def _key(self, group: str, name: str) -> str:
        return cache.key("check", self._digest or "", self._conditions, group, name)

    def find(self, group: str, name: str) -> Row | None:
        """Return the row of an earlier check, if it is there."""
        text = None if self._digest is None else cache.find("checks", self._key(group, name))
        return None if text is None else Row(**json.loads(text))

    def keep(self, row: Row) -> None:
        """Keep a row, unless the check failed: its reason may be gone."""
        if row.status != FAILED and self._digest is not None and still_all(SOURCES):
            key = self._key(row.group, row.name)
            cache.discard("checks", key)
            cache.keep("checks", key, json.dumps(asdict(row)).encode())


def _run(group: str, name: str, thorough: bool, faults: bool) -> Row:
    """Run one check; an exception makes it fail, except for a missing simulator."""
    check = checks(thorough=thorough, faults=faults)[group, name]
    start = _worked()
    try:
        outcome = check.run()
    except SimulatorNotFoundError as error:
        outcome = Outcome(NOT_RUN, "", str(error))
    except Exception as error:
        outcome = Outcome(FAILED, "", f"{type(error).__name__}: {error}")
    return Row(
        group,
        name,
        check.against,
        outcome.status,
        outcome.looked_at,
        outcome.detail,
        round(_worked() - start, 1),
        outcome.counts,
    )


def _worked() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def to_markdown(*parts: Evidence) -> str:
    """Return the evidence of one run, or of several that had different checks, as tables, one for each group."""
    lines, before = list[str](), dict[str, str]()
    for versions, alike in groupby(parts, attrgetter("tools")):
        for part in alike:
            lines += [_summary(part), ""]
        lines += ["Tools as above, but", ""] if before else []
        new = (tool_version(name, version) for name, version in versions.items() if before.get(name) != version)
        lines += [*(f"- {each}" for each in new), ""]
        before = versions
    lines.pop()
    for group, rows in groupby(chain(*(sorted(part.rows, key=_position(part)) for part in parts)), attrgetter("group")):
        lines += [
            "",
            f"## {group[0].upper()}{group[1:]}",
            "",
            "| what | against | result | looked at | s |",
            "|---|---|---|---|--:|",
        ]
        lines += list(_cells(rows))
    return "\n".join([*lines, ""])


def _summary(evidence: Evidence) -> str:
    """Return a sentence about a run."""
    statuses = f"{evidence.count(HOLDS)} hold, {evidence.count(FAILED)} failed, {evidence.count(OPEN)} open"
    statuses += f", {evidence.count(NOT_RUN)} not run" * (evidence.count(NOT_RUN) > 0)
    command = "openmxu verify" + " --thorough" * evidence.thorough
    command += "".join(f" --only {shlex.quote(text)}" for text in evidence.only)
    return (
        f"`{command}`, {evidence.date}, {evidence.machine}: {len(evidence.rows)} checks in "
        f"{sum(row.seconds for row in evidence.rows) / 60:.0f} minutes together, {statuses}.{_resumed(evidence)}"
    )


def _resumed(evidence: Evidence) -> str:
    """Return a sentence about rows that come from an earlier run."""
    return (
        f" {evidence.resumed} of them were run before, by a command that was interrupted." if evidence.resumed else ""
    )


def faults_to_markdown(evidence: Evidence) -> str:
    """Return a campaign of faults as a table."""
    total = Counter[str]()
    lines = [
        f"`openmxu verify --faults`, {evidence.date}, {evidence.machine}, {evidence.seconds / 60:.0f} minutes.",
        "",
        f"| faults | tried | {' | '.join(OUTCOMES)} |",
        f"|---|{'--:|' * (1 + len(OUTCOMES))}",
    ]
    for row in evidence.rows:
        total.update(row.counts)
        lines.append(_counted(row.name, row.counts))
    return "\n".join([*lines, _counted("**all**", total), ""])


def _counted(name: str, counts: Mapping[str, int]) -> str:
    numbers = [sum(counts.values()), *(counts.get(outcome, 0) for outcome in OUTCOMES)]
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def _position(evidence: Evidence) -> Callable[[Row], int]:
    """Return a sort key that puts rows of a group together, groups in the order in which they begin."""
    groups = list(dict.fromkeys(row.group for row in evidence.rows))
    return lambda row: groups.index(row.group)


def _cells(rows: Iterator[Row]) -> Iterator[str]:
    def cell(text: Any) -> str:
        return str(text).replace("|", "\\|").replace("\n", "; ")

    for row in rows:
        status = row.status if not row.detail else f"{row.status}: {row.detail}"
        yield f"| {cell(row.name)} | {cell(row.against)} | {cell(status)} | {cell(row.looked_at)} | {row.seconds:.1f} |"
