"""The commands ``compile`` and ``run``: networks on the accelerator."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openmxu.cli.frame import add_command, integer, print_markdown, tell
from openmxu.pages.tables import table
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu.spec.accelerator import AcceleratorConfig
    from openmxu_sim.accelerator.container import CompiledNetwork
    from openmxu_sim.accelerator.players import Player
    from openmxu_sim.onnx.runtime import ModelProto
    from openmxu_sim.onnx.to_layers import Layers


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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write cycles, and what is left to the host")


def add_run(commands: Any) -> None:
    parser = add_command(
        commands,
        "run",
        _run,
        "run a network on the accelerator",
        "  openmxu run model.mxa --input x.npz -o y.npz --simulate\n  openmxu run model.onnx --input x.npz --check",
    )
    add_network(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--simulate", action="store_true", help="simulate the RTL, compiled (default)")
    group.add_argument("--engine", choices=("model",), help="compute the definition only, without cycles")
    group.add_argument(
        "--accelerators", type=integer, metavar="N", help="simulate N on one bus, each with its own images"
    )
    _add_machine(parser)


def add_network(parser: argparse.ArgumentParser) -> None:
    """Options for a network, its input and its output."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a program of openmxu compile, or an ONNX model")
    parser.add_argument("--input", type=Path, required=True, metavar="X.npz", help="the input by its name: images")
    parser.add_argument("-o", "--output", type=Path, metavar="Y.npz", help="write the output by its name")
    parser.add_argument("--check", action="store_true", help="compare every word of the scratchpad with the definition")


def _add_machine(parser: argparse.ArgumentParser) -> None:
    for name, letter, what in (
        ("rows", "R", "rows of the array (default: 4)"),
        ("columns", "C", "columns of the array (default: as many as rows)"),
        ("stages", "S", "pipeline stages (default: 4)"),
        ("depth", "N", "rows of the accumulator bank (default: 256)"),
    ):
        parser.add_argument(f"--{name}", type=integer, metavar=letter, help=what)
    parser.add_argument(
        "--beat", type=integer, metavar="BITS", help="bits of a beat of a bus, over which images and weights come"
    )
    for name, what in (("scratchpad", "the scratchpad"), ("weights", "the memory of weights")):
        parser.add_argument(f"--{name}", metavar="SIZE", help=f"bytes of {what}, such as 64K or 512K (default: 64K)")


_MACHINE = {"rows": 4, "columns": 4, "stages": 4, "depth": 256, "scratchpad": "64K", "weights": "64K", "beat": 0}
"""Defaults of these options."""


def _chosen(options: argparse.Namespace) -> list[str]:
    """The options of the machine that were given."""
    return [name for name in _MACHINE if vars(options)[name] is not None]


def compile_network(model: "Path | ModelProto", config: "AcceleratorConfig") -> "CompiledNetwork":
    """Compile an ONNX model for an accelerator with as many commands as there can be, and tell what is left."""
    return _compile_model(model, config)[0]


def _compile_model(model: "Path | ModelProto", config: "AcceleratorConfig") -> "tuple[CompiledNetwork, Layers]":
    from openmxu.spec.accelerator import MOST_PROGRAM
    from openmxu_sim.accelerator.container import CompiledNetwork
    from openmxu_sim.accelerator.stripes import fit
    from openmxu_sim.onnx.to_layers import to_layers

    found = to_layers(model)
    lowered = fit(replace(config, program=MOST_PROGRAM), {found.source: found.shape}, found.layers)
    host = b"" if found.host is None else found.host.SerializeToString()
    for line in _share(found):
        tell(line)
    return CompiledNetwork(lowered, found.source, found.result, found.output, host, found.flat), found


def _share(found: "Layers") -> list[str]:
    """What part of a model's products the accelerator computes, and what is left to the host."""
    every, unknown = _every(found), sum(each.products is None for each in found.left)
    lines = [f"{found.products:,} of {every:,} products on the accelerator, {found.products / max(every, 1):.1%}"]
    if unknown:
        lines[0] += f"; those of {unknown} operators of the host are not known"
    for each in (each for each in found.left if each.reason or each.products != 0):
        count = "unknown" if each.products is None else f"{each.products:,}"
        lines.append(f"on the host: {each.name}, {count} products{': ' * bool(each.reason)}{each.reason}")
    if quiet := len(found.left) - len(lines) + 1:
        lines.append(f"on the host: {quiet} more without products")
    return lines


def _every(found: "Layers") -> int:
    return found.products + sum(each.products or 0 for each in found.left)


def _compiled(options: argparse.Namespace) -> "tuple[CompiledNetwork, Layers]":
    """A model for the machine of the options."""
    from openmxu.spec.accelerator import config_of

    given: dict[str, Any] = {**_MACHINE, **{name: vars(options)[name] for name in _chosen(options)}}
    if options.columns is None:
        given["columns"] = given["rows"]
    network, found = _compile_model(options.model, config_of(**given))
    return fitted(network), found


def fitted(network: "CompiledNetwork") -> "CompiledNetwork":
    """The network for a machine that has no more commands than it takes."""
    from openmxu.spec.commands import WORDS

    words = WORDS * len(network.lowered.program)
    config = replace(network.lowered.config, program=max(1024, 1 << (words - 1).bit_length()))
    return replace(network, lowered=replace(network.lowered, config=config))


def _compile(options: argparse.Namespace) -> None:
    with reserve(options.output, options.json) as outputs:
        network, found = _compiled(options)
        if options.output is not None:
            from openmxu_sim.accelerator.container import write_network

            outputs.write_bytes(options.output, write_network(network))
        if options.json is not None:
            outputs.write_text(options.json, json.dumps(_figures(network, found), indent=1) + "\n")
        print_markdown(_table(network, ()))


def _figures(network: "CompiledNetwork", found: "Layers") -> dict[str, Any]:
    """The figures of a compilation for other programs."""
    from openmxu_sim.accelerator.stripes import bytes_moved

    lowered = network.lowered
    layers = [
        {
            "name": layer.name,
            "commands": len(layer.commands),
            "cycles": layer.cycles,
            "products": layer.products,
            "bytes": bytes_moved(lowered.program[layer.commands.start : layer.commands.stop]),
        }
        for layer in lowered.layers
    ]
    return {
        "products": {"all": _every(found), "machine": found.products},
        "host": [each._asdict() for each in found.left],
        "cycles": sum(layer.cycles for layer in lowered.layers),
        "layers": layers,
    }


def _table(network: "CompiledNetwork", ends: Sequence[int]) -> str:
    """The layers, their cycles by the formula, those that were measured, and what passes through a memory.

    ``ends`` are the cycles at which commands began, if they are known, and that of the end. A layer lasts until the
    next begins.
    """
    from openmxu_sim.accelerator.lowering import LayerReport
    from openmxu_sim.accelerator.stripes import bytes_moved

    lowered = network.lowered
    cells = lowered.config.size**2
    formula, products = (sum(getattr(layer, name) for layer in lowered.layers) for name in ("cycles", "products"))
    every = LayerReport("all", range(len(lowered.program)), formula, products)
    begins = [0, *ends[1:], *ends[-1:]] if len(ends) == len(lowered.program) else []
    heads, rows = ["layer", "commands", "cycles by the formula", "useful"], []
    heads += ["measured"] * bool(begins) + ["bytes moved", "a cycle"] * bool(lowered.memory)
    for layer in (*lowered.layers, every):
        first, last = layer.commands.start, layer.commands.stop
        row = [
            layer.name,
            str(len(layer.commands)),
            f"{layer.cycles:,}",
            f"{layer.products / cells / layer.cycles:.1%}",
        ]
        row += [f"{begins[last] - begins[first]:,}"] if begins else []
        if lowered.memory:
            moved = bytes_moved(lowered.program[first:last])
            row += [f"{moved:,}", f"{moved / layer.cycles:.2f}"]
        rows.append(row)
    text = table(heads, rows)
    if ends:
        text += f"\nMeasured: {ends[-1]:,} cycles, {products / cells / ends[-1]:.1%} of the array useful.\n"
    if lowered.memory:
        size = lowered.memories().memory.nbytes
        text += f"\nload and store need {size:,} bytes of memory; a bus of fewer bytes a cycle makes a layer wait.\n"
    return text


def _run(options: argparse.Namespace) -> int:
    from openmxu_sim.accelerator.players import Definition, OnOneBus, Simulation

    if options.check and options.engine is not None:
        raise ValueError("check requires the simulation, which it compares with the engine model")
    if _chosen(options) and not _is_model(options.model):
        raise ValueError(f"{_chosen(options)[0]} must be left out with a compiled network, which has its own")

    def compiled() -> "CompiledNetwork":
        return _compiled(options)[0]

    if options.accelerators is None:
        return play_network(options, compiled, Simulation(tell) if options.engine is None else Definition())
    several = OnOneBus(options.accelerators, tell)
    code = play_network(options, compiled, several)
    print_markdown(several.table())
    return code


def _is_model(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def play_network(options: argparse.Namespace, compiled: "Callable[[], CompiledNetwork]", player: "Player") -> int:
    """Run the network of the options, or compile and run their model."""
    from openmxu_sim.accelerator.container import read_network
    from openmxu_sim.accelerator.players import run_network
    from openmxu_sim.operands.npy import read_arrays, to_npz

    with reserve(options.output) as outputs:
        network = compiled() if _is_model(options.model) else read_network(options.model)
        outcome = run_network(network, read_arrays(options.input, "--input"), player, check=options.check)
        if options.output is not None:
            output = _joined([_output(network, result) for result in outcome.results])
            outputs.write_bytes(options.output, to_npz({network.output: output}))
        text = _table(network, outcome.ends)
        if options.check:
            text += f"\n{outcome.wrong} of {outcome.words:,} words of the scratchpad differ from the definition.\n"
        print_markdown(text)
    return 1 if outcome.wrong else 0


def _joined(values: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of all pictures, along their first axis if that has one entry for each."""
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if values[0].shape[:1] == (1,) else np.stack(values)


def _output(network: "CompiledNetwork", result: np.ndarray) -> np.ndarray:
    """The output for a picture: results of the last layer, and what the host makes of them."""
    values = result.reshape(1, -1) if network.flat else result[np.newaxis]
    if not network.host:
        return values
    from openmxu_sim.onnx.runtime import Session, load

    model = load(network.host)
    [found] = Session(model).run({model.graph.input[0].name: values}).values()
    return np.asarray(found)
