"""What tests of real masks need: files of IHP's SG13G2 in the folder OPENMXU_PDK, and KLayout's program."""

import os
import shutil
from pathlib import Path

import pytest

PDK = Path(os.environ.get("OPENMXU_PDK", "OPENMXU_PDK"))

needs_pdk = pytest.mark.skipif(not PDK.is_dir(), reason="OPENMXU_PDK names no folder with the files of IHP's SG13G2")
needs_klayout = pytest.mark.skipif(shutil.which("klayout") is None, reason="KLayout is not installed")
