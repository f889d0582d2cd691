"""The origin of a figure of an area report: everything that is needed to repeat it."""

from collections.abc import Iterator, Mapping
from typing import Any


def explain(report: Mapping[str, Any], figure: str) -> str:
    """Design, target, tools and script of the figure, in words."""
    runs = [run for run in _runs(report) if run["figure"].startswith(figure) or figure in (run["top"], run["name"])]
    of_design = [entry for entry in report["catalog"] if entry["design"] == figure]
    runs += [term for entry in of_design for term in entry["terms"] if term not in runs]
    if not runs or not figure:
        raise ValueError(f"explain must be a figure or a design of the report, not {figure!r}")
    return "\n".join(_words(report, run) for run in runs)


def _runs(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Each run once, even if several designs share it."""
    seen = set()
    terms = (term for entry in report["catalog"] for term in entry["terms"])
    for run in [*report["results"], *report.get("reordered", ()), *terms]:
        if run["figure"] not in seen:
            seen.add(run["figure"])
            yield run


def _words(report: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    place = run["target"], run["recipe"]
    target = next(each for each in report["targets"] if (each["name"], each["recipe"]) == place)
    library = target["library"]
    energies = [_energy(each) for each in report.get("energies", ()) if each["figure"] == run["figure"]]
    options = ", ".join(f"{name} {value}" for name, value in run["options"].items())
    count = f"{run['count']} times " if "count" in run else ""
    area = f"{run['area']:,g} {run['unit']}" if run["area"] is not None else f"failed: {run['error']}"
    lines = [
        f"figure {run['figure']}: {count}{run['top']}, {area}",
        f"  design   {run['name']}{f', {options}' if options else ''}",
        f"  RTLIL    sha256 {run['rtlil_sha256']}",
        f"  target   {run['target']}, {target['title']}" + (f", recipe {target['recipe']}" if target["recipe"] else ""),
        f"  library  {library['name']}, sha256 {library['sha256']}" if library else "  library  none",
        f"  tool     {', '.join(filter(None, [report['tool'], target.get('timing')]))}",
        *([f"  by       OpenMXU {report['openmxu']}"] if report.get("openmxu") else []),
        *energies,
        "  script",
        *(f"    {line}" for line in run["script"].strip().splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _energy(energy: Mapping[str, Any]) -> str:
    """The energy of the same netlist, which the script leaves and `write_json` shows."""
    if energy["error"]:
        return f"  energy   {energy['operands']}: {energy['error']}"
    one = energy.get("multiply_add") or energy["total"]
    text = "" if one == energy["total"] else f", {one:.2f} for each multiply-add"
    return (
        f"  energy   {energy['operands']}: {energy['total']:.2f} pJ a cycle{text}, clock pins {energy['clock']:.2f}, "
        f"flip-flops {energy['flip_flops']:.2f}, gates {energy['logic']:.2f}; each net once {energy['at_once']:.2f}; "
        f"{energy['cycles']:,} cycles of each of {energy['seeds']} seeds, ± {energy['spread']:.1%}"
    )
