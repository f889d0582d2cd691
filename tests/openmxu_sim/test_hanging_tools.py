"""A tool that never answers is ended, with a line that names it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from openmxu.area.target import timing
from openmxu.runtime import native
from openmxu.runtime.process import TimeLimitError
from openmxu_sim.cosim import simulators


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            native.compiler_version,
            TimeLimitError,
            r"^C compiler, asked for its version, took longer than 0.2 s and was ended; does tool run by itself\?$",
        ),
        (partial(native.build_library, ""), TimeLimitError, "^C compiler took longer than 0.3 s and was ended; "),
        (partial(simulators._first_line, "./tool", "-V"), TimeLimitError, "tool -V took longer than 0.2 s"),
        (timing.find_sta, TimeLimitError, "^OpenSTA, asked for its version, took longer than 0.3 s"),
        (
            partial(timing.delay, "module top(clk);", "top", b""),
            timing.TimingError,
            "^OpenSTA: no result within 0.3 s$",
        ),
    ],
)
def test_it_is_named(
    call: Callable[[], object], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tool").write_text("#!/bin/sh\nsleep 1000\n")
    Path("tool").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "tool"))
    monkeypatch.setattr(timing, "_command", lambda: str(tmp_path / "tool"))
    for module in (native, simulators):
        monkeypatch.setattr(module, "_ANSWER_LIMIT", 0.2)
    for module in (native, timing):
        monkeypatch.setattr(module, "_LIMIT", 0.3)
    with pytest.raises(error, match=message):
        call()
