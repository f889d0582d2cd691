"""What tests of several packages share, and what every test run says at its end: the engines that were not there."""

import gc
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import cycle, product
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # tests import onnxruntime, too, and start programs that do


def pytest_configure() -> None:
    """Signals do what they do by default: one that was ignored, as under nohup, would stay so in all children."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What writes expected figures anew; what lets a second run have the tests that a first one skipped; parts."""
    parser.addoption("--update-areas", action="store_true", help="write the areas that tests expect anew")
    parser.addoption("--list-skipped", metavar="FILE", help="write the names of tests and modules that are skipped")
    parser.addoption("--only-listed", metavar="FILE", help="run only these")
    parser.addoption("--part", metavar="N/M", help="run one of M parts, 0 to M - 1, by the names of tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ``--only-listed`` does not name, be it by its module, and other parts than that of ``--part``."""
    chosen = items
    if listed := config.getoption("--only-listed"):
        names = set(Path(listed).read_text().splitlines())
        chosen = [item for item in chosen if not names.isdisjoint({item.nodeid, item.nodeid.partition("::")[0]})]
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        chosen = [item for item in chosen if crc32(item.nodeid.encode()) % parts == number]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_collection_finish() -> None:
    """What is collected stays to the end: looking for garbage in it would take a second for a dozen tests."""
    gc.freeze()


_NO_COMPILER = find_spec("ziglang") is None and not any(map(shutil.which, ("cc", "gcc", "clang")))


needs_compiler = pytest.mark.skipif(_NO_COMPILER, reason="a C compiler is needed")
"""Mark: the test runs a command that needs one; :func:`pytest_runtest_call` looks after others."""

compiled = partial(pytest.param, marks=needs_compiler)
"""A case of such a test."""

ALONE = f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(1000)'"
"""A command of a shell that leaves its group and sleeps; not every machine has setsid."""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
"""Mark: the test makes repositories."""


def load_file(path: Path) -> Any:
    """A file that belongs to no package, as a module."""
    spec: Any = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(command: Sequence[Any], *, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has run, with what it said."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip what needs a compiler where there is none; elsewhere, a test that misses one has failed."""
    try:
        return (yield)
    except ValueError as error:
        if _NO_COMPILER and type(error).__name__ in ("CompilerNotFoundError", "SimulatorNotFoundError"):
            pytest.skip(str(error))
        raise


pytest_runtest_setup = pytest_runtest_call


@pytest.fixture(autouse=True)
def _nothing_left_to_later_tests() -> Iterator[None]:
    """What a test changes of its process, it restores: or the order of tests, and what runs beside, decide."""
    before = _process()
    yield
    after = _process()
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    left = [f"{name}: {before.get(name)} is {after.get(name)} now" for name in changed]
    assert not left, f"left to later tests: {'; '.join(left)}"


def _process() -> dict[str, object]:
    mask = os.umask(0o77)
    os.umask(mask)
    # what OpenMP, PyTorch and JAX set when something imports them
    others = ("PYTEST_", "KMP_", "TORCHINDUCTOR_", "TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY")
    return {
        "muted log": logging.root.manager.disable,
        "level of the log": logging.getLogger("openmxu").level,
        "folder": os.getcwd(),
        "mask of modes": mask,
        "sys.path": list(sys.path),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        **{name: value for name, value in os.environ.items() if not name.startswith(others)},
    }


def need(simulator: str) -> None:
    """Skip the test where the simulator is not installed."""
    from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator  # noqa: PLC0415  # as below

    try:
        load_simulator(simulator)
    except SimulatorNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["verilator", "icarus"])
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator, skipped where it is not installed."""
    need(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window, driven by Playwright; skipped where either is not installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make setup-browser")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium (Debian: apt install chromium)")
    flags = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=flags.split())
        yield opened
        opened.close()


Command = Callable[..., tuple[int, str, str]]
Said = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``openmxu`` in ``tmp_path`` with words and arguments that follow them; exit code, output and errors."""
    from openmxu.cli.frame import main  # noqa: PLC0415  # as above

    monkeypatch.chdir(tmp_path)

    def run(words: str, *arguments: str) -> tuple[int, str, str]:
        try:
            code = main([*words.split(), *arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return run


@pytest.fixture
def shown(command: Command) -> Said:
    """Run a command that succeeds; its output."""

    def run(words: str, *arguments: str) -> str:
        code, out, err = command(words, *arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def refused(command: Command) -> Said:
    """The one line that a command says of a mistake, with exit code 2, before it writes.

    ``works``: what it tells of its work may stand before.
    """

    def run(words: str, *arguments: str, works: bool = False) -> str:
        before = sorted(Path().rglob("*"))
        code, out, err = command(words, *arguments)
        assert (code, out, sorted(Path().rglob("*"))) == (2, "", before), err
        *told, line = err.splitlines(keepends=True)
        assert works or not told, err
        return line

    return run


@pytest.fixture(params=["flush", "ieee"])
def mode(request: pytest.FixtureRequest) -> str:
    """Subnormal numbers as the unit takes them: each in turn."""
    return str(request.param)


slow = partial(pytest.param, marks=pytest.mark.slow)
"""A case for `make slow`, beside others for `make test`."""

thorough = partial(pytest.param, marks=(pytest.mark.slow, pytest.mark.thorough))
"""A case for `make thorough`."""


def each_once(*values: Sequence[Any]) -> list[Any]:
    """The product of parameters: each of their values for `make test`, other cases by turns for `slow`, `thorough`."""
    shown = [tuple(each[n % len(each)] for each in values) for n in range(max(map(len, values)))]
    mark = cycle((slow, thorough))
    return [case if case in shown else next(mark)(*case) for case in product(*values)]


Bench = Callable[..., None]


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """Run the test bench of a design in a simulator; skip where that is not installed.

    The waveform, named by the test, goes to the folder that OPENMXU_WAVES names; there is none if it is not set.
    """
    from openmxu_evidence.benches import Task, run_bench  # noqa: PLC0415  # as below

    waves = os.environ.get("OPENMXU_WAVES")
    vcd = Path(waves, re.sub(r"[^\w-]+", "_", request.node.name) + ".vcd") if waves else None

    def run(design: str, options: Mapping[str, Any] | None = None, *, count: int = 2000, **how: Any) -> None:
        need(how.get("simulator", "verilator"))
        how.setdefault("timeout", 120)
        assert run_bench(Task(design, options or {}, count=count), vcd=vcd, **how)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List absent engines, so that nobody takes a short run for a whole one; and write what was skipped, if asked."""
    if listed := terminalreporter.config.getoption("--list-skipped"):
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", ())}
        Path(listed).write_text("".join(f"{name}\n" for name in sorted(skipped)))
    from openmxu_sim.cosim.simulators import find_simulator  # noqa: PLC0415  # a broken install should still collect tests

    absent = [name for name in ("verilator", "icarus") if find_simulator(name) is None]
    absent += [f"{name} (make setup-models)" for name in ("torch", "jax", "onnx") if find_spec(name) is None]
    absent += ["playwright (make setup-browser)"] * (find_spec("playwright") is None)
    absent += ["chromium"] * (shutil.which("chromium") is None)
    absent += ["a C compiler"] * _NO_COMPILER
    if absent:
        terminalreporter.write_line(f"not tested, because absent: {', '.join(absent)}")
