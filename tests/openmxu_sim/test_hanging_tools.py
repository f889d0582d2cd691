"""A tool that never answers is ended, with a line that names it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from openmxu.area.target import timing
from openmxu.area.target.timing import TimingError
from openmxu.runtime import native
from openmxu.runtime.process import TimeLimitError
from openmxu_sim.cosim import simulators

from .engines.runs import program

ASKED, ENDED = ", asked for its version, took longer than", "and was ended;"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (native.compiler_version, TimeLimitError, rf"^C compiler{ASKED} 0.2 s {ENDED} does tool run by itself\?$"),
        (partial(native.build_library, ""), TimeLimitError, f"^C compiler took longer than 0.3 s {ENDED} "),
        (partial(simulators._first_line, "./tool", "-V"), TimeLimitError, "tool -V took longer than 0.2 s"),
        (timing.find_sta, TimeLimitError, f"^OpenSTA{ASKED} 0.3 s"),
        (partial(timing.delay, "module top(clk);", "top", b""), TimingError, "^OpenSTA: no result within 0.3 s$"),
    ],
)
def test_it_is_named(
    call: Callable[[], object], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tool = program(tmp_path / "tool", "sleep 1000")
    monkeypatch.setenv("CC", tool)
    monkeypatch.setattr(timing, "_command", lambda: tool)
    for module in (native, simulators):
        monkeypatch.setattr(module, "_ANSWER_LIMIT", 0.2)
    for module in (native, timing):
        monkeypatch.setattr(module, "_LIMIT", 0.3)
    with pytest.raises(error, match=message):
        call()
