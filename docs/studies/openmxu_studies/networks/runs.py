"""Networks run on simulated accelerators, each point by itself, here or on a cluster."""

import datetime
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from openmxu.area.run.cluster import connected
from openmxu.cli.frame import tell
from openmxu.export.provenance import provenance
from openmxu.runtime.machine import machine_name
from openmxu.runtime.native import compiler_version
from openmxu.spec.accelerator import config_of
from openmxu_sim.accelerator.definition import run
from openmxu_sim.accelerator.players import Simulation
from openmxu_sim.accelerator.simulation import Speed
from openmxu_sim.accelerator.stripes import bytes_moved
from openmxu_sim.accelerator.waits import expected
from openmxu_sim.commands.run_accelerator import compile_network, fitted
from openmxu_sim.onnx import Network
from openmxu_sim.onnx.runtime import ModelProto, load
from openmxu_sim.operands.aliases import Progress
from openmxu_studies.networks.foreign import shares
from openmxu_studies.networks.shapes import mobilenet_v2, resnet20, resnet50, transformer_block
from openmxu_studies.networks.sizes import Case, Finding, Networks
from openmxu_studies.pretrained.ask import MAGIKA

_BLOCK = "encoder block, 128 tokens, 768 wide"
_SHAPES: dict[str, Callable[[], ModelProto]] = {
    "ResNet-20": resnet20,
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    _BLOCK: transformer_block,
}
_MAGIKA = "Magika 1.0.3, one file"

_SHORT = (Case("ResNet-20", 4, 4, 256, "64K", "64K", 64), Case("ResNet-20", 16, 4, 256, "256K", "256K", 256))
_SPEEDS = ((32, 1), (100, 1), (0, 2))
_MACHINES = ((4, 4, 256), (16, 4, 512), (128, 1, 2048))
_FULL = (
    *_SHORT,
    Case("ResNet-20", 128, 1, 2048, "16M", "64M", 1024),
    *(replace(case, latency=latency, every=every) for case in _SHORT for latency, every in _SPEEDS),
    *(
        Case("ResNet-20", 4, 4, depth, scratchpad, "64K", 64)
        for depth in (64, 256)
        for scratchpad in ("16K", "64K", "256K")
        if (depth, scratchpad) != (256, "64K")
    ),
    Case("ResNet-50", 4, 4, 256, "512K", "512K", 64),
    Case("ResNet-50", 16, 4, 512, "1M", "1M", 256),
    Case("ResNet-50", 128, 1, 2048, "16M", "64M", 1024),
    Case("MobileNetV2", 16, 4, 512, "1M", "1M", 256),
    *(Case(name, *machine) for name in (_BLOCK, _MAGIKA) for machine in _MACHINES),
)


def networks(*, full: bool = False, cluster: str | None = None, progress: Progress | None = None) -> Networks:
    """Run each network on each machine, one after the other, or as many at a time as a cluster has workers for."""
    cases, findings = _FULL if full else _SHORT, []
    with ExitStack() as stack:
        far = stack.enter_context(connected(cluster, tell)) if cluster is not None else None
        pool = stack.enter_context(ThreadPoolExecutor(far.jobs if far else 1))
        for found in pool.map(lambda case: far.call(measure, case) if far else measure(case), cases):
            findings.append(found)
            if progress is not None:
                progress(len(findings), len(cases))
    foreign = tuple(shares(progress)) if full else ()
    tools = {
        **provenance(),
        "Python": platform.python_version(),
        "numpy": version("numpy"),
        "C compiler": compiler_version(),
    }
    return Networks(datetime.date.today().isoformat(), machine_name(), tools, full, tuple(findings), foreign)


def measure(case: Case) -> Finding:
    """Run a network on a machine, and compare each word with the definition."""
    return _simulated(case) if case.beat else _derived(case)


def _simulated(case: Case) -> Finding:
    config = config_of(case.size, case.size, case.stages, case.depth, case.scratchpad, case.weights, beat=case.beat)
    network = fitted(compile_network(_SHAPES[case.network](), config)).alone()
    lowered, memories = network.lowered, network.lowered.memories()
    side = 32 if case.network == "ResNet-20" else 224
    picture = np.random.default_rng(1).standard_normal((3, side, side))
    lowered.put(network.inputs[0].picture, picture.astype(np.float32), lowered.rows(memories))
    player = Simulation(speed=Speed(case.latency, case.every))
    player.prepare(lowered.config)  # compiled before the time counts
    start = time.process_time()
    [rows], ends = player.play(network, [memories])
    seconds = time.process_time() - start
    run(lowered.program, memories)
    needs = [
        (bytes_moved(lowered.program[layer.commands.start : layer.commands.stop]) / layer.cycles, layer.cycles)
        for layer in lowered.layers
    ]
    tiles = sum(layer.cycles for layer in lowered.layers)
    return Finding(
        case=case,
        products=sum(layer.products for layer in lowered.layers),
        tiles=tiles,
        cycles=ends[-1],
        expected=expected(lowered.config, lowered.program)[-1],
        bytes_moved=bytes_moved(lowered.program),
        hungriest=max(need for need, _ in needs),
        bound=sum(cycles for need, cycles in needs if need > case.beat / 8) / tiles,
        seconds=seconds,
        words=rows.size,
        differing=int(np.count_nonzero(rows != lowered.rows(memories))),
    )


def _derived(case: Case) -> Finding:
    if case.network == _MAGIKA:
        content, samples = MAGIKA.fetch(1)
        model = load(content)
        inputs = {model.graph.input[0].name: samples.batches[0]}
    else:
        model = _SHAPES[case.network]()
        shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
        inputs = {"input": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    network = Network(model, rows=case.size, columns=case.size, stages=case.stages)
    network.run(inputs)
    costs = network.report()
    moved = [row.weight_bytes + row.activation_bytes + row.result_bytes for row in costs.rows]
    hungriest = max(count / row.cycles for count, row in zip(moved, costs.rows, strict=True))
    products = round(costs.utilisation * costs.cycles * case.size**2)
    return Finding(case, products, costs.cycles, 0, 0, sum(moved), hungriest, 0.0, 0.0, 0, 0)
