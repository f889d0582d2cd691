"""What tests of the command line and of what needs Icarus Verilog share."""

import shutil

import pytest

from ..conftest import Command

__all__ = ["Command", "needs_icarus"]

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
