"""Published networks, asked on each unit."""

import datetime
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from itertools import count as counted
from typing import Any, NamedTuple

from openmxu.export.provenance import provenance
from openmxu.runtime.machine import machine_name
from openmxu_sim.networks.costs import Losses
from openmxu_sim.onnx import Network
from openmxu_sim.onnx.runtime import ModelProto, Session, load
from openmxu_sim.operands.aliases import Progress
from openmxu_studies.packages import from_pypi
from openmxu_studies.pretrained.answers import Finding, Pretrained
from openmxu_studies.pretrained.samples import Samples, files, lines, pages

_Units = Mapping[str, Mapping[str, Any]]
UNITS: _Units = {
    "fp32": {"operand": "fp32"},
    "bf16": {"operand": "bf16"},
    "bf16, high precision": {"operand": "bf16", "precision": "high"},
    "bf16, sums in bf16": {"operand": "bf16", "accumulate": "bf16"},
    "fp16": {"operand": "fp16"},
    "fp8_e4m3": {"operand": "fp8_e4m3"},
    "fp8_e5m2": {"operand": "fp8_e5m2"},
}
"""Numerics of the units that compute the products."""


class Published(NamedTuple):
    """A network and its source; ``samples`` makes samples, their number given, from other files of its package."""

    name: str
    package: str
    license: str
    model: str
    others: tuple[str, ...]
    samples: Callable[..., Samples]

    def fetch(self, count: int) -> tuple[bytes, Samples]:
        """Return the model, and so many samples."""
        model, *others = from_pypi(self.package, [self.model, *self.others])
        return model, self.samples(count, *others)


MAGIKA = Published(
    "kinds of files, by Magika",
    "magika==1.0.3",
    "Apache-2.0",
    "magika/models/standard_v3_3/model.onnx",
    ("magika/models/standard_v3_3/config.min.json", "magika/config/content_types_kb.min.json"),
    files,
)
"""Google's network that tells kinds of files."""

_OCR = "rapidocr-onnxruntime==1.4.4"
_READER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
_PUBLISHED = (
    MAGIKA,
    Published("lines of text, by PP-OCRv4", _OCR, "Apache-2.0", _READER, (_READER,), lines),
    Published(
        "where text is on pages, by PP-OCRv4",
        _OCR,
        "Apache-2.0",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        (),
        pages,
    ),
)
_FULL, _SHORT = (600, 208, 40), (48, 16, 4)
"""Number of samples for each network."""


def pretrained(
    *, full: bool = False, terms: int = 1, threads: int | None = None, progress: Progress | None = None
) -> Pretrained:
    """Ask each network on each unit, or on a bf16 one of one term and one of several."""
    units = {"bf16": UNITS["bf16"], f"bf16, {terms} terms": {"terms": terms}} if terms > 1 else UNITS
    asked = []
    for published, count in zip(_PUBLISHED, _FULL if full else _SHORT, strict=True):
        model, samples = published.fetch(count)
        asked.append((published.name, load(model), samples))
    done = counted(1)
    total = sum(len(samples.batches) for *_, samples in asked) * len(units)

    def note() -> None:
        if progress is not None:
            progress(next(done), total)

    findings = [each for name, model, samples in asked for each in _ask(name, model, samples, units, threads, note)]
    packages = ("numpy", "onnx", "onnxruntime", "matplotlib", "Pillow")
    tools = {**provenance(), "Python": platform.python_version(), **{name: version(name) for name in packages}}
    tools |= {each.name: f"{each.package.replace('==', ' ')}, {each.license}" for each in _PUBLISHED}
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return Pretrained(today, machine_name(), tools, full, tuple(findings), terms)


def _ask(
    name: str, model: ModelProto, samples: Samples, units: _Units, threads: int | None, note: Callable[[], None]
) -> Iterator[Finding]:
    """Ask without a unit first, then on each unit."""
    feed = model.graph.input[0].name
    session = Session(model)
    expected = [answer for batch in samples.batches for answer in samples.answers(*session.run({feed: batch}).values())]
    yield Finding(name, "onnxruntime", len(expected), _same(expected, samples.truth), 0, 0.0, 0)
    for unit, numerics in units.items():
        network = Network(model, **numerics, threads=threads)
        answers: list[Any] = []
        for batch in samples.batches:
            [output] = network.run({feed: batch}).values()
            answers += samples.answers(output)
            note()
        costs = network.report()
        lost = sum((row.losses for row in costs.rows if row.losses is not None), Losses())
        changed = len(answers) - _same(answers, expected)
        share = lost.flushed / max(lost.operands, 1)
        yield Finding(name, unit, len(answers), _same(answers, samples.truth), changed, share, costs.cycles)


def _same(one: list[Any], other: list[Any]) -> int:
    return sum(left == right for left, right in zip(one, other, strict=True))
