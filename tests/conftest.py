"""What every test run says at its end: the engines that were not there to be tested."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List absent engines, so that nobody takes a short run for a whole one."""
    from openmxu_sim.cosim.simulators import find_simulator  # noqa: PLC0415  # a broken install should still collect tests

    absent = [name for name in ("verilator", "icarus") if find_simulator(name) is None]
    if absent:
        terminalreporter.write_line(f"not tested, because absent: {', '.join(absent)}")
