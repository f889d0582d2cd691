"""A network on the SoC with a processor, in Verilator: its firmware runs pictures and prints the scores by the UART."""

import argparse
import contextlib
import logging
import shutil
import subprocess
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
from litex.build.sim import SimPlatform
from litex.soc.integration.export import get_csr_header
from litex.soc.integration.soc_core import SoCCore
from network_soc import REGISTERS, ROM_BYTES, NetworkSoC
from simulate import CLOCK, CYCLES_PER_BIT, PINS, verilate

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.export.verilog import to_verilog
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import MachinePart
from openmxu_sim.accelerator.definition import run
from openmxu_sim.commands.run_accelerator import compile_network

CONFIG = AcceleratorConfig(size=4, stages=4, depth=256, rows=4096, weights=2048, program=4096, beat=32)
CODE = 0x1000
"""Bytes of the ROM for the firmware's code; the network follows."""

_FIRMWARE = Path(__file__).with_name("firmware")
_GCC = "riscv64-unknown-elf-gcc"


def pack(network: MachinePart, pictures: np.ndarray) -> list[int]:
    """The words that the firmware reads, see main.c."""
    lowered, size = network.lowered, network.lowered.config.size
    source, result = (lowered.pictures[name] for name in names(network))
    if (result.height, result.width) != (1, 1):
        raise SystemExit(f"the network must end with scores, not {result.height}x{result.width} pixels")
    rows, given = [], slice(source.base, source.end(size))
    for picture in pictures:
        memories = lowered.memories()
        lowered.put(names(network)[0], picture, lowered.rows(memories))
        rows.append(lowered.rows(memories)[given])
    halves = [np.pad(part.ravel(), (0, part.size % 2)) for part in (lowered.memories().memory, *rows)]
    image, *shown = [part.view("<u4") for part in halves]
    commands = np.array([word for command in lowered.program for word in command.words], np.uint32)
    first, place = result.row(0, 0) * size, source.base * size
    facts = [commands.size, image.size, shown[0].size, place // 2, len(shown)]
    facts += [result.channels, first, result.plane * size, size]
    return [*facts, *np.concatenate([commands, image, *shown]).tolist()]


def names(network: MachinePart) -> list[str]:
    """The names of the picture that it reads, and of the scores; it has no others."""
    ports = [*network.inputs, *network.outputs]
    if (len(network.inputs), len(network.outputs)) != (1, 1):
        raise SystemExit(
            f"the network must have an input and an output, not {len(network.inputs)} and {len(network.outputs)}"
        )
    return [port.picture for port in ports]


def expected(network: MachinePart, pictures: np.ndarray) -> list[list[str]]:
    """The scores of each picture that the definition gives, as the firmware prints them."""
    lowered, scores = network.lowered, []
    for picture in pictures:
        memories = lowered.memories()
        lowered.put(names(network)[0], picture, lowered.rows(memories))
        run(lowered.program, memories)
        values = lowered.get(names(network)[1], lowered.rows(memories)).ravel()
        scores.append([f"{word:04X}" for word in values.view(np.uint32) >> 16])
    return scores


def compile_firmware(soc: SoCCore, folder: Path, rom: str = "rom") -> list[int]:
    """Words of the firmware: built by gcc, or the image beside its source, for a ROM at 0, where there is none."""
    start, sram, main_ram = (soc.mem_regions[name] for name in (rom, "sram", "main_ram"))
    header = get_csr_header(
        soc.csr_regions, soc.constants, with_access_functions=False, with_fields_access_functions=False
    )
    lines = [line for line in header.splitlines() if line.startswith("#define CSR_")]
    lines += [
        f"#define REGISTERS {REGISTERS:#x}u",
        f"#define MAIN_RAM {main_ram.origin:#x}u",
        f"#define MAIN_RAM_BYTES {main_ram.size:#x}u",
        f"#define NETWORK {start.origin + CODE:#x}u",
        f"#define ACCELERATOR_INTERRUPT {soc.irq.locs['accelerator']}",
    ]
    (folder / "addresses.h").write_text("\n".join(lines) + "\n")
    if start.origin == 0 and shutil.which(_GCC) is None:
        return _words((_FIRMWARE / "firmware.bin").read_bytes())
    flags = ["-march=rv32im_zicsr", "-mabi=ilp32", "-Os", "-ffreestanding", "-nostdlib", "-Wall", "-Werror"]
    flags += [f"-DSRAM_END={sram.origin + sram.size:#x}", f"-Wl,--defsym=ROM={start.origin:#x}"]
    sources = [_FIRMWARE / name for name in ("start.S", "main.c")]
    command = [_GCC, *flags, f"-I{folder}", f"-T{_FIRMWARE / 'link.ld'}", "-o", folder / "firmware.elf", *sources]
    subprocess.run(command, check=True)
    binary = folder / "firmware.bin"
    subprocess.run([_GCC.replace("gcc", "objcopy"), "-O", "binary", folder / "firmware.elf", binary], check=True)
    return _words(binary.read_bytes())


def _words(content: bytes) -> list[int]:
    if len(content) > CODE:
        raise SystemExit(f"the firmware must be at most {CODE} bytes, not {len(content)}")
    return np.frombuffer(content.ljust(CODE, b"\0"), "<u4").tolist()


def build(network: MachinePart, pictures: np.ndarray, folder: Path) -> Path:
    """The simulation as a program."""
    verilog = folder / "accelerator.v"
    verilog.write_text(to_verilog(BusAccelerator(network.lowered.config, "wishbone")))
    platform = SimPlatform("SIM", list(PINS))
    soc = NetworkSoC(platform, platform.request("sys_clk"), CLOCK, CLOCK / CYCLES_PER_BIT, verilog)
    soc.finalize()
    words = compile_firmware(soc, folder) + pack(network, pictures)
    if 4 * len(words) > ROM_BYTES:
        raise SystemExit(f"firmware, network and images must be at most {ROM_BYTES} bytes, not {4 * len(words)}")
    soc.init_rom("rom", words)
    write_verilog(platform, soc.get_fragment(), folder)
    return verilate(folder, verilog, *processor(platform))


def write_verilog(platform: SimPlatform, fragment: Any, folder: Path) -> Any:
    """Write soc.v and what it loads; the names of its signals."""
    with contextlib.chdir(folder):
        platform.finalize(fragment)
        output = platform.get_verilog(fragment, name="soc")
        output.write("soc.v")
    return output.ns


def processor(platform: SimPlatform) -> list[Path]:
    """Verilog files of the processor."""
    return [Path(source[0]) for source in platform.sources if "vexriscv" in str(source[0]).lower()]


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with those of every network; makes the folder."""
    parser.add_argument("model", type=Path, help="an ONNX model that ends with scores")
    parser.add_argument("--input", type=Path, required=True, help="its images, a .npz file")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/network"), help="folder for what is built")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.INFO)  # LiteX tells all it does
    return options


def load(options: argparse.Namespace, config: AcceleratorConfig) -> tuple[MachinePart, np.ndarray]:
    """The model of the options, compiled, and its pictures."""
    network = compile_network(options.model, config).alone()
    network = replace(network, lowered=replace(network.lowered, config=config))
    return network, np.load(options.input)[network.inputs[0].name].astype(np.float32)


def play(program: Path, network: MachinePart, pictures: np.ndarray) -> int:
    """Run the simulation, print what its firmware prints, and compare the scores' bits; 1 if they differ."""
    scores: list[list[str]] = []
    command = [f"./{program.name}", str(CYCLES_PER_BIT), str(1 << 20)]
    with subprocess.Popen(
        command, cwd=program.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in dropwhile(lambda line: not line.startswith("OpenMXU"), process.stdout):
            print(line, end="", flush=True)
            if line.startswith(("done", "stopped")):
                break
            if not line.startswith("OpenMXU"):
                scores.append(line.split()[:-1])
        process.terminate()
    wrong = scores != expected(network, pictures)  # or they did not come
    print("scores differ from the definition" if wrong else f"{len(scores)} images: the definition's bits")
    return int(wrong)


def main() -> None:
    """Compile a model, build its SoC, run it, and compare the scores' bits with the definition."""
    options = options_of(argparse.ArgumentParser(description=main.__doc__))
    network, pictures = load(options, CONFIG)
    raise SystemExit(play(build(network, pictures, options.output), network, pictures))


if __name__ == "__main__":
    main()
