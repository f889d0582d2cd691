"""The citation of an area report."""

from openmxu.area.finding.findings import Report


def citation(report: Report) -> list[str]:
    """A BibTeX entry that names all that the figures depend on; empty for a report that does not know its version."""
    if not report.made_by:
        return []
    libraries = {target.library.name: target.library.sha256 for target in report.targets if target.library}
    hashes = ", ".join(f"{name} {sha256[:12]}" for name, sha256 in libraries.items()).replace("_", r"\_")
    tools = "; ".join(dict.fromkeys([report.tool, *(target.timing for target in report.targets if target.timing)]))
    lines = [
        "@software{openmxu,",
        "  title   = {OpenMXU},",
        "  author  = {{The OpenMXU authors}},",
        f"  version = {{{report.made_by}}},",
        f"  note    = {{Area report by {tools}; SHA-256 of libraries: {hashes}}}".replace(
            "; SHA-256 of libraries: }", "}"
        ),
        "}",
    ]
    return [
        "Figures depend on the version of this project, the tools and the cell libraries; this entry names them all. "
        "`openmxu area --explain FIGURE` shows them, and the script, for one figure.",
        "```bibtex\n" + "\n".join(lines) + "\n```",
    ]
