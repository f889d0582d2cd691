"""The LiteX SoC with a processor: its firmware runs a network on the accelerator, in Verilator."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import run
from openmxu_sim.accelerator.lowering import lower
from openmxu_sim.cosim.simulators import find_simulator

from .conftest import ran
from .openmxu_sim.networks.programs import run_python

_GCC = shutil.which("riscv64-unknown-elf-gcc")
_EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "litex"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("pythondata_cpu_vexriscv") is None, reason="VexRiscv is not installed: make setup-litex"
    ),
    pytest.mark.skipif(find_simulator("verilator") is None, reason="Verilator is not installed"),
]


_BOARD = pytest.mark.skipif(
    find_spec("litedram") is None or find_spec("pythondata_software_picolibc") is None or _GCC is None,
    reason="LiteDRAM, its BIOS's C library (make setup-litex) or Debian's gcc-riscv64-unknown-elf is absent",
)


@pytest.mark.parametrize(
    "script",
    [
        ["run_network.py"],
        # So few rows that bursts are stored, too, at even and odd places.
        pytest.param(["network_board.py", "ulx3s", "--rows", "64"], marks=(pytest.mark.thorough, _BOARD)),
        pytest.param(["network_board.py", "orangecrab", "--rows", "64"], marks=(pytest.mark.thorough, _BOARD)),
    ],
    ids=["memory on chip", "ulx3s", "orangecrab"],
)
def test_scores(script: list[str], tmp_path: Path) -> None:
    """Two pictures: the bits of the scores that come by the UART are the definition's, on a machine without a bus."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from openmxu_sim.onnx.partition import partition  # noqa: PLC0415  # an extra

    from .openmxu_sim.onnx import graphs  # noqa: PLC0415

    rng = np.random.default_rng(0)
    shapes = {"w": (6, 1, 3, 3), "b": (6,), "v": (5, 150), "c": (5,)}
    constants = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    text = """small (float[1, 1, 10, 10] image) => (float[1, 5] scores) {
        sums = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (image, w, b) positive = Relu (sums)
        flat = Flatten (positive) scores = Gemm <transB = 1> (flat, v, c) }"""
    model, inputs = tmp_path / "small.onnx", tmp_path / "x.npz"
    model.write_bytes(graphs.model(text, opset=17, ir=8, **constants).SerializeToString())
    images = rng.standard_normal((2, 1, 10, 10), dtype=np.float32)
    np.savez(inputs, image=images)
    arguments = [_EXAMPLE / script[0], *script[1:], model, "--input", inputs, "-o", tmp_path / "soc"]
    lines = run_python(*arguments, timeout=3600).splitlines()
    lines = lines[lines.index("OpenMXU 4D584131") :]  # what builds the BIOS tells more
    assert (lines[0], lines[3:]) == ("OpenMXU 4D584131", ["done", "2 images: the definition's bits"])

    [network] = partition(model).parts
    lowered = lower(AcceleratorConfig(), network.sources, network.layers)
    for line, image in zip(lines[1:3], images, strict=True):
        memories = lowered.memories()
        lowered.put(network.inputs[0].picture, image, memories.scratchpad)
        run(lowered.program, memories)
        bits = lowered.get(network.outputs[0].picture, memories.scratchpad).ravel().view(np.uint32) >> 16
        *scores, cycles = line.split()
        assert scores == [f"{word:04X}" for word in bits]
        assert 500 < int(cycles, 16) < 20_000


@pytest.mark.skipif(_GCC is None, reason="Debian's gcc-riscv64-unknown-elf is absent")
def test_the_image_is_of_its_source(tmp_path: Path) -> None:
    """With the compiler of its time, byte for byte."""
    version = ran(["riscv64-unknown-elf-gcc", "-dumpfullversion"], check=True).stdout.strip()
    if version != "12.2.0":
        pytest.skip(f"the image was built by gcc 12.2.0, not {version}")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from run_network import *\n"
        "platform = SimPlatform('SIM', list(PINS)); verilog = Path(sys.argv[2], 'none.v')\n"
        "soc = NetworkSoC(platform, platform.request('sys_clk'), CLOCK, CLOCK / 8, verilog)\n"
        "soc.finalize(); compile_firmware(soc, Path(sys.argv[2]))\n"
    )
    run_python("-c", program, _EXAMPLE, tmp_path)
    assert (tmp_path / "firmware.bin").read_bytes() == (_EXAMPLE / "firmware" / "firmware.bin").read_bytes()
