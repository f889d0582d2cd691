"""The measurements, each to be run in a process of its own."""

import resource
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np

from openmxu.runtime import process
from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines import compiled, load, load_product, quickest_product
from openmxu_sim.engines.compiled.model import load_model
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.aliases import Floats
from openmxu_sim.operands.stimulus import Stimulus, collect, stimulus

ROW_ENGINE = "verilator, by rows"
"""Verilator with a row of the array compiled once and driven by C++: :mod:`openmxu_studies.speed.hierarchical`."""

_BEATS = 512
_FEW_TILES = {"pysim": 1, "icarus": 1}
"""Tiles of the work on engines that are a thousand times slower than others, where more would take too long."""

_TILES = 16

_ENOUGH = 0.5
"""Seconds after which no run is added to the least number of runs."""

_LIMIT = 3600.0
"""Seconds after which a command is stopped."""

_RUNS = 3
_TURNS, _TURN = 9, 1 << 28
"""Number of turns of the model and of numpy, and multiply-adds of a turn, in which small products are repeated."""

_LONG = 10.0
"""Seconds of a run from which on one run is enough."""


NETWORKS = {
    "ResNet18, 32 images of 32x32": "resnet18",
    "MobileNetV3-small, 16 images of 64x64": "mobilenet",
    "LSTM, 2 layers of 256, 64 steps of 32": "lstm",
    "Mamba, 2 blocks of 128, 2x64 steps": "mamba",
    "GPT-2, 6 layers of 384, 4x128 letters": "gpt2",
}
"""Networks to train, and the function of ``trained`` that makes each. Only who measures one imports PyTorch: a process
begins with the memory of the one that started it."""


@dataclass(frozen=True)
class Clocked:
    """Speed of an engine with a clock on an N x N unit."""

    engine: str
    size: int
    threads: int
    """The engine, N, and its threads."""
    build: float
    """Seconds until it can run, with an empty cache."""
    cycles: int
    """Cycles of the work."""
    seconds: float
    """Median time of a run."""
    runs: int
    """Number of runs."""
    memory: float
    """Most MiB, Python and the operands included."""

    @property
    def rate(self) -> float:
        """Cycles per second."""
        return self.cycles / self.seconds

    @property
    def updates(self) -> float:
        """Processing elements times cycles, per second."""
        return self.rate * self.size**2


@dataclass(frozen=True)
class Whole:
    """Time of ``openmxu matmul`` for 512x512x512 on a 128x128 unit, from its start to its end."""

    engine: str
    """The engine."""
    first: float
    seconds: float
    """Seconds with nothing in the cache, and the median of later runs."""
    memory: float
    """Most MiB."""


@dataclass(frozen=True)
class Ratio:
    """The model beside numpy's own product of float32 matrices, which is on one thread."""

    m: int
    k: int
    n: int
    """Sizes of the matrices; the array has 128 rows."""
    operand: str
    accumulate: str
    threads: int
    """The model's formats and threads."""
    model: float
    numpy: float
    """Seconds, medians of runs that took turns."""
    kernel: str = ""
    """Kernel that numpy's OpenBLAS chose for this processor; empty where that is not known."""

    @property
    def is_plain(self) -> bool:
        """Whether the model has the unit's own arithmetic, on one thread."""
        return (self.operand, self.accumulate, self.threads) == ("bf16", "fp32", 1)

    @property
    def speed(self) -> float:
        """The model's speed in units of numpy's."""
        return self.numpy / self.model


@dataclass(frozen=True)
class Trained:
    """A training step on the unit beside PyTorch's own: forward and backward."""

    network: str
    threads: int
    """The network, and the threads of both."""
    unit: float
    plain: float
    """Seconds, medians of steps that took turns."""
    steps: int
    """Number of steps of each."""

    @property
    def times(self) -> float:
        """The unit's time in units of PyTorch's."""
        return self.unit / self.plain


def measure_clocked(engine: str, size: int, threads: int) -> Clocked:
    """Run one tile, or several, on an N x N unit; the operands are normally distributed."""
    config = MxuConfig(rows=size, columns=size)
    a, b = _operands(_BEATS, _FEW_TILES.get(engine, _TILES) * size, size)
    inputs = stimulus(config, golden.to_bits(a), golden.to_bits(b))
    run, build, times = _MEASURES.get(engine, _measure_simulator)(engine, inputs, threads)
    memory = _memory()  # before the check below, which has its own
    expected = golden.to_bits(load_product(quickest_product())(a, b, rows=size))
    if not np.array_equal(collect(config, run.beats, len(a), *b.shape), expected):
        raise RuntimeError(f"{engine} on {size}x{size} gives other bits than the golden model")
    if run.cycles != cycles(config, len(a), *b.shape):
        raise RuntimeError(f"{engine} on {size}x{size} takes {run.cycles} cycles, which is not what the formula says")
    return Clocked(engine, size, threads, build, run.cycles, statistics.median(times), len(times), memory)


def _measure_simulator(engine: str, inputs: Stimulus, threads: int) -> tuple[Run, float, list[float]]:
    """Return a run, seconds of the build, and seconds of further runs; the first run builds, too."""
    start = time.perf_counter()
    run = load(engine)(inputs)
    first = time.perf_counter() - start
    if engine == "pysim":  # builds each time
        return run, 0.0, [first]
    times = _repeat(lambda: load(engine)(inputs))
    return run, max(0.0, first - statistics.median(times)), times


def _measure_compiled(engine: str, inputs: Stimulus, threads: int) -> tuple[Run, float, list[float]]:
    start = time.perf_counter()
    load_model(inputs.config)
    build = time.perf_counter() - start
    run = compiled.run(inputs, threads=threads)
    return run, build, _repeat(lambda: compiled.run(inputs, threads=threads))


def _measure_by_rows(engine: str, inputs: Stimulus, threads: int) -> tuple[Run, float, list[float]]:
    """Return a run, seconds of the build, and seconds of the simulations alone, as the program measures them."""
    from openmxu_studies.speed import hierarchical  # noqa: PLC0415  # cocotb's extra may be missing

    first = hierarchical.run_timed(inputs)
    times = [first.seconds]
    while times[0] < _LONG and len(times) < _RUNS:
        times.append(hierarchical.run_timed(inputs).seconds)
    return first.run, first.build, times


_MEASURES = {"compiled": _measure_compiled, ROW_ENGINE: _measure_by_rows}


def measure_command(engine: str, runs: int) -> Whole:
    """Run the command; its first run builds what it needs."""
    with process.workspace() as directory:
        for name, matrix in zip("AB", _operands(512, 512, 512), strict=True):
            np.save(directory / f"{name}.npy", matrix)
        command = [sys.executable, "-m", "openmxu", "matmul", "A.npy", "B.npy", "-o", "C.npy", "--engine", engine]

        def run() -> None:
            done = process.run(command, what=f"openmxu matmul --engine {engine}", limit=_LIMIT, directory=directory)
            if done.code:
                raise RuntimeError("; ".join(done.last(1)))

        [first] = _repeat(run, runs=1, enough=0)
        times = _repeat(run, runs=runs, enough=0)
    return Whole(engine, first, statistics.median(times), _memory())


def measure_model(sizes: tuple[int, int, int], operand: str, accumulate: str, threads: int) -> Ratio:
    """Multiply matrices by the model and by numpy in turns. The caller limits numpy to one thread."""
    product = partial(load_product("model"), rows=128, operand=operand, accumulate=accumulate, threads=threads)
    m, k, n = sizes
    a, b = _operands(m, k, n)
    number = max(1, _TURN // (m * k * n))
    model, own = [], []
    product(a, b)  # the first call compiles
    for _ in range(_TURNS):
        model.append(timeit.timeit(lambda: product(a, b), number=number) / number)
        own.append(timeit.timeit(lambda: a @ b, number=number) / number)
    times = statistics.median(model), statistics.median(own)
    return Ratio(m, k, n, operand, accumulate, threads, *times, _numpy_kernel())


def measure_training(network: str, threads: int) -> Trained:
    """Train on the unit and without it, in turns."""
    import torch  # noqa: PLC0415  # it need not be there

    from openmxu_sim.torch import unit  # noqa: PLC0415
    from openmxu_studies.speed import trained  # noqa: PLC0415

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layers, x = getattr(trained, NETWORKS[network])()

    def step() -> None:
        layers.zero_grad()
        layers(x).square().mean().backward()

    on_unit = unit()(step)
    on_unit()  # the first call compiles
    step()
    on: list[float] = []
    own: list[float] = []
    while len(own) < _TURNS or sum(own) < _LONG / 4:
        on += _repeat(on_unit, runs=1, enough=0)
        own += _repeat(step, runs=1, enough=0)
    return Trained(network, threads, statistics.median(on), statistics.median(own), len(own))


def _numpy_kernel() -> str:
    """Return OpenBLAS's name of the processor whose kernel it has chosen for numpy."""
    if find_spec("threadpoolctl") is None:
        return ""
    from threadpoolctl import threadpool_info  # noqa: PLC0415  # it need not be there

    return next((str(pool.get("architecture", "")) for pool in threadpool_info() if pool["user_api"] == "blas"), "")


def _operands(m: int, k: int, n: int) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(0)
    return (generator.standard_normal((m, k), dtype=np.float32), generator.standard_normal((k, n), dtype=np.float32))


def _repeat(run: Callable[[], object], *, runs: int = _RUNS, enough: float = _ENOUGH) -> list[float]:
    """Return seconds of each run: of a few runs, and of more where they are short."""
    times: list[float] = []
    while len(times) < runs or sum(times) < enough:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if times[0] > _LONG:
            break
    return times


def _memory() -> float:
    """Return the most MiB that this process, or one that it started, had."""
    scale = 1 if sys.platform == "darwin" else 1024
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(scope).ru_maxrss for scope in who) * scale / 2**20
