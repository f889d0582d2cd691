"""The command of this package: ``board``."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import Section, add_command, bar, integer, offer, print_foreign, subcommands, tell
from openmxu.commands import add_parameters, requested
from openmxu.runtime.files import folder, reserve

if TYPE_CHECKING:
    from openmxu_boards import Board
    from openmxu_boards.host import Host
    from openmxu_boards.soc import UartSoc


_DESIGNS = ("system", "network", "selftest")


def add_board(commands: Any) -> None:
    parser = add_command(commands, "board", None, "build bitstreams for FPGA boards, and multiply matrices on them")
    actions = subcommands(parser, required=True)
    for run, options, summary, examples in _COMMANDS:
        name = run.__name__.removeprefix("_board_").replace("_", "-")
        lines = "\n".join(f"  openmxu board {name} {words}".rstrip() for words in examples)
        options(add_command(actions, name, run, summary, lines))


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="only boards whose build takes one to three minutes")


def _build_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("board", metavar="BOARD", nargs="?", help="a name from openmxu board list")
    offer(parser, board=_names, design=lambda: _DESIGNS)
    add("--platform", metavar="MODULE:CLASS", help="instead of BOARD: the Amaranth platform of your own board")
    what = "system, for board run; network, for run-network; or selftest, which needs no host (default: system)"
    add("--design", default="system", metavar="NAME", help=what)
    for noun in ("rows", "columns", "stages", "terms"):
        add(f"--{noun}", type=integer, metavar="N", help=f"{noun} of the unit (default: the board's)")
    add("--clock", type=float, metavar="MHZ", help="clock, made by a PLL (default: the board's)")
    add("--seeds", type=integer, metavar="N", help="runs of nextpnr; the fastest is kept (default: one run)")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for bitstream, reports and logs")
    what = "add the figures, and the system's speed at its simulated pins, to a record of builds"
    add("--json", type=Path, metavar="FILE", help=f"{what}; the drawing goes to the folder placements beside it")


def _names() -> list[str]:
    from openmxu_boards import boards

    return [board.name for board in boards()]


def _port_options(parser: argparse.ArgumentParser) -> None:
    offer(parser, simulate=_names)
    parser.add_argument(
        "--port",
        default="auto",
        metavar="PORT",
        help="serial port of the board, such as /dev/ttyUSB1; /dev/ttyUSB1@115200 if the baud rate is not 1,000,000 "
        "(default: auto, the first port on which a board answers)",
    )
    what = "instead of hardware, simulate this board, or your own MODULE:CLASS, at its UART's pins, behind a"
    parser.add_argument("--simulate", metavar="BOARD", help=f"{what} pseudo-terminal")


def _run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", type=Path, metavar="A.npy", help="(M, K) activations, as for openmxu matmul")
    add("b", type=Path, metavar="B.npy", help="(K, N) weights, of the same types")
    what = "file for the (M, N) result (default: shown on the terminal)"
    add("-o", "--output-file", type=Path, metavar="C.npy", help=what)
    add("--precision", default="default", metavar="NAME", help="as for openmxu matmul (default: default, 1 pass)")
    _port_options(parser)


def _network_options(parser: argparse.ArgumentParser) -> None:
    from openmxu_sim.commands.run_accelerator import add_network

    add_network(parser)
    _port_options(parser)


def _selftest_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--products", type=integer, default=20, metavar="N", help="number of products (default: 20)")
    add("--seed", type=integer, default=0, metavar="SEED", help="seed of the matrices (default: 0)")
    what = "with --simulate, instead of --products: inject N faults into requests and answers at the pins, and count"
    add("--faults", type=integer, metavar="N", help=f"{what} wrong numbers and hangs")
    _port_options(parser)


def _check_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("board", metavar="BOARD", help="a name from openmxu board list, or MODULE:CLASS of a board of your own")
    add("folder", type=Path, metavar="DIR", help="folder of openmxu board build")
    what = "least number of rounds that the self-test must pass (default: until the heartbeat changes), or number of"
    add("--rounds", type=integer, metavar="N", help=f"{what} products of the system (default: 5)")


def _report_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folders", type=Path, nargs="+", metavar="DIR", help="folders of openmxu board build")
    add(
        "--quick", action="store_true", help="leave out a host's speed, whose simulation takes a minute for each system"
    )
    what = "folder for report.html, report.md and drawings"
    add("-o", "--output", type=Path, required=True, metavar="DIR", help=what)


def _route_options(parser: argparse.ArgumentParser) -> None:
    from openmxu_boards.bitstream.route import DEVICES

    add = parser.add_argument
    lines = "\n".join(f"  {name:<10} {device.title}" for name, device in DEVICES.items())
    parser.epilog = f"{parser.epilog}\n\ndevices:\n{lines}"
    add("design", metavar="DESIGN", help="a name from openmxu list")
    add("--device", default="ecp5-25f", metavar="NAME", help="one of the devices below (default: ecp5-25f)")
    what = "runs of nextpnr, each with another seed (default: 5)"
    add("--seeds", type=integer, default=5, metavar="N", help=what)
    add("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    add_parameters(parser)


@contextmanager
def _looking_here() -> Iterator[None]:
    """Find modules in the current folder, too, where a user's own platform may be."""
    before = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _system(board: "Board") -> "UartSoc":
    return board.system(board.config, board.frequency)


def _network(board: "Board") -> "UartSoc":
    """Its memories take long at a UART, so a bit has four cycles."""
    return board.network(board.config, 4 * board.baud)


@contextmanager
def _port(options: argparse.Namespace, simulated: "Callable[[Board], UartSoc]" = _system) -> Iterator[str]:
    """The port of the requested board, or of its simulation."""
    if options.simulate is None:
        yield options.port
        return
    from openmxu_boards import find_board
    from openmxu_boards.simulated import Terminal, simulated_link

    board = find_board(options.simulate)
    if options.port != "auto":
        raise ValueError(f"port must be left out with --simulate, not {options.port!r}")
    with Terminal(simulated_link(simulated(board), tell=tell)) as terminal:
        yield f"{terminal.port}@{board.baud}"


@contextmanager
def _host(options: argparse.Namespace, simulated: "Callable[[Board], UartSoc]" = _system) -> "Iterator[Host]":
    """The requested board."""
    from openmxu_boards.host import connect

    with _port(options, simulated) as port, connect(port) as host:
        yield host


@_looking_here()
def _board_run(options: argparse.Namespace) -> None:
    from openmxu_sim import simulate
    from openmxu_sim.operands.npy import read_matrix, to_npy

    with reserve(options.output_file) as outputs:
        a, b = read_matrix(options.a, "A"), read_matrix(options.b, "B")
        with _port(options) as port, bar("beats of results") as progress:
            product = simulate(a, b, precision=options.precision, engine="board", port=port, progress=progress)
        if options.output_file is None:
            print(product.result)
        else:
            outputs.write_bytes(options.output_file, to_npy(product.result))
    statistics, config = product.statistics, product.statistics.config
    counted = f", {statistics.cycles} of the board's cycles" if statistics.cycles_source == "measured" else ""
    tell(
        f"{statistics.m}x{statistics.k}x{statistics.n} on {config.rows}x{config.columns}: "
        f"{statistics.seconds:.2f} s{counted}"
    )


@_looking_here()
def _board_run_network(options: argparse.Namespace) -> int:
    from openmxu_boards.host.network import BoardPlayer, accelerator_of
    from openmxu_sim.commands.run_accelerator import compile_network, play_network, sizes_of

    with _host(options, _network) as host:
        config, player = accelerator_of(host), BoardPlayer(host, whole=options.check)
        code = play_network(options, lambda: compile_network(options.model, config, sizes_of(options)), player)
    for noun, part in (("first image", player.taken[:1]), ("each later one", player.taken[1:])):
        if part:
            size, seconds = (sum(column) / len(part) for column in zip(*part, strict=True))
            tell(f"{noun}: {size:,.0f} bytes on the port, {seconds:.3f} s")
    return code


@_looking_here()
def _board_info(options: argparse.Namespace) -> None:
    with _host(options) as host:
        print_foreign(str(host.identity))
        print_foreign(f"answers on {host.port}")


@_looking_here()
def _board_selftest(options: argparse.Namespace) -> int:
    from openmxu_boards.host.check import check

    if not options.products > 0:
        raise ValueError(f"products must be >= 1, not {options.products}")
    if options.faults is not None:
        return _spoil(options)
    with _host(options) as host:
        with bar("products") as progress:
            result = check(host, options.products, options.seed, progress)
        print_foreign(str(result))
    return 0 if result.right else 1


def _spoil(options: argparse.Namespace) -> int:
    """A campaign of faults; its result does not depend on time, so clock and baud rate are low."""
    from openmxu_boards import find_board
    from openmxu_boards.simulated import new_pins
    from openmxu_boards.simulated.campaign import BAUD, CLOCK, campaign
    from openmxu_boards.soc import UartSoc

    if options.simulate is None:
        raise ValueError("faults require --simulate")
    if not options.faults > 0:
        raise ValueError(f"faults must be >= 1, not {options.faults}")
    board = find_board(options.simulate)
    system = UartSoc(board.config, board.buffers, clock=CLOCK, baud=BAUD, counters=board.counters)
    pins = new_pins(system, tell)
    with bar("faults") as progress:
        done = campaign(pins, options.faults, seed=options.seed, progress=progress)
    print_foreign(str(done))
    return 0 if done.passed else 1


def _board_list(options: argparse.Namespace) -> None:
    from openmxu_boards import boards

    for board in boards():
        if options.quick and not board.quick:
            continue
        print(f"{board.name:<15} {board.summary}")


@_looking_here()
def _board_build(options: argparse.Namespace) -> None:
    from openmxu_boards import build, find_board, own_board, with_options
    from openmxu_boards.bitstream.flow import MOST_SEEDS
    from openmxu_boards.bitstream.plan import PLACEMENT
    from openmxu_boards.bitstream.record import PLACEMENTS, add, drawing_name, of_json
    from openmxu_boards.bitstream.report import unit_of
    from openmxu_boards.bitstream.top import selftest
    from openmxu_boards.simulated.throughput import measure

    if options.design not in _DESIGNS:
        raise ValueError(f"design must be system, network or selftest, not {options.design!r}")
    if (options.board is None) == (options.platform is None):
        raise ValueError("BOARD must be given, or --platform in its place, and not both")
    if options.seeds is not None and not 1 <= options.seeds <= MOST_SEEDS:
        raise ValueError(f"seeds must be from 1 to {MOST_SEEDS}, not {options.seeds}")
    board = find_board(options.board) if options.platform is None else own_board(options.platform)
    unit = {noun: vars(options)[noun] for noun in ("rows", "columns", "stages", "terms")}
    if options.design == "network":
        chosen = [noun for noun, value in unit.items() if value is not None]
        if chosen:
            raise ValueError(f"{chosen[0]} must be left out with the design network, whose accelerator is the board's")
        board = with_options(board, clock=board.accelerator_clock)
    board = with_options(board, **unit, clock=options.clock)
    seeds = None if options.seeds is None else range(1, options.seeds + 1)
    design = {"system": board.system, "network": board.network, "selftest": selftest}[options.design]
    record, name = options.json, drawing_name({"board": board.name, "design": options.design, "unit": unit_of(board)})
    drawing = None if record is None else record.parent / PLACEMENTS / name
    with nullcontext() if drawing is None else folder(drawing.parent, shared=True), reserve(record, drawing) as outputs:
        old = record.read_text() if record is not None and record.exists() else ""
        if old:
            of_json(old)
        report = build(board, options.output, design=design, name=options.design, seeds=seeds, progress=tell)
        if record is not None:
            throughput = measure(board, tell=tell) if options.design == "system" else None
            outputs.write_text(record, add(old, report, throughput))
            outputs.write_bytes(drawing, (options.output / PLACEMENT).read_bytes())
    print_foreign(str(report))


@_looking_here()
def _board_check(options: argparse.Namespace) -> int:
    from openmxu_boards.replay import check

    checked = check(options.board, options.folder, options.rounds, progress=tell)
    print_foreign(str(checked))
    return 0 if checked.passed else 1


@_looking_here()
def _board_report(options: argparse.Namespace) -> None:
    from openmxu_boards.bitstream.pages import HTML, write_pages

    write_pages(options.folders, options.output, measured=not options.quick, tell=tell)
    print_foreign(str(options.output / HTML))


def _board_route(options: argparse.Namespace) -> None:
    from openmxu_boards.bitstream.route import find_device, route

    find_device(options.device)
    if not 1 <= options.seeds <= 100:
        raise ValueError(f"seeds must be from 1 to 100, not {options.seeds}")
    design, arguments = requested(options)
    with reserve(options.json) as outputs:
        routed = route(design.build(**arguments), options.device, range(1, options.seeds + 1), progress=tell)
        outputs.write_text(options.json, routed.to_json())
    print_foreign(str(routed))


_COMMANDS: tuple[tuple[Callable[..., int | None], Callable[..., None], str, Sequence[str]], ...] = (
    (_board_list, _list_options, "show the boards", ()),
    (
        *(_board_build, _build_options, "build a bitstream for a board"),
        (
            *("icebreaker -o build", "icebreaker --design selftest -o build"),
            "ulx3s-85f --rows 8 --columns 8 --clock 60 --seeds 5 -o build",
            "--platform amaranth_boards.icestick:ICEStickPlatform -o build",
        ),
    ),
    (
        *(_board_check, _check_options),
        "simulate a build: the bitstream on iCE40, the routed netlist on ECP5, Gowin and GateMate",
        ("icebreaker build",),
    ),
    (
        *(_board_report, _report_options),
        "write a page of builds: clocks, cells, drawings, longest paths, and a host's speed",
        ("build/icebreaker build/ulx3s-12f -o report",),
    ),
    (
        *(_board_route, _route_options),
        "place and route any design of the catalog between registers, and show its clock and cells",
        ("pe --stages 6", "mxu --rows 4 --columns 4 --source bf16 --depth 16 --stages 7 --device ecp5-85f"),
    ),
    (
        *(_board_run, _run_options, "multiply two matrices on a board"),
        tuple(
            f"A.npy B.npy -o C.npy{end}"
            for end in ("", " --port /dev/ttyUSB1 --precision highest", " --simulate icebreaker")
        ),
    ),
    (
        *(_board_run_network, _network_options, "run a network on a board's accelerator"),
        ("model.onnx --input x.npz -o y.npz", "model.mxa --input x.npz --check --simulate ulx3s-25f"),
    ),
    (
        *(_board_info, _port_options, "show which unit a board has, and on which port it answers"),
        ("", "--simulate icebreaker"),
    ),
    (
        *(_board_selftest, _selftest_options),
        "multiply random matrices of all bit patterns on a board, and compare each bit with the golden model",
        ("", "--products 100 --seed 7 --simulate icebreaker", "--faults 1000 --simulate icebreaker"),
    ),
)
"""The commands, by the functions that run them and add their options: what they do, and examples."""


def sections() -> Iterator[Section]:
    """The sections of ``openmxu list`` about this package."""
    from openmxu_boards import boards
    from openmxu_boards.bitstream.route import DEVICES

    yield "Boards (openmxu board build)", [(board.name, board.summary) for board in boards()]
    devices = [(name, f"{device.title}; stages={device.stages} suits it") for name, device in DEVICES.items()]
    yield "Devices (openmxu board route)", devices
