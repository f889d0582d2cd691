"""The commands ``compile`` and ``run``: networks on the accelerator."""

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openmxu.cli.frame import add_command, integer, print_markdown, tell
from openmxu.pages.tables import table
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu_sim.accelerator.container import CompiledNetwork
    from openmxu_sim.accelerator.definition import Halves, Memories


def add_compile(commands: Any) -> None:
    parser = add_command(
        commands,
        "compile",
        _compile,
        "turn an ONNX model into a program for the accelerator",
        "  openmxu compile model.onnx -o model.mxa\n"
        "  openmxu compile model.onnx --rows 8 --columns 8 --scratchpad 256K -o model.mxa",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="the model; its input has fixed sizes")
    _add_machine(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="MODEL.mxa", help="write the program with its weights")


def add_run(commands: Any) -> None:
    parser = add_command(
        commands,
        "run",
        _run,
        "run a network on the accelerator",
        "  openmxu run model.mxa --input x.npz -o y.npz --simulate\n  openmxu run model.onnx --input x.npz --check",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="what openmxu compile wrote, or an ONNX model")
    parser.add_argument("--input", type=Path, required=True, metavar="X.npz", help="the input, by its name")
    parser.add_argument("-o", "--output", type=Path, metavar="Y.npz", help="write the output, by its name")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--simulate", action="store_true", help="simulate the RTL, compiled (default)")
    group.add_argument("--engine", choices=("model",), help="compute what the definition says, without cycles")
    parser.add_argument("--check", action="store_true", help="compare every word of the scratchpad with the definition")
    _add_machine(parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    for name in ("rows", "columns"):
        parser.add_argument(
            f"--{name}", type=integer, default=4, metavar=name[0].upper(), help=f"{name} of the array (default: 4)"
        )
    parser.add_argument("--stages", type=integer, default=4, metavar="S", help="pipeline stages (default: 4)")
    parser.add_argument(
        "--depth", type=integer, default=256, metavar="N", help="rows of the accumulator bank (default: 256)"
    )
    for name, what in (("scratchpad", "the scratchpad"), ("weights", "the memory of weights")):
        parser.add_argument(
            f"--{name}", default="64K", metavar="SIZE", help=f"bytes of {what}, such as 64K or 1M (default: 64K)"
        )


def _size(text: str, name: str) -> int:
    """Bytes of a text such as 64K."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise ValueError(f"{name} must be a number of bytes, such as 64K or 1M, not {text!r}")
    return int(digits) * factor


def _compiled(options: argparse.Namespace) -> "CompiledNetwork":
    from openmxu.spec.accelerator import AcceleratorConfig
    from openmxu_sim.accelerator.container import CompiledNetwork
    from openmxu_sim.accelerator.lowering import lower
    from openmxu_sim.onnx.to_layers import to_layers

    if options.rows != options.columns:
        raise ValueError(f"columns must be rows={options.rows} in an accelerator, not {options.columns}")
    row = 2 * max(options.rows, 1)
    rows, weights = (_size(getattr(options, name), name) // row for name in ("scratchpad", "weights"))
    found = to_layers(options.model)
    config = AcceleratorConfig(options.rows, options.stages, options.depth, rows, weights)
    lowered = lower(config, found.shape, found.layers, found.source)
    host = b"" if found.host is None else found.host.SerializeToString()
    if found.reasons:
        tell(f"the host computes: {'; '.join(found.reasons)}")
    return CompiledNetwork(lowered, found.source, found.result, found.output, host, found.flat)


def _compile(options: argparse.Namespace) -> None:
    with reserve(options.output) as outputs:
        network = _compiled(options)
        if options.output is not None:
            from openmxu_sim.accelerator.container import write_network

            outputs.write_bytes(options.output, write_network(network))
        print_markdown(_table(network, None))


def _table(network: "CompiledNetwork", cycles: int | None) -> str:
    """The layers, and the cycles of all, measured or by the formula."""
    lowered = network.lowered
    cells = lowered.config.size**2
    rows = [
        (layer.name, str(len(layer.commands)), f"{layer.cycles:,}", f"{layer.products / cells / layer.cycles:.1%}")
        for layer in lowered.layers
    ]
    formula, products = (sum(getattr(layer, name) for layer in lowered.layers) for name in ("cycles", "products"))
    rows.append(("all", str(len(lowered.program)), f"{formula:,}", f"{products / cells / formula:.1%}"))
    if cycles is not None:
        rows.append(("measured", "", f"{cycles:,}", f"{products / cells / cycles:.1%}"))
    return table(["layer", "commands", "cycles by the formula", "useful"], rows)


def _run(options: argparse.Namespace) -> int:
    from openmxu_sim.accelerator.container import read_network
    from openmxu_sim.accelerator.definition import Memories, run
    from openmxu_sim.operands.npy import read_arrays

    with reserve(options.output) as outputs:
        network = _compiled(options) if options.model.suffix == ".onnx" else read_network(options.model)
        lowered = network.lowered
        inputs = read_arrays(options.input, "--input")
        if network.source not in inputs:
            raise ValueError(f"--input must have an array {network.source}, not {', '.join(inputs) or 'none'}")
        memories = Memories(lowered.config, lowered.weights)
        lowered.put(network.source, _picture(network, inputs[network.source]), memories.scratchpad)
        cycles, wrong = None, 0
        if options.engine is None:
            cycles, scratchpad = _simulate(network, memories)
            if options.check:
                run(lowered.program, memories)
                wrong = int(np.count_nonzero(scratchpad != memories.scratchpad))
        else:
            run(lowered.program, memories)
            scratchpad = memories.scratchpad
        values = _output(network, scratchpad)
        if options.output is not None:
            kept = io.BytesIO()
            np.savez(kept, allow_pickle=False, **{network.output: values})
            outputs.write_bytes(options.output, kept.getvalue())
        text = _table(network, cycles)
        if options.check and cycles is not None:
            text += f"\n{wrong} of {scratchpad.size:,} words of the scratchpad differ from the definition.\n"
        print_markdown(text)
    return 1 if wrong else 0


def _picture(network: "CompiledNetwork", array: np.ndarray) -> np.ndarray:
    """The input as (channels, y, x) in fp32."""
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 4) or len(array) != 1:
        raise ValueError(f"{network.source} must be one picture, 1 x C x H x W or 1 x K, not {array.shape}")
    sizes = array.shape[1:] if array.ndim == 4 else (array.shape[1], 1, 1)
    return np.ascontiguousarray(array.reshape(sizes), np.float32)


def _simulate(network: "CompiledNetwork", memories: "Memories") -> "tuple[int, Halves]":
    from openmxu.accelerator import Stop
    from openmxu_sim.accelerator.simulation import SimulatedAccelerator

    tell("simulating the accelerator; it is compiled first, which takes some seconds")
    machine = SimulatedAccelerator(network.lowered.config)
    machine.write(network.lowered.program, memories)
    report = machine.run()
    if report.stop != Stop.NONE:
        raise RuntimeError(f"command {report.index} stopped the accelerator: {report.stop.name}")
    return report.cycles, machine.scratchpad()


def _output(network: "CompiledNetwork", scratchpad: "Halves") -> np.ndarray:
    """The output: results of the last layer, and what the host makes of them."""
    values = network.lowered.get(network.result, scratchpad)[np.newaxis]
    values = values.reshape(1, -1) if network.flat else values
    if not network.host:
        return values
    from openmxu_sim.onnx.runtime import Session, load

    model = load(network.host)
    [found] = Session(model).run({model.graph.input[0].name: values}).values()
    return np.asarray(found)
