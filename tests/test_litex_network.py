"""The LiteX SoC with a processor: its firmware runs a network on the accelerator, in Verilator."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator import run
from openmxu_sim.accelerator.lowering import lower
from openmxu_sim.cosim.simulators import find_simulator

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
    find_spec("litedram") is None or _GCC is None,
    reason="LiteDRAM (make setup-litex) or Debian's gcc-riscv64-unknown-elf is absent",
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
    from openmxu_sim.onnx.runtime import helper, numpy_helper  # noqa: PLC0415  # an extra
    from openmxu_sim.onnx.to_layers import to_layers  # noqa: PLC0415

    rng = np.random.default_rng(0)
    shapes = {"w": (6, 1, 3, 3), "b": (6,), "v": (5, 150), "c": (5,)}
    constants = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name) for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["sums"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["sums"], ["positive"]),
        helper.make_node("Flatten", ["positive"], ["flat"]),
        helper.make_node("Gemm", ["flat", "v", "c"], ["scores"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(*end) for end in (("image", 1, [1, 1, 10, 10]), ("scores", 1, [1, 5]))]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], constants)
    model = tmp_path / "small.onnx"
    model.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    images = rng.standard_normal((2, 1, 10, 10), dtype=np.float32)
    np.savez(tmp_path / "x.npz", image=images)
    command = [
        sys.executable,
        _EXAMPLE / script[0],
        *script[1:],
        model,
        "--input",
        tmp_path / "x.npz",
        "-o",
        tmp_path / "soc",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    lines = lines[lines.index("OpenMXU 4D584131") :]  # what builds the BIOS tells more
    assert (lines[0], lines[3:]) == ("OpenMXU 4D584131", ["done", "2 pictures: the definition's bits"])

    network = to_layers(model)
    lowered = lower(AcceleratorConfig(), network.shape, network.layers, network.source)
    for line, image in zip(lines[1:3], images, strict=True):
        memories = lowered.memories()
        lowered.put(network.source, image, memories.scratchpad)
        run(lowered.program, memories)
        bits = lowered.get(network.result, memories.scratchpad).ravel().view(np.uint32) >> 16
        *scores, cycles = line.split()
        assert scores == [f"{word:04X}" for word in bits]
        assert 500 < int(cycles, 16) < 20_000


@pytest.mark.skipif(_GCC is None, reason="Debian's gcc-riscv64-unknown-elf is absent")
def test_the_image_is_of_its_source(tmp_path: Path) -> None:
    """With the compiler of its time, byte for byte."""
    version = subprocess.run(
        ["riscv64-unknown-elf-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True
    )
    if version.stdout.strip() != "12.2.0":
        pytest.skip(f"the image was built by gcc 12.2.0, not {version.stdout.strip()}")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from run_network import *\n"
        "platform = SimPlatform('SIM', list(PINS)); verilog = Path(sys.argv[2], 'none.v')\n"
        "soc = NetworkSoC(platform, platform.request('sys_clk'), CLOCK, CLOCK / 8, verilog)\n"
        "soc.finalize(); compile_firmware(soc, Path(sys.argv[2]))\n"
    )
    subprocess.run([sys.executable, "-c", program, _EXAMPLE, tmp_path], check=True, capture_output=True)
    assert (tmp_path / "firmware.bin").read_bytes() == (_EXAMPLE / "firmware" / "firmware.bin").read_bytes()
