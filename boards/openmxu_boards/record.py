"""The record of builds: what each board reached, by which tools, from which state of this project."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from openmxu.host import machine_name
from openmxu.provenance import provenance
from openmxu_boards.report import BuildReport
from openmxu_boards.simulated.throughput import Throughput

__all__ = ["add", "of_json", "to_markdown"]

_LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4", "CPE_LT")
_FLIP_FLOPS = ("TRELLIS_FF", "DFF", "CPE_FF")
_MULTIPLIERS = ("ICESTORM_DSP", "MULT18X18D", "CPE_MULT")
_MEMORIES = ("ICESTORM_RAM", "DP16KD", "BSRAM", "RAM_HALF")


def add(record: str, report: BuildReport, throughput: Throughput | None = None) -> str:
    """A record in JSON with a build in it, in place of one of the same board, design and size of array.

    Parameters
    ----------
    record
        The record, or nothing where there is none yet.
    report
        The build.
    throughput
        What the system reaches at its simulated pins.

    Raises
    ------
    ValueError
        It is no record.
    """
    entry = json.loads(report.to_json())
    entry["date"] = datetime.now(UTC).date().isoformat()
    entry["machine"] = machine_name()
    entry["tools"] = provenance()
    entry["throughput"] = None if throughput is None else throughput.as_dict()
    kept = [each for each in (of_json(record) if record else []) if _key(each) != _key(entry)]
    return json.dumps({"builds": sorted([*kept, entry], key=_key)}, indent=1) + "\n"


def of_json(record: str) -> list[dict[str, Any]]:
    """The builds of a record.

    Raises
    ------
    ValueError
        It is no record.
    """
    try:
        found: list[dict[str, Any]] = json.loads(record)["builds"]
        list(map(_key, found))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"json must be a record of builds, not {record[:40]!r}: {error}") from None
    return found


def _key(entry: Mapping[str, Any]) -> tuple[str, str, int, int]:
    return entry["board"], entry["design"], entry["unit"]["rows"], entry["unit"]["columns"]


def to_markdown(builds: Sequence[Mapping[str, Any]]) -> str:
    """Tables of builds, and of what systems reach."""
    lines = [
        "| board | design | unit | stages | clock, MHz | reached, MHz | seed | logic | flip-flops | multipliers | "
        "memories | seconds | built |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for build in builds:
        unit, used = build["unit"], {each["kind"]: each for each in build["utilisation"]}
        cells = [_cell(used, kinds) for kinds in (_LOGIC, _FLIP_FLOPS, _MULTIPLIERS, _MEMORIES)]
        seconds = sum(build["seconds"].values())
        where = build["tools"]["OpenMXU"].rpartition("commit ")[2]
        lines.append(
            f"| `{build['board']}` | {build['design']} | {_size(unit)}, {unit['source']} in | {unit['stages']} | "
            f"{build['frequency'] / 1e6:g} | {build['megahertz'][str(build['seed'])]:.1f} | {build['seed']} | "
            f"{' | '.join(cells)} | {seconds:.0f} | {build['date']}, {where} |"
        )
    tools = sorted({f"{name} {version}" for build in builds for name, version in build["versions"].items()})
    machines = sorted({build["machine"] for build in builds})
    lines += ["", f"By {', '.join(tools)}; on {'; '.join(machines)}.", *_throughput(builds)]
    return "\n".join(lines) + "\n"


def _throughput(builds: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the array could do at its clock, and what a host gets."""
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
        unit, found = build["unit"], Throughput(**build["throughput"])
        peak = 2 * unit["rows"] * unit["columns"] * build["frequency"] / 1e9
        product = f"{found.side}x{found.side}x{found.side} at {found.baud:,} baud"
        lines.append(
            f"| `{build['board']}` | {_size(unit)} | {peak:.2f} | {product} | {found.flops / 1e6:.2f} | "
            f"{found.seconds:.2f} | {found.line:.0%} | {found.unit:.2%} |"
        )
    return lines


def _size(unit: Mapping[str, Any]) -> str:
    return f"{unit['rows']}x{unit['columns']}"


def _cell(used: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]) -> str:
    found = [used[kind] for kind in kinds if kind in used]
    if not found:
        return "-"
    [cells] = found
    return f"{cells['used']:,}" + (f" ({cells['used'] / cells['available']:.0%})" if cells["available"] else "")
