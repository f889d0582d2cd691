"""A bench in Python, on cocotb: with this project's kit, or with cocotbext-axi for a unit on a bus."""

from dataclasses import fields

from openmxu.export.bench import Bench, Export
from openmxu.export.integration import to_core
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu_sim.exported.beats import make_beats
from openmxu_sim.exported.text import BEATS, fill, fill_common, is_on_bus, write_beats


def _write(export: Export) -> list[str]:
    """Return the text of each file."""
    config, common, on_bus = export.component.config, fill_common(export), is_on_bus(export)
    enabled = "        self.dut.aclken.value = 1\n" * export.clock_enable
    values = {
        "MAIN": fill("main.py.in", common).rstrip(),
        "CONFIG": _describe(config),
        "PORTS": _FLAT if export.ports == "flat" else "",
        **({"DUT": enabled} if on_bus else _streams(export)),
    }
    template = "axi.py.in" if on_bus else "streams.py.in"
    return [
        fill(template, values | common),
        *write_beats(make_beats(config)),
        fill("cocotb.mk.in", common),
        to_core(f"{export.name}.v", name=export.name),
    ]


COCOTB = Bench(("test_{name}.py", *BEATS, "Makefile", "{name}.core"), _write)
"""The kind of bench in Python."""

_FLAT = '''
class Flat:
    """The unit's ports under the names that the kit looks for."""

    def __init__(self, dut):
        self._dut = dut

    def __getattr__(self, name):
        return getattr(self._dut, name.replace("__", "_"))

'''


def _streams(export: Export) -> dict[str, str]:
    """Return the texts that differ between units without a bus."""
    config = export.component.config
    lines = [
        "dut = Flat(dut)" * (export.ports == "flat"),
        "dut.clk_en.value = 1" * export.clock_enable,
        "dut.status__clear.value = 0" * config.status,
    ]
    checks = [
        "    await RisingEdge(bench.dut.clk)",
        '    assert int(bench.dut.status__error.value) == 0, "error"',
        '    assert int(bench.dut.status__busy.value) == len(bench.activations.taken), "busy"',
        "    first = min(bench.weights.taken[0], bench.activations.taken[0])",
        '    assert int(bench.dut.status__cycles.value) == bench.results.taken[-1] + 1 - first, "cycles"',
    ]
    return {
        "DUT": "".join(f"        {line}\n" for line in lines if line),
        "STATUS": "".join(f"{line}\n" for line in checks) if config.status else "",
    }


def _describe(config: MxuConfig) -> str:
    """Return the configuration as Python code, a parameter a line."""
    lines = []
    for field in fields(config):
        if (value := getattr(config, field.name)) is None:  # a format like another one
            continue
        code = f'FloatFormat.parse("{value}", "{field.name}")' if isinstance(value, FloatFormat) else repr(value)
        lines.append(f"    {field.name}={code},\n")
    return f"MxuConfig(\n{''.join(lines)})".replace("'", '"')
