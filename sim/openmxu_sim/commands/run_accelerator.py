"""The commands ``compile`` and ``run``: networks on the accelerator."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from openmxu.cli.frame import add_command, integer, print_markdown, tell
from openmxu.pages.tables import table
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu.spec.accelerator import AcceleratorConfig
    from openmxu_sim.accelerator.container import CompiledNetwork, HostPart
    from openmxu_sim.accelerator.lowering import Lowered
    from openmxu_sim.accelerator.players import Player
    from openmxu_sim.onnx.partition import Partition, Sizes
    from openmxu_sim.onnx.runtime import ModelProto, Session


def add_compile(commands: Any) -> None:
    parser = add_command(
        commands,
        "compile",
        _compile,
        "turn an ONNX model into a program for the accelerator",
        "  openmxu compile model.onnx -o model.mxa\n"
        "  openmxu compile model.onnx --rows 8 --columns 8 --scratchpad 256K -o model.mxa",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="the model")
    add_sizes(parser)
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
    add_sizes(parser)
    _add_machine(parser)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """An option for the sizes that a model leaves open."""
    parser.add_argument(
        "--size",
        type=_size,
        action="append",
        default=[],
        dest="sizes",
        metavar="NAME=N,...",
        help="shape of an input whose sizes the model leaves open, such as images=1,3,320,320",
    )


_MOST_SIZE = 1 << 31


def _size(text: str) -> tuple[str, tuple[int, ...]]:
    name, equal, sizes = text.rpartition("=")
    parts = sizes.split(",") if sizes else []
    if not equal or not all(each.isascii() and each.isdigit() and 0 < int(each[:10]) < _MOST_SIZE for each in parts):
        raise argparse.ArgumentTypeError(f"must be a name and sizes from 1 on, such as x=1,3,320,320, not {text}")
    return name, tuple(map(int, parts))


def add_network(parser: argparse.ArgumentParser) -> None:
    """Options for a network, its input and its output."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a program of openmxu compile, or an ONNX model")
    parser.add_argument("--input", type=Path, required=True, metavar="X.npz", help="inputs by their names: images")
    parser.add_argument("-o", "--output", type=Path, metavar="Y.npz", help="write the outputs by their names")
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


def compile_network(
    model: "Path | ModelProto", config: "AcceleratorConfig", sizes: "Sizes | None" = None
) -> "CompiledNetwork":
    """Compile an ONNX model for an accelerator with as many commands as there can be, and tell what is left."""
    return _compile_model(model, config, sizes)[0]


def _compile_model(
    model: "Path | ModelProto", config: "AcceleratorConfig", sizes: "Sizes | None"
) -> "tuple[CompiledNetwork, Partition]":
    network, found = compile_parts(model, config, sizes)
    for line in _share(found):
        tell(line)
    return network, found


def compile_parts(
    model: "Path | ModelProto | bytes", config: "AcceleratorConfig", sizes: "Sizes | None"
) -> "tuple[CompiledNetwork, Partition]":
    """Compile an ONNX model for an accelerator with as many commands as there can be; also what is left."""
    from openmxu.spec.accelerator import MOST_PROGRAM
    from openmxu_sim.accelerator.container import CompiledNetwork, HostPart, MachinePart
    from openmxu_sim.accelerator.stripes import fit
    from openmxu_sim.onnx.partition import partition
    from openmxu_sim.onnx.to_layers import Layers

    config = replace(config, program=MOST_PROGRAM)
    found = partition(model, sizes, config)
    parts = list[HostPart | MachinePart]()
    for part in found.parts:
        if isinstance(part, Layers):
            lowered = fit(config, part.sources, part.layers, part.results)
            parts.append(MachinePart(lowered, tuple(part.inputs), tuple(part.outputs)))
        else:
            names = ([each.name for each in some] for some in (part.graph.input, part.graph.output))
            parts.append(HostPart(part.SerializeToString(), *map(tuple, names)))
    return CompiledNetwork(tuple(found.inputs), tuple(parts), tuple(found.outputs)), found


_MOST_LINES = 12
"""Most operators of the host that are told one by one."""


def _share(found: "Partition") -> list[str]:
    """What part of a model's products the accelerator computes, and what is left to the host."""
    every, unknown = _every(found), sum(each.products is None for each in found.left)
    parts = f"{len(found.parts)} part{'s' * (len(found.parts) != 1)}"
    lines = [
        f"{found.products:,} of {every:,} products on the accelerator, {found.products / max(every, 1):.1%}; {parts}"
    ]
    if unknown:
        lines[0] += f"; those of {unknown} operators of the host are not known"
    costly = [each for each in found.left if each.products != 0]
    for each in costly[:_MOST_LINES]:
        count = "unknown" if each.products is None else f"{each.products:,}"
        lines.append(f"on the host: {each.name}, {count} products: {each.reason}")
    kinds = Counter(each.name.partition(" ")[0] for each in found.left if each not in costly[:_MOST_LINES])
    if kinds:
        lines.append("on the host: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    return lines


def _every(found: "Partition") -> int:
    return found.products + sum(each.products or 0 for each in found.left)


def _compiled(options: argparse.Namespace) -> "tuple[CompiledNetwork, Partition]":
    """A model for the machine of the options."""
    from openmxu.spec.accelerator import config_of

    given: dict[str, Any] = {**_MACHINE, **{name: vars(options)[name] for name in _chosen(options)}}
    if options.columns is None:
        given["columns"] = given["rows"]
    network, found = _compile_model(options.model, config_of(**given), sizes_of(options))
    return fitted(network), found


def sizes_of(options: argparse.Namespace) -> "Sizes":
    """The sizes of the options, of which each input has one."""
    names = [name for name, _ in options.sizes]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"--size must name an input once, not {twice[0]} twice")
    return dict(options.sizes)


def fitted(network: "CompiledNetwork") -> "CompiledNetwork":
    """The network for a machine that has no more commands than its longest part takes."""
    from openmxu.spec.commands import WORDS
    from openmxu_sim.accelerator.container import MachinePart

    words = max((WORDS * len(part.lowered.program) for part in network.machine), default=0)
    size = max(1024, 1 << (words - 1).bit_length() if words else 0)

    def fit(lowered: "Lowered") -> "Lowered":
        return replace(lowered, config=replace(lowered.config, program=size))

    parts = (
        replace(part, lowered=fit(part.lowered)) if isinstance(part, MachinePart) else part for part in network.parts
    )
    return replace(network, parts=tuple(parts))


def _compile(options: argparse.Namespace) -> None:
    with reserve(options.output, options.json) as outputs:
        network, found = _compiled(options)
        ends = [_expected(part.lowered) for part in network.machine]
        if options.output is not None:
            from openmxu_sim.accelerator.container import write_network

            outputs.write_bytes(options.output, write_network(network))
        if options.json is not None:
            outputs.write_text(options.json, json.dumps(_figures(network, found, ends), indent=1) + "\n")
        print_markdown(_table(network, ends, "expected"))


def _figures(network: "CompiledNetwork", found: "Partition", ends: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The figures of a compilation for other programs; ``ends`` are expected."""
    from openmxu_sim.accelerator.container import MachinePart

    machine = [index for index, part in enumerate(network.parts) if isinstance(part, MachinePart)]
    layers = [
        {
            "part": index,
            "name": row.name,
            "commands": row.commands,
            "cycles": row.cycles,
            "expected": row.lasts if some else None,
            "products": row.products,
            "bytes": row.moved,
        }
        for index, part, some in zip(machine, network.machine, ends, strict=True)
        for row in [*_rows(part.lowered, some)][:-1]
    ]
    return {
        "products": {"all": _every(found), "machine": found.products},
        "parts": ["machine" if isinstance(part, MachinePart) else "host" for part in network.parts],
        "host": [each._asdict() for each in found.left],
        "cycles": sum(layer["cycles"] for layer in layers),
        "layers": layers,
    }


def _table(network: "CompiledNetwork", ends: Sequence[Sequence[int]], what: str = "measured") -> str:
    """The layers, their cycles by the formula, those that were measured, and what passes through a memory.

    ``ends`` are, for each part on the accelerator, the cycles at which commands began, if they are known, and that of
    the end; none if no part ran. A layer lasts until the next begins.
    """
    parts = [part.lowered for part in network.machine]
    if not parts:
        return "Nothing runs on the accelerator.\n"
    memory, cells = any(lowered.memory for lowered in parts), parts[0].config.size ** 2
    timed = bool(ends) and all(len(some) == len(lowered.program) for some, lowered in zip(ends, parts, strict=True))
    heads = ["layer", "commands", "cycles by the formula", "useful"]
    heads += [what] * timed + ["bytes moved", "a cycle"] * memory
    rows, totals = list[_Row](), list[_Row]()
    for index, lowered in enumerate(parts):
        *layers, every = _rows(lowered, ends[index] if timed else ())
        rows, totals = [*rows, *layers], [*totals, every]
    every = _Row("all", *map(sum, zip(*(row[1:] for row in totals), strict=True)))
    text = table(heads, [row.cells(cells, timed, memory) for row in (*rows, every)])
    if ends and all(ends):
        total = sum(some[-1] for some in ends)
        text += f"\n{what.capitalize()}: {total:,} cycles, {every.products / cells / total:.1%} of the array useful.\n"
    if memory:
        size = max(lowered.memories().memory.nbytes for lowered in parts)
        text += f"\nload and store need {size:,} bytes of memory; a bus of fewer bytes a cycle makes a layer wait.\n"
    return text


class _Row(NamedTuple):
    """A layer in the table."""

    name: str
    commands: int
    cycles: int
    products: int
    lasts: int
    """Cycles until the next layer begins."""
    moved: int

    def cells(self, size: int, timed: bool, memory: bool) -> list[str]:
        useful = f"{self.products / size / self.cycles:.1%}"
        found = [self.name, str(self.commands), f"{self.cycles:,}", useful, *[f"{self.lasts:,}"] * timed]
        return found + [f"{self.moved:,}", f"{self.moved / self.cycles:.2f}"] * memory


def _expected(lowered: "Lowered") -> Sequence[int]:
    """Cycles at which a part's commands begin, and that of the end, by a model, if it has a bus for its memory."""
    from openmxu_sim.accelerator.waits import expected

    return expected(lowered.config, lowered.program) if lowered.config.beat or not lowered.memory else ()


def _rows(lowered: "Lowered", ends: Sequence[int]) -> Iterator[_Row]:
    """Of each layer of a part, and of all of it."""
    from openmxu_sim.accelerator.lowering import LayerReport
    from openmxu_sim.accelerator.stripes import bytes_moved

    begins = [0, *ends[1:], *ends[-1:]] if ends else [0] * (len(lowered.program) + 1)
    cycles, products = (sum(getattr(layer, name) for layer in lowered.layers) for name in ("cycles", "products"))
    for layer in (*lowered.layers, LayerReport("all", range(len(lowered.program)), cycles, products)):
        first, last = layer.commands.start, layer.commands.stop
        moved = bytes_moved(lowered.program[first:last])
        yield _Row(layer.name, last - first, layer.cycles, layer.products, begins[last] - begins[first], moved)


def _run(options: argparse.Namespace) -> int:
    from openmxu_sim.accelerator.players import Definition, OnOneBus, Simulation

    if options.check and options.engine is not None:
        raise ValueError("check requires the simulation, which it compares with the engine model")
    if given := ["size"] * bool(options.sizes) + _chosen(options) if not _is_model(options.model) else []:
        raise ValueError(f"{given[0]} must be left out with a compiled network, which has its own")

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
        inputs = read_arrays(options.input, "--input")
        outcome = run_network(network, inputs, player, _opened, check=options.check)
        if options.output is not None:
            images = next((each.dims[0] for each in network.inputs if each.dims), 1)
            found = {name: _joined([each[name] for each in outcome.outputs], images) for name in network.outputs}
            outputs.write_bytes(options.output, to_npz(found))
        text = _table(network, outcome.ends)
        if options.check:
            text += f"\n{outcome.wrong} of {outcome.words:,} words of the scratchpad differ from the definition.\n"
        print_markdown(text)
    return 1 if outcome.wrong else 0


def _joined(values: Sequence[np.ndarray], images: int) -> np.ndarray:
    """The outputs of all runs, along their first axis if that has an entry for each of the images of one."""
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if values[0].shape[:1] == (images,) else np.stack(values)


def _opened(part: "HostPart") -> "Session":
    """The nodes of the host in onnxruntime."""
    from openmxu_sim.onnx.runtime import Session, load

    return Session(load(part.model))
