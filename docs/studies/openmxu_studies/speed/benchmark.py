"""All measurements in one run, and the figures that follow from them."""

import datetime
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

from openmxu.export.provenance import provenance
from openmxu.pages.tables import counted
from openmxu.runtime import process
from openmxu.runtime.machine import Record, cores, machine_name, of_plain, tool_version
from openmxu.runtime.native import compiler_version
from openmxu_sim.cosim.simulators import find_simulator, load_simulator
from openmxu_studies.speed.measure import (
    NETWORKS,
    ROW_ENGINE,
    Clocked,
    Ratio,
    Trained,
    Whole,
    measure_clocked,
    measure_command,
    measure_model,
    measure_training,
)

SIZES = (4, 8, 16, 32, 64, 128, 256)
"""Rows and columns of the units that are measured."""

_ROW_SIZES = (16, 128)
_SLOW = ("pysim", "icarus", "verilator")
_QUICK_SIZES = (4, 16, 64)

_LIMIT = 2 * 3600.0
"""Seconds after which a measurement is stopped. The longest take a few minutes."""

_KINDS: dict[Callable[..., Any], type] = {
    measure_clocked: Clocked,
    measure_command: Whole,
    measure_model: Ratio,
    measure_training: Trained,
}

_NAMES = dict(zip(("engines", "command", "products", "training"), _KINDS, strict=True))
"""Measurements by the names of the option ``--only``."""

_T = TypeVar("_T", Clocked, Whole, Ratio, Trained)

_CUBE = (1024, 1024, 1024)
_PRODUCTS = (
    *((size, "bf16", "fp32", 1) for size in ((512,) * 3, (32, 64, 64), (64, 784, 256), (256,) * 3, _CUBE, (2048,) * 3)),
    *((_CUBE, operand, "fp32", 1) for operand in ("fp16", "fp8_e4m3", "fp32")),
    (_CUBE, "bf16", "bf16", 1),
    (_CUBE, "bf16", "fp32", 2),
)
"""Products for the model: sizes, operands, sums, threads."""


@dataclass(frozen=True)
class Figure:
    """A figure with a goal."""

    what: str
    """Description of the figure."""
    value: str
    """The measured value, with its unit."""
    least: str
    aim: str
    """The minimum, and the aim."""
    reached: str
    """``"aim"``, ``"minimum"`` or ``"no"``.
    """


@dataclass(frozen=True)
class Report(Record):
    """The measurements of a run."""

    date: str
    machine: str
    seconds: float
    """Date, machine, and duration of the run."""
    tools: Mapping[str, str]
    """Versions, by name; those of :func:`openmxu.export.provenance.provenance` come first."""
    clocked: tuple[Clocked, ...]
    products: tuple[Whole, ...]
    ratios: tuple[Ratio, ...]
    """The measurements."""
    notes: tuple[str, ...]
    """Measurements that were left out, and why."""
    trained: tuple[Trained, ...] = ()
    """Training steps; older records have none."""

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Return the report that :meth:`to_json` wrote."""
        fields = json.loads(text)
        report: Self = of_plain(cls, fields | {"ratios": [_ratio(**ratio) for ratio in fields.get("ratios", ())]})
        return report

    def find(self, engine: str, size: int, threads: int = 1) -> Clocked | None:
        """Return a measurement, or ``None`` if it was not made."""
        return next(
            (run for run in self.clocked if (run.engine, run.size, run.threads) == (engine, size, threads)), None
        )

    def figures(self) -> list[Figure]:
        """Return the figures with goals for which there are measurements."""
        return [*self._rates(), *self._waits(), *self._comparisons(), *self._model(), *self._training()]

    def _rates(self) -> Iterator[Figure]:
        """Yield cycles per second of the largest unit."""
        one, row = self.find("compiled", 128), self.find(ROW_ENGINE, 128)
        if one and row:
            times = one.rate / row.rate
            yield _figure("compiled, 128x128, one thread, against Verilator by rows", times, 60, 250, "{:.0f} x")
        if one:
            least = 12000 if any(name in self.tools["C compiler"].lower() for name in ("clang", "zig")) else 8000
            yield _figure("compiled, 128x128, one thread, cycles per second", one.rate, least, 50000, "{:.0f}")
        most = max(
            (run for run in self.clocked if (run.engine, run.size) == ("compiled", 128)),
            key=lambda run: run.threads,
            default=None,
        )
        if most and most.threads > 1:
            yield _figure(f"the same on {most.threads} threads", most.rate, 8000, 50000, "{:.0f}")

    def _waits(self) -> Iterator[Figure]:
        """Yield seconds that a user waits for a product."""
        whole = next((product for product in self.products if product.engine == "compiled"), None)
        if whole:
            what = "openmxu matmul, 512x512x512 on 128x128, compiled before, seconds"
            yield _figure(what, whole.seconds, 1.5, 0.5, "{:.2f}", less=True)
            yield _figure("its first use, compiling included, seconds", whole.first, 5, 2, "{:.2f}", less=True)

    def _comparisons(self) -> Iterator[Figure]:
        """Yield speeds relative to each other."""
        small, large = self.find("compiled", 16), self.find("compiled", 256)
        if small and large:
            times = large.updates / small.updates
            yield _figure("updates per second at N = 256 against N = 16, one thread", times, 0.7, 1, "{:.2f} x")

    def _model(self) -> Iterator[Figure]:
        """Yield speeds of the model relative to numpy's, and to its own."""
        ratios = {(row.m, row.k, row.n, row.operand, row.accumulate, row.threads): row for row in self.ratios}
        for size, least, aim in (((64, 784, 256), 0.3, 0.5), ((512, 512, 512), 0.4, 0.6), (_CUBE, 0.5, 0.8)):
            if (ratio := ratios.get((*size, "bf16", "fp32", 1))) is not None:
                what = f"model against numpy's float32 product, {'x'.join(map(str, size))}, one thread"
                yield _figure(what, ratio.speed, least, aim, "{:.2f} x")
        if (ratio := ratios.get((32, 64, 64, "bf16", "fp32", 1))) is not None:
            yield _figure("model, 32x64x64, microseconds", ratio.model * 1e6, 50, 20, "{:.0f}", less=True)
        plain = ratios.get((*_CUBE, "bf16", "fp32", 1))
        for what, key, least, aim in (
            ("fp16 operands", ("fp16", "fp32", 1), 1.1, 1.0),
            ("fp8_e4m3 operands", ("fp8_e4m3", "fp32", 1), 1.1, 1.0),
            ("fp32 operands", ("fp32", "fp32", 1), 1.1, 1.0),
            ("bf16 sums", ("bf16", "bf16", 1), 6.0, 4.0),
            ("two threads", ("bf16", "fp32", 2), 0.625, 0.55),
        ):
            if plain is not None and (other := ratios.get((*_CUBE, *key))) is not None:
                times = other.model / plain.model
                yield _figure(f"model, time of 1024x1024x1024 with {what}", times, least, aim, "{:.2f} x", less=True)

    def _training(self) -> Iterator[Figure]:
        """Yield times of training steps relative to PyTorch's."""
        for run in self.trained:
            if run.threads == 1:
                what = f"training step against PyTorch's, {run.network}, one thread"
                yield _figure(what, run.times, 3, 1.5, "{:.2f} x", less=True)


def _ratio(**fields: Any) -> dict[str, Any]:
    """Return a ratio that was written; ratios of 0.1.0 were of square matrices only."""
    if "size" in fields:
        size = fields.pop("size")
        fields |= {"m": size, "k": size, "n": size, "operand": "bf16", "accumulate": "fp32", "threads": 1}
    return fields


def _figure(what: str, value: float, least: float, aim: float, form: str, *, less: bool = False) -> Figure:
    def holds(bound: float) -> bool:
        return value <= bound if less else value >= bound

    reached = "aim" if holds(aim) else "minimum" if holds(least) else "no"
    return Figure(what, form.format(value), f"{least:g}", f"{aim:g}", reached)


def bench(
    *,
    quick: bool = False,
    only: str | None = None,
    limit: float = 60.0,
    note: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Measure all engines that are installed, or one kind of measurement. Leave the machine alone meanwhile."""
    tools = _tools()
    start = time.monotonic()
    jobs = [job for job in _jobs(tools, quick=quick) if only is None or job[0] is _NAMES[only]]
    results: list[Clocked | Whole | Ratio | Trained] = []
    notes: list[str] = []
    for done, (measure, arguments) in enumerate(jobs):
        progress(done, len(jobs))
        expected = _expect(results, arguments) if measure is measure_clocked else 0.0
        if expected > limit:
            notes.append(f"{arguments[0]} on {arguments[1]}x{arguments[1]} left out: about {expected:.0f} s")
            note(notes[-1])
        else:
            results.append(_alone(measure, *arguments))
    progress(len(jobs), len(jobs))
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return Report(
        today,
        machine_name(),
        time.monotonic() - start,
        tools,
        _of(Clocked, results),
        _of(Whole, results),
        _of(Ratio, results),
        tuple(notes),
        _of(Trained, results),
    )


def _jobs(tools: Mapping[str, str], *, quick: bool) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return the measurements, with their arguments; of each engine the small sizes first."""
    threads = cores()
    sizes = _QUICK_SIZES if quick else SIZES
    jobs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        *((measure_clocked, ("compiled", size, 1)) for size in sizes),
        *((measure_clocked, ("compiled", size, threads)) for size in sizes if size >= 64 and threads > 1),
        *(
            (measure_clocked, (engine, size, 1))
            for engine in _SLOW
            if engine == "pysim" or engine in tools
            for size in sizes
            if size <= 64
        ),
    ]
    if not quick:
        jobs += [(measure_clocked, (ROW_ENGINE, size, 1)) for size in _ROW_SIZES if "verilator" in tools]
        jobs += [(measure_command, (engine, runs)) for engine, runs in (("compiled", 7), ("model", 7), ("golden", 3))]
        networks = NETWORKS if find_spec("torch") else ()
        jobs += [(measure_training, (name, count)) for name in networks for count in sorted({1, min(2, threads)})]
    return jobs + [(measure_model, product) for product in (_PRODUCTS[:1] if quick else _PRODUCTS)]


def _expect(results: list[Clocked | Whole | Ratio | Trained], arguments: tuple[Any, ...]) -> float:
    """Estimate the seconds of a measurement, by the engine's last one; 0 where there was none.

    The work of Verilator and Amaranth grows with the number of processing elements; the reference by rows, which has a
    fixed list of sizes, and the compiled engine are always waited for.
    """
    engine, size, _ = arguments
    last = next((run for run in reversed(results) if isinstance(run, Clocked) and run.engine == engine), None)
    if engine not in _SLOW:
        return 0.0
    if last is None:
        # A size left out rules out those above it; sizes come in order, so the first one is always tried.
        return 0.0
    return (last.build + last.seconds) * (size / last.size) ** 2


def _of(kind: type[_T], results: list[Any]) -> tuple[_T, ...]:
    return tuple(result for result in results if isinstance(result, kind))


def _alone(measure: Callable[..., Any], *arguments: Any) -> Any:
    """Run a measurement in a process of its own, with an empty cache, and numpy on one thread."""
    what = " ".join(str(argument) for argument in arguments)
    with _environment() as environment:
        fields = process.call(
            measure, *arguments, what=f"the measurement of {what}", limit=_LIMIT, environment=environment
        )
    return _KINDS[measure](**fields)


@contextmanager
def _environment() -> Iterator[dict[str, str]]:
    """Yield an environment with an empty cache of ours. Other caches stay: Yosys takes half a minute to get ready."""
    with process.workspace() as directory:
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        for other in own.iterdir() if own.is_dir() else ():
            if other.name != "openmxu":
                (directory / other.name).symlink_to(other)
        # OpenBLAS chooses its kernel by itself: variables that some machines set make numpy half as fast.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        yield kept | {"XDG_CACHE_HOME": str(directory), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _tools() -> dict[str, str]:
    """Return the versions of the tools on this machine."""
    tools = {**provenance(), "Python": platform.python_version(), "C compiler": compiler_version()}
    tools |= {name: importlib.metadata.version(name) for name in ("numpy", "amaranth", "torch") if find_spec(name)}
    for name in ("verilator", "icarus"):
        if find_simulator(name) is not None:
            tools[name] = load_simulator(name).tools
    return tools


def to_markdown(report: Report) -> str:
    """Return the report as tables."""
    lines = [
        f"`openmxu bench`, {report.date}, {report.machine}, {report.seconds / 60:.0f} minutes. "
        + "; ".join(tool_version(name, version) for name, version in report.tools.items())
        + ".",
        "",
        "| figure | measured | minimum | aim | reached |",
        "|---|--:|--:|--:|---|",
        *(f"| {row.what} | {row.value} | {row.least} | {row.aim} | {row.reached} |" for row in report.figures()),
        "",
        "| engine | N | threads | build, s | cycles | run, s | cycles/s | updates/s, million | MiB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {row.engine} | {row.size} | {row.threads} | {row.build:.2f} | {row.cycles} | {row.seconds:.3g} "
            f"| {row.rate:,.0f} | {row.updates / 1e6:.3g} | {row.memory:.0f} |"
            for row in report.clocked
        ),
    ]
    if report.products:
        lines += [
            "",
            "| `openmxu matmul`, 512x512x512 on 128x128 | first use, s | then, s | MiB |",
            "|---|--:|--:|--:|",
            *(f"| {row.engine} | {row.first:.2f} | {row.seconds:.2f} | {row.memory:.0f} |" for row in report.products),
        ]
    lines += _ratios(report.ratios)
    lines += _steps(report.trained)
    if report.notes:
        lines += ["", *(f"- {line}" for line in report.notes)]
    return "\n".join([*lines, ""])


def _ratios(ratios: Sequence[Ratio]) -> Iterator[str]:
    """Yield the model beside numpy, as lines of a table."""
    if not ratios:
        return
    yield from (
        "",
        "Beside numpy's `@` of float32 matrices on one thread:",
        "",
        "| product | operands | sums | threads | model, ms | numpy, ms | model's speed in numpy's |",
        "|---|---|---|--:|--:|--:|--:|",
    )
    for ratio in ratios:
        yield (
            f"| {ratio.m}x{ratio.k}x{ratio.n} | {ratio.operand} | {ratio.accumulate} | {ratio.threads} "
            f"| {ratio.model * 1e3:.3g} | {ratio.numpy * 1e3:.3g} | {ratio.speed:.2f} |"
        )
    if kernels := {ratio.kernel for ratio in ratios if ratio.kernel}:
        yield from ("", f"numpy's OpenBLAS chose its kernel by itself: {', '.join(sorted(kernels))}.")


def _steps(trained: Sequence[Trained]) -> Iterator[str]:
    """Yield training steps beside PyTorch's, as lines of a table."""
    if trained:
        yield from (
            "",
            "A training step, forward and backward, in the unit's context beside PyTorch's own:",
            "",
            "| network | threads | on the unit, ms | PyTorch, ms | times |",
            "|---|--:|--:|--:|--:|",
        )
    for run in trained:
        yield f"| {run.network} | {run.threads} | {run.unit * 1e3:.3g} | {run.plain * 1e3:.3g} | {run.times:.2f} |"


def compare(old: Report, new: Report) -> str:
    """Return measurements of both reports as a table. Speeds of two machines, or two days, differ by themselves."""
    lines = [
        f"Before: {old.date}, {old.machine}. Now: {new.date}, {new.machine}. Cycles per second, or seconds.",
        "",
        "| measurement | before | now | times as fast |",
        "|---|--:|--:|--:|",
    ]
    for run in new.clocked:
        if (before := old.find(run.engine, run.size, run.threads)) is not None:
            what = f"{run.engine}, {run.size}x{run.size}, {counted(run.threads, 'thread')}"
            lines.append(f"| {what} | {before.rate:,.0f} | {run.rate:,.0f} | {run.rate / before.rate:.2f} |")
    products = {run.engine: run for run in old.products}
    for whole in new.products:
        if (earlier := products.get(whole.engine)) is not None:
            times = f"{earlier.seconds:.2f} s | {whole.seconds:.2f} s | {earlier.seconds / whole.seconds:.2f}"
            lines.append(f"| `openmxu matmul`, {whole.engine} | {times} |")
    return "\n".join(lines) + "\n"


def read_report(path: Path) -> Report:
    """Read an earlier report, for a comparison."""
    try:
        report = Report.of_json(path.read_text())
        compare(report, report)  # whatever is wrong with it shows now, not after ten minutes
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must be what `openmxu bench --json` wrote: {error!r}") from error
    return report
