"""Helpers for tests of areas: Yosys, its proofs, and arguments that are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu import yosys
from openmxu.area.target.liberty import generic_library
from openmxu.cli.frame import main

Refused = Callable[..., str]


@pytest.fixture(scope="session")
def tool() -> str:
    """Yosys is ready, and compiled once only if it was not."""
    return yosys.prepare()


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """The line that ``openmxu area`` says of arguments with exit code 2, before it works or writes."""

    def run(*arguments: str | Path) -> str:
        output = tmp_path / "nothing"
        try:
            code: object = main(["area", "-o", str(output), *map(str, arguments)])
        except SystemExit as stop:  # from the parser
            code = stop.code
        shown, message = capsys.readouterr()
        assert (code, shown, message.count("\n"), output.exists()) == (2, "", 1, False), message
        return message

    return run


def prove_mapped(
    mapping: str, design: str, top: str = "top", *, models: bytes | None = None, by_induction: bool = False
) -> None:
    """Prove a design, mapped to generic gates by the first part of a target's script, equal to itself unmapped.

    ``models`` is the library that says what the gates do, if not their own; induction is for what holds bits.
    """
    mapped = mapping.partition("tee ")[0]
    proof = "clk2fflogic\nsat -tempinduct -set-init-zero -seq 1" if by_induction else "sat"
    script = f"""\
{mapped}
setattr -mod -unset keep_hierarchy *
rename {top} mapped
read_liberty /lib/models.lib
proc
flatten mapped
read_rtlil /job/design.il
proc
flatten {top}
miter -equiv -make_assert -flatten {top} mapped miter
hierarchy -top miter
{proof} -verify -prove-asserts miter
tee -q -o /job/result stat
"""
    cells = generic_library().text
    yosys.produce(script, design, libraries={"cells.lib": cells, "models.lib": models or cells})
