"""The command ``verilog``."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, integer, offer, tell
from openmxu.runtime.files import folder, reserve
from openmxu.spec.blocks import BLOCK_FORMATS, MXFP8
from openmxu.spec.formats import FORMATS, SUBNORMALS
from openmxu.spec.forms import AREA, FORMS, check_form

if TYPE_CHECKING:
    from openmxu.catalog import Design

_DEFAULTS = {"ports": "nested", "memories": "inline", "form": AREA}
"""Defaults of options for the form of a file."""

_MANY_CELLS = 256
"""The fewest processing elements for which a bench takes minutes."""


def add_verilog(commands: Any) -> None:
    from openmxu.catalog import EXPORTED

    parser = add_command(
        commands,
        "verilog",
        _verilog,
        "write a design as plain Verilog",
        "  openmxu verilog mxu --rows 8 --columns 8 -o mxu.v\n"
        "  openmxu verilog mxu --bus axi --rows 8 --columns 8 -o mxu.v --template instance.v --core mxu.core\n"
        "  openmxu verilog mxu --rows 8 --columns 8 --ports flat -o mxu.v --template instance.vhd\n"
        "  openmxu verilog mxu --rows 8 --columns 8 --memories wrapped --clock-enable --prefix my -o mxu.v\n"
        "  openmxu verilog mxu --rows 4 --columns 4 --bench verilog -o unit    # then: make -C unit\n"
        "  openmxu verilog mxu --bus axi --rows 4 --columns 4 --bench cocotb -o unit\n"
        "  openmxu verilog accelerator --bus wishbone --beat 32 -o accelerator.v\n"
        "  openmxu verilog adder --subnormals ieee --stages 2 -o adder.v\n"
        "  openmxu verilog multiplier --operand fp16 --result fp32 -o multiplier.v\n\n"
        "designs:\n" + "\n".join(f"  {d.name:<18} {d.summary}" for d in EXPORTED.values()),
    )
    parser.add_argument("design", metavar="DESIGN", help="one of the designs below")
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        metavar="FILE",
        help="Verilog file (default: the terminal); with --bench, the folder for all files",
    )
    _add_beside(parser)
    _add_form(parser)
    add_parameters(parser)


def _add_beside(parser: argparse.ArgumentParser) -> None:
    """Options for files beside the Verilog."""
    parser.add_argument(
        "--template",
        type=Path,
        metavar="FILE",
        help="write an instance to copy from: VHDL with a component declaration if FILE ends with .vhd or .vhdl, else "
        "Verilog",
    )
    parser.add_argument("--core", type=Path, metavar="FILE.core", help="write a FuseSoC core file beside the Verilog")
    parser.add_argument(
        "--bench",
        metavar="NAME",
        help="verilog or cocotb: write the unit with a bench that checks it bit for bit, golden vectors, a makefile "
        "for Icarus Verilog and Verilator, and a FuseSoC core file",
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    """Options for the form: names, ports, places of memories, a clock enable."""
    from openmxu.export.memories import MEMORIES
    from openmxu.export.names import PORTS

    parser.add_argument("--name", metavar="NAME", help="name of the top module (default: from the design)")
    parser.add_argument(
        "--prefix",
        metavar="NAME",
        help="prefix of the names of inner modules (default: the top module's name and a digest of the design, so that "
        "equal names mean equal modules)",
    )
    words = {
        "ports": "names of ports: nested (weights__valid) or flat (weights_valid, legal in VHDL)",
        "memories": "where memories are: inline (in the modules that use them) or wrapped (a separate module for each "
        "shape, which a foundry's or vendor's can replace)",
        "form": f"gates of the arithmetic, same bits: {', '.join(FORMS)} (see openmxu list)",
    }
    offer(
        parser, ports=lambda: PORTS, memories=lambda: MEMORIES, form=lambda: FORMS, bench=lambda: ("verilog", "cocotb")
    )
    for name, default in _DEFAULTS.items():
        parser.add_argument(f"--{name}", default=default, metavar="NAME", help=f"{words[name]}; default: {default}")
    parser.add_argument(
        "--clock-enable",
        action="store_true",
        help="add an input clk_en (aclken on AXI): clock edges at which it is low change nothing",
    )


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add an option for each parameter of any design."""
    from openmxu.catalog import EXPORTED

    formats = dict.fromkeys(("operand", "weight", "result", "source", "target"), lambda: FORMATS)
    offer(parser, design=lambda: EXPORTED, subnormals=lambda: SUBNORMALS, **formats)
    for name, kind in _design_parameters().items():
        if kind is bool:
            parser.add_argument(f"--{name}", action="store_true", default=None, help=_PARAMETERS[name])
        else:
            parser.add_argument(
                f"--{name}",
                type=integer if kind is int else str,
                metavar="N" if kind is int else "NAME",
                help=_PARAMETERS[name],
            )


_PARAMETERS = {
    "width": "width of each operand of a product, in bits",
    "operand": "operand format: " + ", ".join(FORMATS) + ", or eXfY",
    "weight": "format of weights, of i_b in arithmetic, if it is not the operand format",
    "result": "result format of a multiplier, or of a unit's result stream: fp32 or the operand format",
    "source": "input format of a converter, or of a unit's input streams: fp32 or the operand format",
    "target": "output format of a converter",
    "block": f"numbers of an element of blocks: {', '.join((MXFP8.name, *BLOCK_FORMATS))}",
    "subnormals": "one of " + ", ".join(SUBNORMALS),
    "stages": "pipeline stages",
    "terms": "products that a processing element adds at once: 1, 2, 4 or 8; of a sum of products 2, 4 or 8",
    "rows": "rows of an array or unit",
    "columns": "columns of an array or unit",
    "depth": "entries of a unit's accumulator bank, a power of two",
    "splitter": "let the unit split fp32 words into the parts for several passes",
    "status": "give the unit counters and an error code",
    "bus": "bus of a unit: none (its own streams) or axi (AXI4-Stream, and registers on AXI4-Lite); of an accelerator: "
    "axi or wishbone",
    "scratchpad": "bytes of an accelerator's scratchpad, such as 64K or 1M",
    "weights": "bytes of its memory of weights",
    "program": "words of its memory of commands",
    "beat": "bits of a beat on its bus, at most a row's",
}


def _design_parameters() -> dict[str, type]:
    """The parameters of all designs, with the types of their defaults."""
    from openmxu.catalog import EXPORTED

    return {name: type(default) for design in EXPORTED.values() for name, default in design.defaults.items()}


def requested(options: argparse.Namespace) -> "tuple[Design, dict[str, Any]]":
    """The requested design, and the parameters given with it."""
    from openmxu.catalog import EXPORTED

    if options.design not in EXPORTED:
        raise ValueError(f"DESIGN must be one of {', '.join(EXPORTED)}, not {options.design!r}")
    return EXPORTED[options.design], given_parameters(options)


def given_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters that options give."""
    return {name: getattr(options, name) for name in _design_parameters() if getattr(options, name) is not None}


def _verilog(options: argparse.Namespace) -> None:
    from openmxu.export.integration import to_core, to_template, to_vhdl_template

    design, parameters = requested(options)
    _check_verilog(options)
    if options.bench is not None:
        _verilog_with_bench(options, design, parameters)
        return
    with reserve(options.output_file, options.template, options.core) as outputs:
        component = design.build(**parameters)
        if design.cells > 1024 and not parameters:
            tell(f"writing {design.summary}: about 10 seconds")
        name = options.name or component.module_name
        text = _export(options, component, name, parameters)
        template = ""
        if options.template is not None:
            write_template = to_vhdl_template if options.template.suffix in (".vhd", ".vhdl") else to_template
            template = write_template(component, text, name=name, ports=options.ports)
        outputs.write_text(options.output_file, text)
        outputs.write_text(options.template, template)
        if options.core is not None:
            outputs.write_text(options.core, to_core(options.output_file.name, name=name))
        if options.output_file is None:
            print(text, end="")


def _export(options: argparse.Namespace, component: Any, name: str, parameters: dict[str, Any]) -> str:
    """The Verilog of a component, in the requested form."""
    from openmxu.export.verilog import to_verilog

    return to_verilog(
        component,
        name=name,
        prefix=options.prefix,
        ports=options.ports,
        memories=options.memories,
        clock_enable=options.clock_enable,
        form=options.form,
        command=_verilog_command(options, parameters),
    )


def _verilog_with_bench(options: argparse.Namespace, design: "Design", parameters: dict[str, Any]) -> None:
    """Write a unit and all files of its bench into a folder."""
    from openmxu.export.bench import Export, find_bench

    bench = find_bench(options.bench)
    # The unit's own name, without the unit: a component that is built must be used, and the files are checked first.
    name = options.name or ("mxu_axi" if (design.domain | parameters)["bus"] == "axi" else "mxu")
    where = options.output_file
    files = [where / file for file in (f"{name}.v", *bench.names(name))]
    with folder(where), reserve(*files) as outputs:
        component = design.build(**parameters)
        cells = component.config.rows * component.config.columns
        if cells >= _MANY_CELLS:
            tell(f"note: simulators copy each of the {cells} processing elements, which takes minutes and gigabytes")
        text = _export(options, component, name, parameters)
        command = f"{_verilog_command(options, parameters)} --bench {options.bench} -o DIR"
        export = Export(component, name, options.ports, options.clock_enable, command)
        for file, content in zip(files, [text, *bench.write(export)], strict=True):
            outputs.write_text(file, content)
    tell(f"wrote {', '.join(file.name for file in files)} to {where}; make -C {where} runs the bench")


def _check_verilog(options: argparse.Namespace) -> None:
    """Refuse an invalid request before any work is done."""
    from openmxu.export.memories import check_memories
    from openmxu.export.names import check_names

    check_names(options.name, options.prefix, options.ports)
    check_memories(options.memories)
    check_form(options.form)
    if options.bench is not None:
        _check_bench(options)
    if options.core is not None and (
        options.output_file is None or options.output_file.resolve().parent != options.core.resolve().parent
    ):
        raise ValueError(f"core must be in the folder of the Verilog file, which -o names, not {options.core}")


def _check_bench(options: argparse.Namespace) -> None:
    """Refuse a bench for a design that has none, or without an output."""
    from openmxu.catalog import CATALOG, EXPORTED

    if EXPORTED[options.design].family != "mxu":
        units = ", ".join(design.name for design in CATALOG.values() if design.family == "mxu")
        raise ValueError(f"bench applies only to a unit ({units}), not to {options.design}")
    if options.output_file is None:
        raise ValueError("bench needs a folder for its files, which -o names")
    if options.core is not None or options.template is not None:
        raise ValueError("bench writes a core file and an instance itself: leave out --core and --template")


def _verilog_command(options: argparse.Namespace, parameters: dict[str, Any]) -> str:
    """The command that writes the same Verilog: the design and the chosen options, without the paths of outputs."""
    words = ["openmxu", "verilog", options.design]
    for name, value in parameters.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    for name in ("name", "prefix"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", value]
    for name, default in _DEFAULTS.items():
        if (value := getattr(options, name)) != default:
            words += [f"--{name}", value]
    words += ["--clock-enable"] * options.clock_enable
    return shlex.join(words)
