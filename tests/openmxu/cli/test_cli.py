"""The command line: results, exit codes, and one clear line for each mistake."""

import fcntl
import importlib
import io
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from rich.table import Table

from openmxu.area.subject.points import PART_NAMES
from openmxu.cli.frame import bar, make_parser, parsers, print_drawn, print_foreign, print_markdown, tell
from openmxu.runtime import cache
from openmxu.runtime.extras import install
from openmxu_sim import golden

from ...bits import same_bits
from ...conftest import Command, Said, compiled, needs_compiler, ran, slow

Matrices = tuple[np.ndarray, np.ndarray]
MATMUL = "matmul A.npy B.npy"


@pytest.fixture
def matrices(command: Command) -> Matrices:
    """A.npy and B.npy in the working directory, and what is in them."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape, dtype=np.float32) for shape in ((3, 4), (4, 5)))
    np.save("A.npy", a)
    np.save("B.npy", b)
    return a, b


def test_matmul(matrices: Matrices, command: Command) -> None:
    code, _, notes = command(f"{MATMUL} --rows 2 --columns 2 --engine pysim -o C.npy --stats s.json")
    assert code == 0
    same_bits(np.load("C.npy"), golden.matmul(*matrices, rows=2))
    statistics = json.loads(Path("s.json").read_text())
    assert {"cycles", "cycles_source", "utilisation", "engine", "rows", "columns"} <= set(statistics)
    assert f"{statistics['cycles']} cycles (measured)" in notes


def test_notes_are_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor names of pictures."""
    tell("math:x: [red] :warning:")
    assert capsys.readouterr().err == "math:x: [red] :warning:\n"


@needs_compiler
def test_matmul_shows_what_has_no_file(matrices: Matrices, command: Command) -> None:
    code, out, notes = command(MATMUL)
    assert (code, out) == (0, f"{golden.matmul(*matrices, rows=128)}\n")
    assert "engine compiled (auto: the unit's own netlist, compiled)" in notes
    assert "cycles (measured)" in notes


def test_list(shown: Said) -> None:
    out = shown("list")
    assert all(word in out for word in ("mxu_8x8", "fp8_e4m3", "verilator", "generic", "icebreaker")), out
    assert re.search(r"^ up5k +Lattice iCE40 UP5K; stages=5 suits it *$", out, re.MULTILINE)
    assert re.search(r"^ fp8_e4m3 +4 exponent, 3 fraction bits *$", out, re.MULTILINE)


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", "10M")
    place = f"{tmp_path}/openmxu"
    nothing = 0, f"nothing is cached in {place}\n", ""
    assert command("cache") == nothing
    for kind, name in (("models", "a"), ("netlists", "a"), ("netlists", "b")):
        cache.fetch(kind, cache.key(name), lambda: bytes(1 << 20))
    code, out, err = command("cache")
    assert (code, err) == (0, "")
    counts = {"simulations": 0, "models": 1, "netlists": 2, "areas": 0, "checks": 0, "studies": 0, "total": 3}
    rows = [f"{kind} {count} entries {count}.0 MiB" for kind, count in counts.items()]
    assert [" ".join(line.split()) for line in out.splitlines()] == [place, *rows, "at most 10.0 MiB"]
    for arguments, count in (("--kind netlists", 2), ("", 1)):
        message = f"deleted {count} entries, {count}.0 MiB, from {place}\n"
        assert command(f"cache clear {arguments}") == (0, message, "")
    assert command("cache") == nothing


def test_cache_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Said) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file")
    for words in ("cache", "cache clear"):
        assert refused(words) == f"openmxu {words}: {tmp_path}/file/openmxu: Not a directory\n"
    monkeypatch.setenv("OPENMXU_CACHE_SIZE", "much")
    said = "OPENMXU_CACHE_SIZE must be a number of bytes, or a number followed by K, M or G, not 'much'"
    assert refused("cache") == f"openmxu cache: {said}\n"


def test_board_list(shown: Said) -> None:
    every, few = ([line.split()[0] for line in shown(f"board list {each}").splitlines()] for each in ("", "--quick"))
    assert every[:2] == ["icebreaker", "ulx3s-12f"]
    assert set(few) < set(every)


_MISTAKES = {
    "matmul A.npy B.npy": {
        "--rows 0": "rows must be an integer from 1 to 65536, not 0",
        "--rows two": "--rows: must be an integer, not 'two'",
        "--stages 9": "stages must be an integer from 1 to 7, not 9",
        "--engine vcs": "engine must be 'auto' or 'golden'",
        "--precision low": "precision must be 'default', 'high', 'highest', 'exact9', or what JAX ",
        "--output fp16": "output must be 'fp32' or 'bf16', not 'fp16'",
        "--units 0": "units must be an integer >= 1, not 0",
        "--subnormals none": "subnormals must be 'flush' or 'ieee', not 'none'",
        "-o missing/C.npy": "output missing/C.npy cannot be written: No such file or directory",
        "-o .": "output must be a file, not the directory .",
        "-o C.npy --stats C.npy": "outputs must be different files, not two times C.npy",
        "-o ./A.npy": "outputs must be other files than inputs, not A.npy",
        "--engine golden --vcd w.vcd": "vcd needs an engine with a clock",
        "--vcd w.vcd --vcd-rows 4:4": "--vcd-rows: must be a range such as 0:8, not '4:4'",
        "--vcd-rows 4:8": "window requires vcd and engine 'compiled', not vcd=None",
        "--vcd w.vcd --vcd-rows 5:3": "--vcd-rows: must be a range such as 0:8, not '5:3'",
        f"--vcd w.vcd --vcd-rows 0:{10**30}": "--vcd-rows: must be a range such as 0:8, not '0:1",
        f"--rows {'9' * 5000}": "--rows: must be an integer, not '9999",
        "--stalls -1": "stalls must be an integer >= 0, not -1",
    },
    "area -o out": {
        "--recipe best": "recipe must be one of area, default, sized, speed, not 'best'",
        "--target genric": "xilinx7-dsp, not 'genric'; did you mean generic?",
        "--target ecp5 --orders 3": "orders must be 0 without a target whose gates ABC maps by a script",
        "--peers . --energy": "--energy applies only to reports of our own designs, not to --peers",
        "--format fp64": "format must be one of bf16, fp16, tf32, fp8_e5m2, fp8_e4m3, fp32 or eXfY (X exponent, "
        "Y fraction bits), not 'fp64'",
        "--format bf16 --part divider": f"part must be one of {', '.join(PART_NAMES)}, not 'divider'",
        "--format bf16 --part adder --stages 6": "stages must be an integer from 0 to 5, not 6",
        "--format bf16 --subnormals some": "subnormals must be 'flush' or 'ieee', not 'some'",
        "--width 0-3": "width must be fraction bits from 1 to 23, or a range as in 1-23, not '0-3'",
        "--width 1-100000000": "width must be fraction bits from 1 to 23, or a range as in 1-23, not '1-1000",
        f"--width {'9' * 5000}": "width must be fraction bits from 1 to 23, or a range as in 1-23, not '9999",
        "--part adder": "--part applies only to designs chosen with --format or --width",
        "--timeout 0": "timeout must be a number of seconds > 0 and <= 1000000, not 0.0",
        "--timeout nan": "timeout must be a number of seconds > 0 and <= 1000000, not nan",
        "--timeout 1e999": "timeout must be a number of seconds > 0 and <= 1000000, not inf",
        "--jobs 1000000000": "jobs must be an integer from 1 to 1024, not 1000000000",
        "--format bf16 --part array --rows 0": "rows must be an integer from 1 to 65536, not 0",
        "--format bf16 --part array --rows 1000000000": "rows must be an integer from 1 to 65536, not 1000",
        "--cluster here": "cluster must be the address of a Dask scheduler, as in tcp://host:8786, not",
        "--liberty missing.lib": "liberty must be a readable file, not 'missing.lib'",
    },
    "": {
        "board build icebraker -o out": "not 'icebraker'; did you mean icebreaker?",
        "board build ulx3s-85g -o out": "not 'ulx3s-85g'; did you mean ulx3s-85f?",
        "matmul A.npy B.npy --engine compield": "not 'compield'; did you mean compiled?",
        "matmul A.npy B.npy --subnormals flsh": "must be 'flush' or 'ieee', not 'flsh'; did you mean flush?",
        "verilog multiplyer": "not 'multiplyer'; did you mean multiplier?",
        "multiply": "not 'multiply'",
        "matmull": "not 'matmull'; did you mean matmul?",
        "wave --rowz 3": "unrecognized arguments: --rowz 3; did you mean --rows?",
        "matmul A.npy": "B.npy",
        "matmul A.npy missing.npy": "missing.npy: No such file or directory",
        "matmul A.npy A.npy": "a and b must have the shapes (M, K) and (K, N), or others that numpy.matmul takes, "
        "not (3,",
        "matmul A.npy text.npy": "B must be a .npy file of numbers, not text.npy",
        "matmul objects.npy B.npy": "A must be a .npy file of numbers, not objects.npy",
        "matmul complex.npy B.npy": "a must be an array of real numbers, not of complex64",
        "wave --at ,": "--at: must be an integer, not ''",
        "bench --limit 1000000000": "limit must be an integer from 1 to 1000000, not 1000000000",
        "verify --jobs 1000000000": "jobs must be an integer from 1 to 1024, not 1000000000",
        "verilog mxu_5x5": "DESIGN must be one of product, ",
        "verilog adder --rows 3": "adder has no parameter 'rows'; it has operand, subnormals, stages",
        "verilog multiplier --operand fp12": "operand must be one of bf16, ",
        "area -o file.txt": "output must be a directory that can be written",
        "verilog adder --name 2fast": "name must be a Verilog identifier, not '2fast'",
        "cache empty": "invalid choice: 'empty'",
    },
}
"""What is refused, and words of the message: by the arguments that rows share, and those that are their own."""

_VERILOG = "openmxu.export.verilog.to_verilog"
_TRACES = {
    "--vcd-rows 4:400": "rows of a trace must be within 0 to 128, not 4 to 400",
    f"--vcd-rows 0:{10**17}": "rows of a trace must be within 0 to 128, not 0 to 1",
    f"--vcd-cycles 0:{10**17}": "a trace must be of at most 1024 MiB, not of ",
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((f"{first} {options}", words) for first, rows in _MISTAKES.items() for options, words in rows.items()),
        *(compiled(f"matmul A.npy B.npy --vcd w.vcd {options}", words) for options, words in _TRACES.items()),
    ],
)
def test_mistakes(arguments: str, words: str, matrices: Matrices, refused: Said) -> None:
    Path("text.npy").write_text("no numbers")
    Path("file.txt").write_text("kept")
    np.save("objects.npy", np.array([[None]]), allow_pickle=True)
    np.save("complex.npy", matrices[0].astype(np.complex64))
    said = refused(arguments)
    assert words in said
    assert said.startswith("openmxu")
    assert Path("file.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        *((f"{MATMUL} {each} {{}}", "openmxu_sim.simulate") for each in ("-o", "--stats", "--engine pysim --vcd")),
        *((f"verilog pe {each} {{}}", _VERILOG) for each in ("-o", "--template", "-o pe.v --core")),
        ("demo -o {}", "openmxu_sim.demo.classify"),
        ("area -o {} --quick", "openmxu.yosys.prepare"),
        ("verify --json {}", "openmxu_evidence.verify.evidence.verify"),
        *((f"bench {each} {{}}", "openmxu_studies.speed.bench") for each in ("--json", "--plot")),
        ("wave -o {}", "openmxu_sim.wave.observe"),
        ("accuracy --json {}", "openmxu_sim.studies.accuracy.measure"),
        *((f"roofline {each} {{}}", "openmxu_sim.studies.roofline.roofline") for each in ("--json", "--plot")),
        slow("board build icebreaker -o {}", "openmxu.yosys.yowasp.run"),
        ("board run A.npy B.npy --simulate icebreaker -o {}", "openmxu_boards.simulated.simulated_link"),
    ],
)
@pytest.mark.usefixtures("matrices")
def test_no_work_without_a_place_for_its_results(
    arguments: str, work: str, monkeypatch: pytest.MonkeyPatch, refused: Said
) -> None:
    """No folder, no rights (the kernel's own folder takes no files), a folder in place of a file."""
    importlib.import_module(work.rpartition(".")[0])
    monkeypatch.setattr(work, Mock(side_effect=AssertionError("this work is lost")))
    Path("file").touch()
    for name in ("classifier.json", "area.json", "system.bin"):
        Path("folder", name).mkdir(parents=True)
    for output in ("file/out", "/proc/out", "folder"):
        if "--core" in arguments and output == "/proc/out":
            continue  # belongs in the folder of the Verilog file
        assert output in refused(arguments.format(output))


def test_a_result_that_cannot_be_stored(matrices: Matrices, command: Command) -> None:
    """A line says so, and the other outputs are there."""
    code, out, err = command("matmul A.npy B.npy --engine golden -o /dev/full --stats s.json")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == f"openmxu matmul: output /dev/full cannot be written: {FULL}"
    assert json.loads(Path("s.json").read_text())["engine"] == "golden"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RuntimeError("it broke"), 1, "it broke"),
        (ModuleNotFoundError(name="sklearn"), 2, "needs sklearn, which is not installed: PIP"),
        (MemoryError(), 2, "there is not enough memory"),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit(0), 1, "a library asked to exit, with 0, before the command was done"),
    ],
)
def test_failures_and_interrupts(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr("openmxu_boards.boards", Mock(side_effect=error))
    message = message.replace("PIP", install("demo"))  # now: the hint depends on the current folder
    assert command("board list") == (code, "", f"openmxu board list: {message}\n" if message else "interrupted\n")


def test_help_says_the_defaults_that_are() -> None:
    """Of options with one; where it follows from something else, help has several words."""
    compared = 0
    for parser in parsers(make_parser()):
        for action in parser._actions:
            said = re.search(r"\(default: ([^) ;]+)[);]", (action.help or "") % vars(action))
            if said is not None and action.default not in (None, []):
                kind = action.type if callable(action.type) else str
                assert kind(said[1]) == action.default, f"{parser.prog} {action.option_strings}"
                compared += 1
    assert compared >= 20


def test_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line every ten seconds."""
    now = 100.0
    monkeypatch.setattr("openmxu.cli.frame.time", SimpleNamespace(monotonic=lambda: now))
    with bar("rows") as show:
        for done, now in enumerate((101.0, 109.0, 111.0, 112.0, 120.0, 122.0)):  # noqa: B007
            show(done, 6)
    assert capsys.readouterr().err == "rows: 2 of 6\nrows: 5 of 6\n"


FOREIGN = "name\x1b]0;title \x1b[2J [/red]"
SHOWN = r"name\x1b]0;title \x1b[2J [/red]"


@pytest.mark.parametrize("terminal", [False, True])
def test_text_of_others(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal and elsewhere, plain or drawn, nothing of it acts on the terminal, and no bracket is markup."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    table = Table(title="areas")
    table.add_row(FOREIGN)
    for show, given in (
        (print_foreign, f"# a\n{FOREIGN}\n"),
        (print_markdown, f"# a\n\n| b |\n|---|\n| {FOREIGN} |\n"),
        (print_drawn, table),
    ):
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, "stdout", out)
        show(given)  # type: ignore[operator]
        monkeypatch.undo()
        assert SHOWN in out.getvalue()
        assert FOREIGN not in out.getvalue()
        assert "\x1b[2J" not in out.getvalue()


def test_help_of_all_and_of_one(shown: Said) -> None:
    assert shown("") == shown("help") == shown("--help")
    assert shown("help cache clear") == shown("cache clear --help")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_text_is_folded_between_words_on_a_terminal(columns: int, refused: Said) -> None:
    """What is told, refused and printed: lists of names, too; a table's row stays."""
    row = f"| {'a b ' * 50}|"
    program = f"""
import logging
from openmxu.cli.frame import main, print_foreign, tell
main(["--version"])
tell({"word-and-word (2.0) " * 20!r})
print_foreign({row!r} + chr(10) + "  more words" * 20)
logging.getLogger("x").warning({"note " * 60!r})
main(["area", "-o", "out", "--format", "fp64"])
main(["wombat"])
"""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as child:
        os.close(slave)
        shown = b""
        with suppress(OSError):  # the end, on Linux
            while part := os.read(master, 1 << 16):
                shown += part
        child.wait()
    os.close(master)
    lines = shown.decode().splitlines()
    assert row in lines
    assert max(len(line) for line in lines if line != row) <= columns
    words = refused("area -o out --format fp64").split() + refused("wombat").split()
    assert " ".join(shown.decode().split()).endswith(" ".join(words))
    assert shown.decode().split().count("word-and-word") == 20


def test_a_note_is_a_line() -> None:
    program = f"""
import logging, sys
from openmxu.cli.frame import main
main(["--version"])
logging.getLogger("x").warning({FOREIGN!r})
"""
    done = ran([sys.executable, "-c", program], check=True)
    assert (done.stdout[:8], done.stderr) == ("openmxu ", f"note: {SHOWN}\n")


FULL = "No space left on device"


def _shell(command: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a line in a shell, where ``openmxu`` is the module that the tests have."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
    command = command.replace("openmxu", f"{shlex.quote(sys.executable)} -m openmxu", 1)
    done = ran(["bash", "-c", command], env=environment, errors="replace", timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((f"openmxu {words} > /dev/full", FULL) for words in ("board list", "verilog multiplier")),
        slow("openmxu --version > /dev/full", FULL),
        ("PYTHONUNBUFFERED=1 openmxu board list > /dev/full", FULL),
        ("openmxu board list >&-", "Bad file descriptor"),
        slow("openmxu board list 0<&- >&-", "Bad file descriptor"),
    ],
)
def test_standard_output_that_cannot_be_written(line: str, expected: str) -> None:
    code, out, err = _shell(line)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("openmxu")
    assert err.endswith(f": standard output cannot be written: {expected}\n")


@pytest.mark.parametrize(
    "line",
    [
        "(sleep 0.01; openmxu verilog multiplier; echo $? >&2) | true",
        "openmxu verilog multiplier -o >(true); echo $? >&2",
        slow("(sleep 0.01; openmxu list; echo $? >&2) | true"),
    ],
)
def test_nobody_reads_on(line: str) -> None:
    """Nobody is told of it, and it is no failure."""
    assert _shell(line)[1:] == ("", "0\n")


@pytest.mark.usefixtures("matrices")
def test_standard_error_that_cannot_be_written() -> None:
    """It costs what would have been said, but no result; and no file gets its number."""
    for place in ("2>&-", "2>/dev/full", "2>&- <&- >&-", "2> >(exec true)"):
        Path("C.npy").unlink(missing_ok=True)
        assert _shell(f"openmxu {MATMUL} --engine golden -o C.npy --stats s.json {place}") == (0, "", "")
        assert np.load("C.npy").shape == (3, 5)
        assert json.loads(Path("s.json").read_text())["engine"] == "golden"
        assert _shell(f"openmxu matmul A.npy A.npy {place}")[0] == 2


@pytest.mark.usefixtures("matrices")
def test_outputs_into_pipes() -> None:
    expected = np.load("A.npy") @ np.load("B.npy")
    for words in (
        "A.npy B.npy --engine golden -o /dev/stdout | cat > C.npy",
        "A.npy B.npy --engine golden -o >(cat > C.npy); wait",
        "<(cat A.npy) <(cat B.npy) --engine golden -o C.npy",
    ):
        Path("C.npy").unlink(missing_ok=True)
        code, _, err = _shell(f"openmxu matmul {words}; sleep 0.2")
        assert (code, err.count("\n")) == (0, 1)
        np.testing.assert_allclose(np.load("C.npy"), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "name", ["line\nfeed", "carriage\rreturn", "escape\x1b[2J", "half\udcff", "\u202eback", "wide\u3000"]
)
@pytest.mark.usefixtures("matrices")
def test_odd_names(name: str, command: Command, refused: Said) -> None:
    """One line, and nothing in it that a terminal acts on."""
    shown = name.encode("unicode_escape").decode()
    for words, last in (
        ("matmul A.npy", f"{name}.npy"),
        ("matmul A.npy B.npy -o", f"{name}/C.npy"),
        ("matmul A.npy B.npy", name),
        ("area -o out --liberty", f"{name}.lib"),
        ("area -o out --compare", f"{name}.json"),
        ("verilog", name),
        ("board build -o out", name),
    ):
        said = refused(words, last)
        assert said[:-1].isprintable()
        assert shown in said.replace("\\\\", "\\")
    assert command("matmul A.npy B.npy --engine golden -o", f"{name}.npy")[0] == 0
    assert np.load(f"{name}.npy").shape == (3, 5)


@pytest.mark.parametrize(
    "variables",
    [
        slow({"LC_ALL": "C"}),
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        slow({"PYTHONIOENCODING": "ascii"}),
    ],
)
@pytest.mark.usefixtures("matrices")
def test_locales(variables: dict[str, str]) -> None:
    assert _shell("openmxu roofline --json é.json", **variables)[0] == 0
    assert json.loads(Path("é.json").read_text(encoding="utf-8"))
    code, _, err = _shell("openmxu matmul ù.npy B.npy", **variables)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.usefixtures("matrices")
def test_a_limit_of_file_sizes() -> None:
    for name, shape in (("A", (64, 4)), ("B", (4, 64))):
        np.save(name, np.ones(shape, np.float32))
    command = f"ulimit -f 8; openmxu {MATMUL} --engine golden --rows 4 -o C.npy"
    code, out, err = _shell(command, TMPDIR=os.getcwd(), HOME=os.getcwd())
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "openmxu matmul: output C.npy cannot be written: File too large"
    assert sorted(os.listdir()) == ["A.npy", "B.npy"]
