"""The record: answers of published networks on each unit."""

from dataclasses import dataclass

from openmxu_studies.spread import Studied


@dataclass(frozen=True)
class Finding:
    """A network on a unit."""

    network: str
    unit: str
    """Their names; ``"onnxruntime"`` is fp32 without a unit."""
    samples: int
    """Number of samples."""
    right: int
    """Number of right answers."""
    changed: int
    """Number of answers that differ from onnxruntime's."""
    lost: float
    """Share of the operands other than zeros that conversion makes zero."""
    cycles: int
    """Cycles of all samples on a 128x128 unit, by the formula."""


@dataclass(frozen=True)
class Pretrained(Studied):
    """All findings, and the terms compared with one."""

    findings: tuple[Finding, ...]
    terms: int = 1


def to_markdown(report: Pretrained) -> str:
    """Return a table for each network."""
    lines = report.opening("pretrained", terms=report.terms)
    for name in dict.fromkeys(finding.network for finding in report.findings):
        rows = [finding for finding in report.findings if finding.network == name]
        lines += [
            "",
            f"## {name[0].upper()}{name[1:]}",
            "",
            f"{rows[0].samples} samples.",
            "",
            "| products by | right | changed | operands lost | cycles of all samples |",
            "|---|--:|--:|--:|--:|",
        ]
        for row in rows:
            cells = [f"{row.right / row.samples:.4f}", str(row.changed)]
            cells += ["", ""] if row.unit == "onnxruntime" else [f"{row.lost:.2g}", f"{row.cycles:,}"]
            lines.append(f"| {row.unit} | {' | '.join(cells)} |")
        if report.terms > 1:
            one, several = rows[-2:]
            apart, spread = several.right - one.right, (one.right * (1 - one.right / one.samples)) ** 0.5
            where = "within" if abs(apart) <= spread else "beyond"
            lines += [
                "",
                f"{report.terms} terms: {apart:+} right, {where} the standard error of so many samples, {spread:.1f}.",
            ]
    return "\n".join(lines) + "\n"
