"""What tests of the hardware's packages share."""

import shutil

import pytest

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")


@pytest.fixture(autouse=True)
def _no_libraries_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are of what a test names, whatever the machine has for others."""
    monkeypatch.delenv("OPENMXU_LIBERTY", raising=False)
