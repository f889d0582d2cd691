"""The command ``infer``."""

import argparse
import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, bar, print_markdown, tell
from openmxu.runtime.files import folder, read_input, reserve

if TYPE_CHECKING:
    from openmxu.cells.liberty import Library
    from openmxu_sim.onnx.infer import Inference
from openmxu_sim.commands.unit_options import add_array, add_numerics


def add_infer(commands: Any) -> None:
    parser = add_command(
        commands,
        "infer",
        _infer,
        "run an ONNX model with its matrix products on the unit",
        "  openmxu infer model.onnx --input x.npz\n"
        "  openmxu infer model.onnx --input x.npz --operand bf16,fp16,fp8_e4m3 -o report\n"
        "  openmxu infer model.onnx --input x.npz --operand bf16,fp16 --area\n"
        "  openmxu infer model.onnx --input x.npz --operand bf16,mxfp4,nvfp4 --errors -o report\n"
        "  openmxu infer model.onnx --input x.npz --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz\n"
        "  openmxu infer model.onnx --input x.npz --precision highest --rows 32 --columns 32",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="the model")
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="X.npz",
        help="inputs of the model by name, as numpy.savez writes them",
    )
    _add_units(parser)
    add_array(parser, side=128)
    parser.add_argument(
        "--area", action="store_true", help="also measure the area of a processing element of each unit, by Yosys"
    )
    parser.add_argument(
        "--liberty",
        type=Path,
        metavar="FILE",
        help="a cell library, plain or .gz: measure the energies of each unit's parts on it, and derive the energy of "
        "each layer",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write outputs (FORMAT.npz), report.json and report.html"
    )


def _add_units(parser: argparse.ArgumentParser) -> None:
    """Add options that decide the bits of a network's products, and that permit operators outside of the unit."""
    add_numerics(parser, several=True)
    parser.add_argument(
        "--layers",
        type=Path,
        metavar="FILE.json",
        help='other formats of layers, by patterns of their names: {"lm_head": "bf16", "*.mlp": {"operand": "fp32"}}',
    )
    parser.add_argument("--errors", action="store_true", help="measure the error of each product against binary64")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="OPERATOR",
        help="let this operator multiply outside of the unit; repeatable",
    )


def _infer(options: argparse.Namespace) -> None:
    from openmxu.pages.document import page, render
    from openmxu_sim.golden.specifications import find_operand
    from openmxu_sim.networks.numerics import EscapeError
    from openmxu_sim.onnx.infer import infer, to_json, to_markdown
    from openmxu_sim.operands.npy import read_arrays, to_npz

    operands = list(dict.fromkeys(name.strip() for name in options.operand.split(",")))
    for name in operands:
        find_operand(name, "operand")
    if options.area and options.accumulate != "fp32":
        raise ValueError(f"--area must go with sums in fp32, as the hardware has them, not in {options.accumulate}")
    others = [name for name in (options.weight, options.between) if name]
    odd = [name for name in operands if not find_operand(name).is_plain] + others
    if options.area and odd:
        raise ValueError(f"--area must go with one plain format, not with {', '.join(odd)}")
    library = _library_for(options, operands) if options.liberty else None
    path = options.output
    files = [] if path is None else [path / name for name in (*map(_file, operands), *_REPORTS)]
    with nullcontext() if path is None else folder(path), reserve(*files) as outputs:
        inputs = read_arrays(options.input, "--input")
        try:
            with bar("units") as progress:
                results = infer(options.model, inputs, operands, progress=progress, **_arguments(options))
        except EscapeError as error:
            raise ValueError(str(error)) from None  # the model's fault
        results = _with_areas(results) if options.area else results
        results = _with_energies(results, library) if library else results
        text = to_markdown(options.model.name, results)
        if path is not None:
            for result in results:
                outputs.write_bytes(path / _file(result.operand), to_npz(result.outputs))
            contents = (to_json(results), page(f"OpenMXU: {options.model.name}", render(text)))
            for name, content in zip(_REPORTS, contents, strict=True):
                outputs.write_text(path / name, content)
            text = text.partition("\n## ")[0]
        print_markdown(text)
    if path is not None:
        tell(f"report and outputs: {path}")


def _arguments(options: argparse.Namespace) -> "dict[str, Any]":
    """Return what all networks are made with."""
    from openmxu_sim.onnx import Network

    names = signature(Network).parameters.keys() & vars(options).keys() - {"model", "operand"}
    return {name: getattr(options, name) for name in names} | {"layers": _layers(options.layers)}


def _with_areas(results: "list[Inference]") -> "list[Inference]":
    from openmxu.area.finding.elements import element_areas

    areas = element_areas([result.costs.config for result in results], tell)
    return [replace(result, element=area) for result, area in zip(results, areas, strict=True)]


def _library_for(options: argparse.Namespace, operands: "list[str]") -> "Library":
    """Return the cell library for energies of these units; a unit that has none is refused before anything runs."""
    from openmxu.cells.liberty import read_library
    from openmxu_sim.energy.inference import check_unit
    from openmxu_sim.golden.parameters import NAMES
    from openmxu_sim.networks.numerics import Numerics

    own = {name: getattr(options, name) for name in NAMES if name in options}
    for operand in operands:
        numerics = Numerics(**own | {"operand": operand}).checked()
        check_unit(numerics.unit(options.columns, options.stages), numerics)
    return read_library(options.liberty)


def _with_energies(results: "list[Inference]", library: "Library") -> "list[Inference]":
    from openmxu_sim.energy.inference import with_energies

    costs = with_energies([result.costs for result in results], library, tell)
    return [replace(result, costs=each_costs) for result, each_costs in zip(results, costs, strict=True)]


def _file(operand: str) -> str:
    """Return the name of a file of outputs."""
    return f"{operand.replace('/', '-')}.npz"


def _layers(path: Path | None) -> "dict[str, Any] | None":
    """Return the formats of layers in a file."""
    if path is None:
        return None
    try:
        text = read_input(path, _MOST_LAYERS).decode()
    except (OSError, ValueError) as error:
        raise ValueError(f"--layers must be a readable file, not {str(path)!r}: {error}") from None
    try:
        layers = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--layers must be a file of JSON, not {str(path)!r}: {error}") from None
    if not isinstance(layers, dict):
        raise ValueError(f"--layers must be an object of formats by patterns of names, not {str(path)!r}")
    return layers


def _without_repetition(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    """Return an object, or complain of a name that it has twice."""
    counts = Counter(name for name, _ in pairs)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} occurs twice")
    return dict(pairs)


_MOST_LAYERS = 1 << 20
"""Most bytes of a file of formats by layers."""

_REPORTS = ("report.json", "report.html")
"""Files that ``openmxu infer`` writes beside outputs."""
