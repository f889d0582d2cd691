"""The record of builds: what each board reached, by which tools, from which state of this project."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from openmxu.host import machine_name
from openmxu.provenance import provenance
from openmxu_boards.report import BuildReport

__all__ = ["add", "of_json", "to_markdown"]

_LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4", "CPE_LT")
_FLIP_FLOPS = ("TRELLIS_FF", "DFF", "CPE_FF")
_MULTIPLIERS = ("ICESTORM_DSP", "MULT18X18D", "CPE_MULT")
_MEMORIES = ("ICESTORM_RAM", "DP16KD", "BSRAM", "RAM_HALF")


def add(record: str, report: BuildReport) -> str:
    """A record in JSON with a build in it, in place of one of the same board and the same size of array.

    Parameters
    ----------
    record
        The record, or nothing where there is none yet.
    report
        The build.

    Raises
    ------
    ValueError
        It is no record.
    """
    entry = json.loads(report.to_json())
    entry["date"] = datetime.now(UTC).date().isoformat()
    entry["machine"] = machine_name()
    entry["tools"] = provenance()
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


def _key(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    return entry["board"], entry["unit"]["rows"], entry["unit"]["columns"]


def to_markdown(builds: Sequence[Mapping[str, Any]]) -> str:
    """A table of builds."""
    lines = [
        "| board | unit | stages | clock, MHz | reached, MHz | seed | logic | flip-flops | multipliers | memories | "
        "seconds | built |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for build in builds:
        unit, used = build["unit"], {each["kind"]: each for each in build["utilisation"]}
        cells = [_cell(used, kinds) for kinds in (_LOGIC, _FLIP_FLOPS, _MULTIPLIERS, _MEMORIES)]
        seconds = sum(build["seconds"].values())
        where = build["tools"]["OpenMXU"].rpartition("commit ")[2]
        lines.append(
            f"| `{build['board']}` | {unit['rows']}x{unit['columns']}, {unit['source']} in | {unit['stages']} | "
            f"{build['frequency'] / 1e6:g} | {build['megahertz'][str(build['seed'])]:.1f} | {build['seed']} | "
            f"{' | '.join(cells)} | {seconds:.0f} | {build['date']}, {where} |"
        )
    tools = sorted({f"{name} {version}" for build in builds for name, version in build["versions"].items()})
    machines = sorted({build["machine"] for build in builds})
    return "\n".join([*lines, "", f"By {', '.join(tools)}; on {'; '.join(machines)}."]) + "\n"


def _cell(used: Mapping[str, Mapping[str, Any]], kinds: Sequence[str]) -> str:
    found = [used[kind] for kind in kinds if kind in used]
    if not found:
        return "-"
    [cells] = found
    return f"{cells['used']:,}" + (f" ({cells['used'] / cells['available']:.0%})" if cells["available"] else "")
