"""No output of a unit follows an input within the cycle, as AXI asks for; and the search finds such paths."""

from typing import Any

import pytest

from openmxu import yosys
from openmxu.catalog import build
from openmxu.formal.paths import combinational_paths

_OPTIONS = {"rows": 2, "columns": 2, "splitter": True, "result": "bf16"}


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    yosys.prepare()


@pytest.mark.parametrize(
    ("options", "outputs"),
    [
        # Ready, valid and payload of the streams, and of the status.
        ({"status": True}, 4 + 5),
        # Ready of two streams; data, last and valid of the third; ready and valid of five channels, three payloads.
        ({"bus": "axi"}, 2 + 3 + 8),
    ],
    ids=["plain", "axi"],
)
def test_units_have_no_paths(options: dict[str, Any], outputs: int) -> None:
    paths = combinational_paths(build("mxu", **_OPTIONS, **options))
    assert len(paths) == outputs
    assert not any(paths.values()), paths


def test_paths_are_found() -> None:
    assert combinational_paths(build("stream_adder")) == {
        "i__ready": {"o__ready"},
        "o__valid": set(),
        "o__payload": set(),
    }
    assert combinational_paths(build("adder")) == {"o": {"i_a", "i_b"}}
