"""A network on the SoC with a processor, in Verilator: its firmware runs pictures and prints the scores by the UART."""

import argparse
import contextlib
import logging
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
from litex.build.sim import SimPlatform
from litex.soc.integration.export import get_csr_header
from network_soc import MAIN_RAM, MAIN_RAM_BYTES, REGISTERS, ROM_BYTES, SRAM_BYTES, NetworkSoC
from simulate import CLOCK, CYCLES_PER_BIT, PINS, verilate

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.export.verilog import to_verilog
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import CompiledNetwork
from openmxu_sim.accelerator.definition import run
from openmxu_sim.commands.run_accelerator import compile_network

CONFIG = AcceleratorConfig(size=4, stages=4, depth=256, rows=4096, weights=2048, program=4096, beat=32)
CODE = 0x1000
"""Bytes of the ROM for the firmware's code; the network follows."""

_FIRMWARE = Path(__file__).with_name("firmware")
_GCC = "riscv64-unknown-elf-gcc"


def pack(network: CompiledNetwork, pictures: np.ndarray) -> list[int]:
    """The words that the firmware reads, see main.c."""
    lowered, size = network.lowered, network.lowered.config.size
    source, result = lowered.pictures[network.source], lowered.pictures[network.result]
    if (result.height, result.width) != (1, 1):
        raise SystemExit(f"the network must end with scores, not {result.height}x{result.width} pixels")
    rows, given = [], slice(source.base, source.end(size))
    for picture in pictures:
        memories = lowered.memories()
        lowered.put(network.source, picture, lowered.rows(memories))
        rows.append(lowered.rows(memories)[given])
    halves = [np.pad(part.ravel(), (0, part.size % 2)) for part in (lowered.memories().memory, *rows)]
    image, *shown = [part.view("<u4") for part in halves]
    commands = np.array([word for command in lowered.program for word in command.words], np.uint32)
    first, place = result.row(0, 0) * size, source.base * size
    facts = [commands.size, image.size, shown[0].size, place // 2, len(shown)]
    facts += [result.channels, first, result.plane * size, size]
    return [*facts, *np.concatenate([commands, image, *shown]).tolist()]


def expected(network: CompiledNetwork, pictures: np.ndarray) -> list[list[str]]:
    """The scores of each picture that the definition gives, as the firmware prints them."""
    lowered, scores = network.lowered, []
    for picture in pictures:
        memories = lowered.memories()
        lowered.put(network.source, picture, lowered.rows(memories))
        run(lowered.program, memories)
        values = lowered.get(network.result, lowered.rows(memories)).ravel()
        scores.append([f"{word:04X}" for word in values.view(np.uint32) >> 16])
    return scores


def compile_firmware(soc: NetworkSoC, folder: Path) -> list[int]:
    """Words of the firmware: built by gcc, or the image beside its source where there is none."""
    header = get_csr_header(
        soc.csr_regions, soc.constants, with_access_functions=False, with_fields_access_functions=False
    )
    lines = [line for line in header.splitlines() if line.startswith("#define CSR_")]
    lines += [
        f"#define REGISTERS {REGISTERS:#x}u",
        f"#define MAIN_RAM {MAIN_RAM:#x}u",
        f"#define MAIN_RAM_BYTES {MAIN_RAM_BYTES:#x}u",
        f"#define NETWORK {CODE:#x}u",
        f"#define ACCELERATOR_INTERRUPT {soc.irq.locs['accelerator']}",
    ]
    (folder / "addresses.h").write_text("\n".join(lines) + "\n")
    if shutil.which(_GCC) is None:
        return _words((_FIRMWARE / "firmware.bin").read_bytes())
    flags = ["-march=rv32im_zicsr", "-mabi=ilp32", "-Os", "-ffreestanding", "-nostdlib", "-Wall", "-Werror"]
    flags.append(f"-DSRAM_END={soc.mem_map['sram'] + SRAM_BYTES:#x}")
    sources = [_FIRMWARE / name for name in ("start.S", "main.c")]
    command = [_GCC, *flags, f"-I{folder}", f"-T{_FIRMWARE / 'link.ld'}", "-o", folder / "firmware.elf", *sources]
    subprocess.run(command, check=True)
    binary = folder / "firmware.bin"
    subprocess.run([_GCC.replace("gcc", "objcopy"), "-O", "binary", folder / "firmware.elf", binary], check=True)
    return _words(binary.read_bytes())


def _words(content: bytes) -> list[int]:
    return np.frombuffer(content + bytes(-len(content) % 4), "<u4").tolist()


def build(network: CompiledNetwork, pictures: np.ndarray, folder: Path) -> Path:
    """The simulation as a program."""
    verilog = folder / "accelerator.v"
    verilog.write_text(to_verilog(BusAccelerator(network.lowered.config, "wishbone")))
    platform = SimPlatform("SIM", list(PINS))
    soc = NetworkSoC(platform, platform.request("sys_clk"), CLOCK, CLOCK / CYCLES_PER_BIT, verilog)
    soc.finalize()
    code = compile_firmware(soc, folder)
    if len(code) > CODE // 4:
        raise SystemExit(f"the firmware must be at most {CODE} bytes, not {4 * len(code)}")
    words = [*code, *[0] * (CODE // 4 - len(code)), *pack(network, pictures)]
    if 4 * len(words) > ROM_BYTES:
        raise SystemExit(f"firmware, network and pictures must be at most {ROM_BYTES} bytes, not {4 * len(words)}")
    soc.init_rom("rom", words)
    with contextlib.chdir(folder):
        fragment = soc.get_fragment()
        platform.finalize(fragment)
        platform.get_verilog(fragment, name="soc").write("soc.v")
    return verilate(folder, verilog, *map(Path, _processor(platform)))


def _processor(platform: SimPlatform) -> list[str]:
    """Verilog files of the processor."""
    return [str(source[0]) for source in platform.sources if "vexriscv" in str(source[0]).lower()]


def main() -> None:
    """Compile a model, build its SoC, run it, and compare the scores' bits with the definition."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("model", type=Path, help="an ONNX model that ends with scores")
    parser.add_argument("--input", type=Path, required=True, help="its pictures, a .npz file")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/network"), help="folder for what is built")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.INFO)  # LiteX tells all it does
    network = compile_network(options.model, CONFIG)
    network = replace(network, lowered=replace(network.lowered, config=CONFIG))
    pictures = np.load(options.input)[network.source].astype(np.float32)
    program = build(network, pictures, options.output)
    scores: list[list[str]] = []
    command = [f"./{program.name}", str(CYCLES_PER_BIT), str(1 << 20)]
    with subprocess.Popen(
        command, cwd=program.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(("done", "stopped")):
                break
            if not line.startswith("OpenMXU"):
                scores.append(line.split()[:-1])
        process.terminate()
    wrong = scores != expected(network, pictures)  # or they did not come
    print("scores differ from the definition" if wrong else f"{len(scores)} pictures: the definition's bits")
    raise SystemExit(int(wrong))


if __name__ == "__main__":
    main()
