"""What tests of several packages share, and what every test run says at its end: the engines that were not there."""

import signal
from contextlib import suppress

import pytest


def pytest_configure() -> None:
    """Signals do what they do by default: one that was ignored, as under nohup, would stay so in all children."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What writes expected figures anew."""
    parser.addoption("--update-areas", action="store_true", help="write the areas that tests expect anew")


@pytest.fixture(params=["verilator", "icarus"])
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator, skipped where it is not installed."""
    from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator  # noqa: PLC0415  # as below

    try:
        load_simulator(request.param)
    except SimulatorNotFoundError as error:
        pytest.skip(str(error))
    return str(request.param)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List absent engines, so that nobody takes a short run for a whole one."""
    from openmxu_sim.cosim.simulators import find_simulator  # noqa: PLC0415  # a broken install should still collect tests

    absent = [name for name in ("verilator", "icarus") if find_simulator(name) is None]
    if absent:
        terminalreporter.write_line(f"not tested, because absent: {', '.join(absent)}")
