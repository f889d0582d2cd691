"""The LiteX example: its SoC in Verilator, multiplied with by its own host script through the pins of the UART."""

import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from openmxu.cli import frame

from .conftest import need, ran, thorough

_DOCS = Path(__file__).parent.parent / "docs"
_EXAMPLE = _DOCS / "examples" / "litex"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("litex") is None, reason="litex is not installed: pip install -e '.[litex]'"),
]

_PAGE = (_DOCS / "how-to" / "litex.md").read_text()

_COMMAND = next(line[2:] for line in _PAGE.splitlines() if line.startswith("$ openmxu verilog"))
"""What the page exports: a square unit of fp32 words."""

_SMALL = "openmxu verilog mxu --bus axi --depth 4 -o mxu_axi.v"
_WRITER = "WishboneDMAWriter(wishbone.Interface(data_width=WORD), endianness="


@contextmanager
def served(command: str, folder: Path, example: Path = _EXAMPLE) -> Iterator[str]:
    """Export a unit, build the SoC around it and serve it, as the page does; its port. csr.csv goes to the folder."""
    need("verilator")
    with chdir(folder):
        assert frame.main(shlex.split(command)[1:]) == 0
    serve: list[Any] = [sys.executable, example / "simulate.py", "-o", "."]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port.startswith("socket://"), process.wait()
        try:
            yield port
        finally:
            process.terminate()


def host(folder: Path, *arguments: object, program: str = "") -> subprocess.CompletedProcess[str]:
    script = ["-c", program] if program else [str(_EXAMPLE / "host.py"), *map(str, arguments)]
    return ran([sys.executable, *script], cwd=folder, timeout=500)


_FP8 = f"{_SMALL} --rows 4 --columns 4 --operand fp8_e4m3 --source fp8_e4m3 --subnormals ieee --result fp8_e4m3"


@pytest.mark.parametrize("command", [_COMMAND, thorough(_FP8)], ids=["page", "fp8"])
def test_products(command: str, tmp_path: Path) -> None:
    """Ragged, of all bit patterns, in all precisions; then with a memory that holds hardly more than a tile."""
    with served(command, tmp_path) as port:
        done = host(tmp_path, "--port", port, "--count", 25)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert re.search(r"^25 products, 0 of \d{3,} words differ from the golden model$", done.stdout, re.M)

        csr = (tmp_path / "csr.csv").read_text()
        assert csr.count(",8192,cached") == 1
        (tmp_path / "small.csv").write_text(csr.replace(",8192,cached", ",640,cached"))
        done = host(tmp_path, "--port", port, "--csr", "small.csv", "--count", 5, "--seed", 100)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout

        (tmp_path / "smallest.csv").write_text(csr.replace(",8192,cached", ",48,cached"))
        done = host(tmp_path, "--port", port, "--csr", "smallest.csv")
        assert done.returncode == 2
        complaint = r"host\.py: the SoC's memory must have at least \d+ bytes for this tile, not 48\n"
        assert re.fullmatch(complaint, done.stderr)

        if command == _COMMAND:
            program = _PAGE.partition("```python\n")[2].partition("```")[0]
            assert program.count("/dev/ttyUSB0") == 1
            program = f"import sys; sys.path.insert(0, {str(_EXAMPLE)!r})\n{program.replace('/dev/ttyUSB0', port)}"
            done = host(tmp_path, program=program)
            assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], r".* error: --unit must be a file that openmxu verilog mxu --bus axi has written, not mxu_axi\.v"),
        (["--unit", __file__], r"s_axis_weights_tdata of module mxu_axi must be a multiple of 32 bits wide, not 0"),
    ],
)
def test_a_unit_that_is_none(options: list[str], complaint: str, tmp_path: Path) -> None:
    """The last line says so, with a simulation and for a board."""
    for command in (["simulate.py"], ["soc.py", "radiona_ulx3s", "--no-compile"]):
        done = ran([sys.executable, _EXAMPLE / command[0], *command[1:], *options], cwd=tmp_path)
        assert done.returncode != 0
        assert re.fullmatch(complaint, done.stderr.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        (f'{_WRITER}"big"', f'{_WRITER}"little"', 1),
        ("self.sink.ready.eq(~converter.source.valid)", "self.sink.ready.eq(1)", 2),
    ],
    ids=["swapped", "TUSER too early"],
)
def test_mistakes_are_seen(right: str, wrong: str, code: int, tmp_path: Path) -> None:
    """By the comparison, or by the unit itself."""
    example = shutil.copytree(_EXAMPLE, tmp_path / "example")
    text = (example / "soc.py").read_text()
    assert text.count(right) == 1
    (example / "soc.py").write_text(text.replace(right, wrong))
    with served(f"{_SMALL} --rows 2 --columns 2", tmp_path, example) as port:
        done = host(tmp_path, "--port", port)
    assert done.returncode == code, done.stdout + done.stderr


_WIDTHS = "constant,config_csr_data_width,32,,\nconstant,config_bus_address_width,32,,\n"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"", "UARTBone sent 0 of 4 bytes within 5.3 s"),
        (b"\0\1\2\3", "register ID must be 0x4d585531, not 0x00010203: is it this SoC's csr.csv?"),
    ],
    ids=["silent", "another"],
)
def test_another_thing_on_the_port(answer: bytes, complaint: str, tmp_path: Path) -> None:
    registers = "csr_register,mxu_enable,0x0,1,rw\ncsr_register,mxu_reset,0x4,1,rw\n"
    (tmp_path / "csr.csv").write_text(f"{registers}memory_region,registers,0x20000000,4096,io\n{_WIDTHS}")

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            received = 0
            while request := connection.recv(4096):
                received += len(request)
                if received == 3 * 10 + 6:  # three writes, and a read
                    connection.sendall(answer)

    with socket.create_server(("localhost", 0)) as server:
        server.settimeout(60)  # the host may fail before
        thread = threading.Thread(target=serve)
        thread.start()
        done = host(tmp_path, "--port", f"socket://localhost:{server.getsockname()[1]}")
        thread.join()
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"host.py: {complaint}\n")


@pytest.mark.parametrize(
    ("port", "complaint"),
    [("no such port", r".*no such port.*"), ("loop://", r"csr\.csv must be of a SoC with the unit; it has no .*")],
)
def test_nothing_to_talk_to(port: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "csr.csv").write_text(_WIDTHS)
    done = host(tmp_path, "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"host\.py: {complaint}\n", done.stderr)
