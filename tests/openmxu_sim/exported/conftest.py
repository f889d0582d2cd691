"""Fixtures of the tests of exported benches."""

from collections.abc import Iterator
from functools import partial

import pytest

from openmxu_sim.exported import cocotb, verilog
from openmxu_sim.exported.beats import make_beats


@pytest.fixture(scope="module")
def fewer_beats() -> Iterator[None]:
    """Exported benches have all marks and kinds of words, but a tenth of their beats: Icarus takes 15 s for all."""
    with pytest.MonkeyPatch.context() as patch:
        for bench in (cocotb, verilog):
            patch.setattr(bench, "make_beats", partial(make_beats, share=0))
        yield
