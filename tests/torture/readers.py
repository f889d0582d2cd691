"""The readers of files that users, strangers, boards and other programs write: rows, with whole files to damage."""

import gzip
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from openmxu.area.pages import schema
from openmxu.area.subject import given, peers
from openmxu.cells import energies, lef, liberty
from openmxu.runtime import cache
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import FloatFormat
from openmxu_boards.bitstream import pages, record, report
from openmxu_boards.bitstream.placement import read_placement
from openmxu_boards.devices.boards import find_board
from openmxu_boards.families.ecp5 import ecp5_reader as ecp5
from openmxu_boards.families.gatemate import gatemate_reader as gatemate
from openmxu_boards.families.gowin import gowin_reader as gowin
from openmxu_boards.families.ice40 import bitmap, chip
from openmxu_boards.protocol import Decoder, Identity, Reply, encode
from openmxu_boards.replay import folder
from openmxu_layout import kit
from openmxu_layout.check import decks
from openmxu_sim.accelerator import container, lowering, pictures
from openmxu_sim.commands import run_accelerator, run_networks
from openmxu_sim.energy import workloads
from openmxu_sim.golden.specifications import find_operand, find_sum
from openmxu_sim.operands import npy
from openmxu_sim.studies import layers

from ..openmxu_boards.bitstream.test_flow import FIGURES, ROUTED
from ..openmxu_boards.bitstream.test_pages import REPORT
from ..openmxu_boards.families import test_gatemate, test_gowin
from ..openmxu_boards.test_protocol import IDENTITY
from ..openmxu_layout.check.test_decks import _DATABASE, _REPORT
from ..openmxu_layout.test_pins import _LEF
from ..openmxu_sim.energy.library import library
from .mutation import mutated, mutated_model

_ROOT = Path(__file__).parents[2]
_CONFIG = AcceleratorConfig(size=2, stages=1, depth=16, rows=128, weights=64)


@dataclass(frozen=True)
class Reader:
    """A function that reads a file."""

    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    """Whole files."""
    file: str = "input"
    """Name of the file, where the reader goes by it."""
    needs: str = ""
    """A module of an extra."""
    errors: tuple[type[Exception], ...] = (ValueError, OSError)
    """Errors that the reader may raise: commands make a line of them."""
    mutated: Callable[[bytes, Random], bytes] = mutated

    def absent(self) -> bool:
        """Whether its extra is not installed."""
        return bool(self.needs) and find_spec(self.needs) is None


def _text(read: Callable[[str], object]) -> Callable[[Path], object]:
    return lambda path: read(path.read_text("latin-1"))


def _texts(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


def _matrices() -> list[bytes]:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    return [*map(npy.to_npy, (matrix, np.asfortranarray(matrix), matrix.astype(">f2"), matrix[:0], np.array(1j)))]


def _archives() -> list[bytes]:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    return [npy.to_npz({"activations": matrix, "weights": matrix.T})]


def _networks() -> list[bytes]:
    weight = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 1, 3, 3)
    first = lowering.Layer("first", "x", (3, 3), (1, 1), (1, 1, 1, 1), weight, relu=True)
    pool = lowering.Layer("pool", "first", (2, 2), (2, 2))
    lowered = lowering.lower(_CONFIG, {"x": (1, 4, 4)}, [first, pool])
    source, result = (pictures.View((1, *shape), (1, *shape)) for shape in ((1, 4, 4), (2, 2, 2)))
    ports = (container.Port("x", "x", source),), (container.Port("p", "pool", result),)
    parts = container.MachinePart(lowered, *ports), container.HostPart(b"a model", ("p",), ("y",))
    inputs = (container.Input("x", (1, 1, 4, 4), "float32"),)
    networks = (container.CompiledNetwork(inputs, parts[:count], name) for count, name in ((1, ("p",)), (2, ("y",))))
    return [*map(container.write_network, networks)]


def _models() -> list[bytes]:
    from ..openmxu_sim.onnx.graphs import model  # noqa: PLC0415  # of an extra

    weights = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 1, 3, 3)
    matrix = np.arange(16, dtype=np.float32).reshape(8, 2)
    graph = """g (float[1, 1, 4, 4] x) => (float[1, 2] y) {
      a = Conv<group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]>(x, w) b = Relu(a)
      c = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(b) d = Flatten(c) y = MatMul(d, m) }"""
    return [model(graph, w=weights, m=matrix).SerializeToString()]


def _netlist(text: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode()]


def _gatemate() -> list[bytes]:
    netlist = test_gatemate.Netlist()
    lower = {"INIT_L00": "1010", "INIT_L01": "0000", "INIT_L10": "1010", "INIT_L20": "1100"}
    netlist.add("CPE_L2T4", lower, IN1=netlist.input(), OUT=netlist.output())
    netlist.add("CPE_FF", test_gatemate.FLIP_FLOP, CLK=netlist.clock, DIN=netlist.input(), DOUT=netlist.output())
    return [json.dumps({"modules": {"top": {"cells": netlist.cells}}}).encode()]


def _gowin() -> list[bytes]:
    netlist = test_gowin.Netlist()
    netlist.add(
        "LUT4", {"INIT": "0110100110010110"}, F=netlist.output(), **{f"I{n}": netlist.input() for n in range(4)}
    )
    netlist.add("DFF", {}, CLK=netlist.clock, D=netlist.input(), Q=netlist.output())
    return [netlist.to_text().encode()]


def _ecp5() -> list[bytes]:
    def cell(kind: str, place: str, parameters: dict[str, str], **nets: int) -> dict[str, Any]:
        connections = {port: [net] for port, net in nets.items()}
        return {"type": kind, "attributes": {"LOC": place}, "parameters": parameters, "connections": connections}

    cells_ = {
        "clk": cell("TRELLIS_IO", "P6", {"DIR": "INPUT"}, O=1),
        "i": cell("TRELLIS_IO", "A1", {"DIR": "INPUT"}, O=2),
        "o": cell("TRELLIS_IO", "A2", {"DIR": "OUTPUT"}, I=4),
        "lut": cell("TRELLIS_COMB", "X", {"MODE": "LOGIC", "INITVAL": "0101010101010101"}, A=2, F=3),
        "ff": cell("TRELLIS_FF", "X", {"REGSET": "RESET", "SD": "0"}, CLK=1, DI=3, M=3, Q=4),
    }
    return [json.dumps({"modules": {"top": {"cells": cells_}}}).encode()]


_BITS = ".comment x\n.device 1k\n.io_tile 1 0\n000000\n111111\n.ram_data 3 4\nabcd\n.extra_bit 0 330 142\n.sym 1 x\n"
_CHIP = (
    "# A chip\n.device 1k 2 2 3\n\n.pins tq144\n1 0 1 0\n\n.gbufpin\n1 0 1 0\n\n.gbufin\n1 0 1\n\n.colbuf\n1 0 1 0\n\n"
    ".io_tile 1 0\n\n.io_tile_bits 8 2\nIOB_0.PINTYPE_0 B0[1] B1[1]\n\n.extra_cell 1 0 PLL\nFB 1 0 B0[0]\n\n"
    ".net 3\n1 0 io_0/D_IN_0\n\n.buffer 1 0 3 B0[1]\n1 4\n\n.routing 1 0 3 B0[1]\n1 4\n"
)
"""Files in the formats of Project IceStorm."""


def _chip(path: Path) -> None:
    """All of a chip, which is read when it is asked for."""
    before = os.environ.get(chip.FOLDER)
    os.environ[chip.FOLDER] = str(path.parent)
    try:
        found = chip.find_chip("1k")
        for name, part in vars(chip.Chip).items():
            if isinstance(part, cached_property):
                getattr(found, name)
    finally:
        os.environ.pop(chip.FOLDER)
        if before is not None:
            os.environ[chip.FOLDER] = before


def _built(path: Path) -> None:
    """A build's folder: its report, and a page of it."""
    icebreaker = find_board("icebreaker")
    for name in ("placement.svg", "selftest.bin"):
        (path.parent / name).touch()
    pages._read(path.parent)
    folder._checked(icebreaker, path.parent, folder.family_of(icebreaker.new_platform()))


def _peers(path: Path) -> None:
    (path.parent / "a.v").touch()
    peers.read_peers(path.parent)


def _reports() -> list[bytes]:
    return [replace(REPORT, digests={"selftest.bin": sha256(b"").hexdigest()}).to_json().encode()]


def _records() -> list[bytes]:
    return [record.add("", REPORT).encode(), (_ROOT / "docs/reference/boards.json").read_bytes()[:60_000]]


def _areas() -> list[bytes]:
    run: dict[str, Any] = {name: name for name in ("name", "top", "unit", "figure", "script", "error")}
    run |= {
        "target": "a",
        "recipe": "c",
        "options": {"width": 8},
        "rtlil_sha256": "0",
        "area": 1.5,
        "depth": 3,
        "delay_ns": None,
    }
    run |= {"flip_flops": 2, "memory_bits": 0}
    target = {"name": "a", "title": "b", "recipe": "c", "library": {"name": "l", "sha256": "0"}}
    catalog = [run | {"design": "d", "terms": [run | {"count": 1}]}]
    return [json.dumps({"schema": 2, "tool": "t", "targets": [target], "results": [run], "catalog": catalog}).encode()]


def _frames(content: bytes) -> list[Identity | Reply | None]:
    """Bytes from a board, as a host takes them."""
    replies = [Reply.parse(body) for body in Decoder().feed(content) if body is not None]
    return [Identity.parse(reply.data) if reply and not reply.status else reply for reply in replies]


def _framed(content: bytes, random: Random) -> bytes:
    """A damaged stream; or one whose CRC is right and whose content is damaged."""
    body = next(iter(Decoder().feed(content))) or b""
    return mutated(content, random) if random.random() < 0.3 else encode(body[:6] + mutated(body[6:], random))


def _figures(path: Path) -> None:
    figures = json.loads(path.read_text("latin-1"))
    for read in (report.read_clocks, report.read_path, report.read_utilisation):
        read(figures)


def _energies(path: Path) -> None:
    energies.read_cells.__wrapped__(liberty.read_library(path))  # what an earlier test has read is read again


def _cached(path: Path) -> None:
    """An entry of the cache: damaged ones count as missing."""
    os.environ["XDG_CACHE_HOME"] = str(path.parent)
    content, key = path.read_bytes(), "0" * 64
    entry = cache.directory() / "areas" / key
    entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry.unlink(missing_ok=True)
    entry.write_bytes(content)
    entry.chmod(0o600)
    found = cache.find("areas", key)
    assert found is None or content.endswith(found)


def _compiled(path: Path) -> object:
    return run_accelerator.compile_network(path, _CONFIG)


def _network(path: Path) -> object:
    from openmxu_sim.onnx import Network  # noqa: PLC0415  # of an extra

    return Network(path)


def _liberties() -> list[bytes]:
    return [library(), gzip.compress(library()), liberty.generic_library().text]


_PEERS = (
    '[[peer]]\nname = "a"\nurl = "https://example.org"\nlicence = "MIT"\nversion = "1"\nnotes = "n"\nfiles = ["a.v"]\n'
)
_PEERS += 'top = "a"\nagainst = { design = "product", width = 2 }\n'
_WEIGHTS = '{"lm_head": "bf16", "*.mlp": {"operand": "fp32", "seed": 3}}'
_CONVOLUTION = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
    "Conv1,224,224,7,7,3,64,2,\n"
)

READERS = {
    "npy": Reader(lambda path: npy.read_matrix(path, "A"), _matrices),
    "npz": Reader(lambda path: [*npy.read_arrays(path, "X").values()], _archives),
    "layer.npz": Reader(workloads.read_layer, _archives),
    "mxa": Reader(container.read_network, _networks),
    "onnx": Reader(_network, _models, needs="onnxruntime", mutated=mutated_model),
    "onnx, compiled": Reader(_compiled, _models, needs="onnxruntime", mutated=mutated_model),
    "layers.csv": Reader(layers.read_layers, _texts("Layer, M, N, K\nfc,8,8,8\n", _CONVOLUTION), file="layers.csv"),
    "layers.json": Reader(run_networks._layers, _texts(_WEIGHTS)),
    "liberty": Reader(liberty.read_library, _liberties),
    "liberty, energies": Reader(_energies, lambda: [library()]),
    "area.json": Reader(schema.read_report, _areas, needs="fastjsonschema"),
    "peers.toml": Reader(_peers, _texts(_PEERS), file="peers.toml"),
    "filelist": Reader(given.listed, _texts("// all\na.v b/*.v # two\n+incdir+inc\n+define+A=1\n")),
    "kit": Reader(kit.read_contents, lambda: [gzip.compress(library())], file="kit.lib.gz"),
    "lef": Reader(_text(lef.read_cells), _texts(_LEF)),
    "lyrdb": Reader(_text(decks.read_report), _texts(_REPORT), errors=(ValueError, decks.CheckError)),
    "lvsdb": Reader(
        _text(lambda text: decks.read_circuit(text.splitlines(), "top")),
        _texts(_DATABASE),
        errors=(ValueError, decks.CheckError),
    ),
    "boards.json": Reader(_text(record.of_json), _records),
    "report.json": Reader(_built, _reports, file="report.json"),
    "ecp5": Reader(_text(lambda text: ecp5.read_circuit(text, "P6")), _ecp5),
    "gowin": Reader(_text(lambda text: gowin.read_circuit(text, test_gowin.CLOCK)), _gowin, needs="apycula"),
    "gatemate": Reader(_text(lambda text: gatemate.read_circuit(text, "IO_SB_A8")), _gatemate),
    "bitmap": Reader(_text(bitmap.read_bitmap), _texts(_BITS)),
    "icestorm": Reader(_chip, _texts(_CHIP), file="chipdb-1k.txt"),
    "frames": Reader(
        lambda path: _frames(path.read_bytes()),
        lambda: [encode(b"\x81\1\0\2\0\0" + IDENTITY.to_bytes())],
        mutated=_framed,
    ),
    "placement": Reader(_text(read_placement), _texts(ROUTED), errors=(ValueError, RuntimeError)),
    "figures": Reader(_figures, _texts(json.dumps(FIGURES)), errors=(ValueError, RuntimeError)),
    "cache": Reader(_cached, lambda: [cache._digest("0" * 64, b"content") + b"content"]),
    "format": Reader(_text(FloatFormat.parse), _texts("e8f13", "fp8_e4m3")),
    "operand": Reader(_text(find_operand), _texts("fp8_e4m3/row/fp32/saturate", "mxfp4", "nvfp4", "int8/row")),
    "sum": Reader(_text(find_sum), _texts("bf16/stochastic", "e8f13/truncate")),
}
