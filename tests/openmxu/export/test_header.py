"""What an exported file says of itself at its top."""

import gc
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from openmxu.catalog import build
from openmxu.export.header import check_command
from openmxu.export.verilog import to_verilog
from openmxu.runtime.extras import release
from openmxu.spec.config import MxuConfig

from ...conftest import Command, slow


def top(text: str) -> list[str]:
    """Lines of the comment at the top, up to what is said of Verilator."""
    comment = text[: text.index("Verilator -Wall")]
    assert comment.startswith("/* ")
    return [line.strip() for line in comment[3:].splitlines() if line.strip()]


@pytest.mark.parametrize("bus", ["none", "axi"])
def test_a_unit(bus: str) -> None:
    """Version, command, configuration, latency, shortest tile: in this order."""
    config = MxuConfig(rows=3, columns=1, stages=6, depth=4)
    unit = build("mxu", rows=3, columns=1, stages=6, depth=4, bus=bus)
    said = top(to_verilog(unit, name="its", command="openmxu verilog"))
    assert [*said[:2], " ".join(said[2:-1]), said[-1]] == [
        f"Written by OpenMXU {release()}. Licensed under the Apache License, Version 2.0.",
        "openmxu verilog",
        "its: rows 3, columns 1, stages 6, operand bf16, source fp32, subnormals flush, depth 4, splitter False, "
        f"result fp32, status {bus == 'axi'}, terms 1.",
        f"Latency: {config.latency} cycles. Shortest tile: {config.shortest_tile} beats.",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("adder", "Latency: 0 cycles."),
        ("stream_converter", "Latency: 1 cycle."),
        ("stream_adder", "Latency: 5 cycles."),
        ("array_4x4", f"Latency: {MxuConfig(rows=4, columns=4).array_latency} cycles."),
    ],
)
def test_parts(name: str, said: str) -> None:
    """They have a latency, and no tiles; without a command, none is named."""
    lines = top(to_verilog(build(name)))
    assert lines[-1] == said
    assert not [line for line in lines if line.startswith("openmxu")]


_FLAT = {"prefix": "a$b", "ports": "flat"}


@pytest.mark.parametrize(
    ("arguments", "written", "parameters", "options"),
    [
        (
            "mxu --row 1 --columns=02 --depth 4 --status",
            "mxu --rows 1 --columns 2 --depth 4 --status",
            {"rows": 1, "columns": 2, "depth": 4, "status": True},
            {},
        ),
        ("stream_adder --prefix a$b --ports flat", "stream_adder --prefix 'a$b' --ports flat", {}, _FLAT),
        slow(
            "mxu_2x2 --prefix a$b --name its --ports flat --bus none",
            "mxu_2x2 --bus none --name its --prefix 'a$b' --ports flat",
            {},
            _FLAT | {"name": "its"},
        ),
        ("multiplier --ports nested --operand fp16", "multiplier --operand fp16", {"operand": "fp16"}, {}),
        ("pe --clock-en", "pe --clock-enable", {}, {"clock_enable": True}),
        slow("mxu_2x2 --memories wrapped", "mxu_2x2 --memories wrapped", {}, {"memories": "wrapped"}),
    ],
)
def test_the_command_writes_the_same_file(
    arguments: str, written: str, parameters: dict[str, Any], options: dict[str, Any], command: Command, tmp_path: Path
) -> None:
    """As the call, however it was put, and wherever the file and those beside it went."""
    assert command(f"verilog {arguments} -o it.v --template {tmp_path}/it.txt --core it.core")[:2] == (0, "")
    text = (tmp_path / "it.v").read_text()
    assert top(text)[1] == f"openmxu verilog {written}"
    unit = build(written.split(maxsplit=1)[0], **parameters)
    assert to_verilog(unit, command=f"openmxu verilog {written}", **options) == text
    assert command("verilog", *shlex.split(written))[:2] == (0, text)
    assert not re.search("it.v|it.txt|it.core", text)
    assert str(tmp_path) not in text


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # what is refused goes unused
def test_what_no_comment_can_hold() -> None:
    for refuse in (check_command, lambda text: to_verilog(build("adder"), command=text)):
        for command in ("a\nb", "a */ b", "a /* b"):
            with pytest.raises(ValueError, match=r"command must be one printable line without '/\*' and '\*/', not "):
                refuse(command)
    gc.collect()  # now, while the warning is ignored
