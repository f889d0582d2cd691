"""The record of builds: the figures of each board, with the tools and the state of this project."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

from openmxu_boards.bitstream.placement import described
from openmxu_boards.bitstream.report import BuildReport, LongestPath
from openmxu_boards.families import FAMILIES
from openmxu_boards.simulated.throughput import Throughput

PLACEMENTS = "placements"
"""The folder beside a record for the drawings of its builds."""

LIMITS = 0.9
"""A part that is busy for more than this fraction of the time limits the rest."""

_KINDS = tuple(zip(*(family.cells for family in FAMILIES), strict=True))
"""Names of cells for the columns logic, flip-flops, multipliers, memories."""


def add(record: str, report: BuildReport, throughput: Throughput | None = None) -> str:
    """A record in JSON with a build in it, in place of one of the same board, design and size of array."""
    made = entry(report.to_json(), throughput)
    kept = [build for build in (of_json(record) if record else []) if _key(build) != _key(made)]
    return json.dumps({"builds": sorted([*kept, made], key=_key)}, indent=1) + "\n"


def entry(report: str, throughput: Throughput | None = None) -> dict[str, Any]:
    """A build in the form of a record, from its report in JSON."""
    try:
        build: dict[str, Any] = json.loads(report)
        to_markdown([build | {"throughput": None}])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"it was not written by this version of openmxu board build: {error!r}") from None
    return build | {"throughput": throughput and asdict(throughput)}


def drawing_name(build: Mapping[str, Any]) -> str:
    """The name of the file with a build's drawing, unique among builds."""
    return re.sub(r"[^\w.]+", "-", f"{build['board']}-{build['design']}-{size(build['unit'])}.svg")


def of_json(record: str) -> list[dict[str, Any]]:
    try:
        builds: list[dict[str, Any]] = json.loads(record)["builds"]
        list(map(_key, builds))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"json must be a record of builds, not {record[:40]!r}: {error}") from None
    return builds


def _key(entry: Mapping[str, Any]) -> tuple[str, str, int, int, int]:
    unit = entry["unit"]
    return entry["board"], entry["design"], unit["rows"], unit["columns"], unit.get("terms", 1)


def to_markdown(builds: Sequence[Mapping[str, Any]], drawings: str = "", heading: str = "##") -> str:
    """Tables of builds and of the throughput of systems; then a drawing of each build, and its limits."""
    parts = [part for build in builds for part in _one(build, drawings, heading)]
    return "\n".join([*_tables(builds), *parts]) + "\n"


def _tables(builds: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| board | design | unit | stages | clock, MHz | Fmax, MHz | logic | flip-flops | multipliers | memories |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for build in builds:
        unit, used = build["unit"], {usage["kind"]: usage for usage in build["utilisation"]}
        cells = [_cell(used, kinds) for kinds in _KINDS]
        lines.append(
            f"| `{build['board']}` | {build['design']} | {size(unit)} | {unit['stages']} | "
            f"{build['frequency'] / 1e6:g} | {reached(build):.1f} | {' | '.join(cells)} |"
        )
    tools = sorted({f"{name} {version}" for build in builds for name, version in build["versions"].items()})
    machines = sorted({build["machine"] for build in builds})
    return [*lines, "", f"By {', '.join(tools)}; on {'; '.join(machines)}.", *_throughput(builds)]


def _one(build: Mapping[str, Any], drawings: str, heading: str) -> list[str]:
    title = f"{build['board']}, {build['design']}, {size(build['unit'])}"
    path, seeds = build["path"], build["megahertz"].items()
    commit = build["tools"]["OpenMXU"].rpartition("commit ")[2]
    lines = ["", f"{heading} {title}", "", f"![Where the parts of {title} lie]({drawings}{drawing_name(build)})", ""]
    lines += [f"- At {build['frequency'] / 1e6:g} MHz the array does at most {peak(build):.2f} GFLOP/s."]
    if path is not None:
        longest = LongestPath(**path)
        lines += [f"- Its clock is limited by {longest.figures}: from {_code(longest.start)} to {_code(longest.end)}."]
    if build["throughput"] is not None:
        speed = Throughput(**build["throughput"])
        limit = (
            "the UART"
            if speed.line > LIMITS
            else "the array"
            if speed.unit > LIMITS
            else "neither the UART nor the array alone"
        )
        lines += [
            f"- For a host, {limit} limits it: bytes are on the UART {speed.line:.0%} of the time, and the array is "
            f"fed {speed.unit:.2%} of it."
        ]
    return [
        *lines,
        f"- Operands come in {build['unit']['source']}. Built on {build['date']} from {commit} in "
        f"{sum(build['seconds'].values()):.0f} s.",
        f"- Seeds of nextpnr: {', '.join(f'{seed}: {clock:.1f} MHz' for seed, clock in seeds)}; the bitstream is of "
        f"seed {build['seed']}.",
    ]


def _code(cell: str) -> str:
    signal, of, part = described(cell).partition(" of ")
    return f"`{signal}`{of}{part}"


def _throughput(builds: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the array's peak at its clock, and of the throughput for a host."""
    measured = [build for build in builds if build["throughput"] is not None]
    if not measured:
        return []
    lines = [
        "",
        "| board | unit | array at its clock, GFLOP/s | product | for a host, MFLOP/s | seconds | UART busy | "
        "array busy |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    for build in measured:
        unit, speed = build["unit"], Throughput(**build["throughput"])
        product = f"{speed.side}x{speed.side}x{speed.side} at {speed.baud:,} baud"
        lines.append(
            f"| `{build['board']}` | {size(unit)} | {peak(build):.2f} | {product} | {speed.flops / 1e6:.2f} | "
            f"{speed.seconds:.2f} | {speed.line:.0%} | {speed.unit:.2%} |"
        )
    return lines


def peak(build: Mapping[str, Any]) -> float:
    """Throughput of the array at its clock if it is always fed, in GFLOP/s."""
    sizes = build["unit"]["rows"], build["unit"]["columns"], build["frequency"]
    return 2 * prod(map(float, sizes)) / 1e9


def reached(build: Mapping[str, Any]) -> float:
    """The highest clock of the bitstream according to nextpnr, in MHz."""
    return float(build["megahertz"][str(build["seed"])])


def size(unit: Mapping[str, Any]) -> str:
    """Rows and columns of a unit, and the terms of its elements if they are several."""
    terms = f", {unit['terms']} terms" if "terms" in unit else ""
    return f"{unit['rows']}x{unit['columns']}{terms}"


def _cell(used: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]) -> str:
    usages = [used[kind] for kind in kinds if kind in used]
    if not usages:
        return "-"
    [cells] = usages
    return f"{cells['used']:,}" + (f" ({cells['used'] / cells['available']:.0%})" if cells["available"] else "")
