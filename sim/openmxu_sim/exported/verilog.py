"""A bench in Verilog, with a makefile for Icarus Verilog and Verilator and a core file for FuseSoC."""

from openmxu.axi import IDENTITY, Register
from openmxu.bench import Bench, Export
from openmxu.integration import CoreBench, to_core
from openmxu.marks import TILE_MARKS
from openmxu.names import PORTS
from openmxu_sim.exported.beats import Beats, make_beats
from openmxu_sim.exported.text import BEATS, fill, fill_common, is_on_bus, write_beats

__all__ = ["VERILOG"]

_PART = 3
"""Bits of a part."""

_SPELLS = 1024
"""Cycles for which pauses, one spell of them after the other, may hold up all streams."""


def _write(export: Export) -> list[str]:
    """The text of each file."""
    beats = make_beats(export.component.config)
    common = fill_common(export)
    bench = CoreBench(sources=(f"{export.name}_tb.v",), data=BEATS, toplevel=f"{export.name}_tb")
    return [
        fill("bench.v.in", _sizes(beats) | _connections(export, beats) | common),
        *write_beats(beats),
        fill("verilog.mk.in", common),
        to_core(f"{export.name}.v", name=export.name, bench=bench),
    ]


VERILOG = Bench(("{name}_tb.v", *BEATS, "Makefile", "{name}.core"), _write)
"""The kind of bench that is in Verilog."""


def _sizes(beats: Beats) -> dict[str, object]:
    """Constants of the bench."""
    config = beats.config
    names = ("WEIGHT_BITS", "ACTIVATION_BITS", "RESULT_BITS")
    drained = config.latency + config.rows * config.row_step + config.row_latency
    return {
        "WEIGHTS": len(beats.weights),
        "ACTIVATIONS": len(beats.activations),
        "RESULTS": len(beats.results),
        "COLUMNS": config.columns,
        "WORD": config.result.width,
        "LATENCY": config.latency,
        "PATIENCE": _SPELLS + 4 * drained,
        **dict(zip(names, beats.widths, strict=True)),
    }


def _connections(export: Export, beats: Beats) -> dict[str, object]:
    """How the unit is connected, and what is asked of it at the end."""
    if is_on_bus(export):
        ports, declared, tasks, checks = _axi(beats)
        enable = "aclken"
    else:
        ports, declared, tasks, checks = _streams(beats, PORTS[export.ports])
        enable = "clk_en"
    if export.clock_enable:
        ports[enable] = "enable"
    connected = ",\n".join(f"    .{port}({value})" for port, value in ports.items())
    return {
        "ENABLE": _ENABLED if export.clock_enable else _ALWAYS,
        "INSTANCE": f"{declared}  {export.name} unit(\n{connected}\n  );\n",
        "TASKS": tasks,
        "CHECKS": checks,
    }


_ALWAYS = """\
  wire enable = 1'b1;
"""

_ENABLED = """
  reg enable = 1'b1;  // a clock edge at which it is low does not happen
  wire pause;
  @NAME@_tb_pauses #(.STREAM(3)) enabling(.clk(clk), .reset(reset), .seed(seed), .pause(pause));
  always @(posedge clk)
    enable <= reset || !pause || stalls == 0;
"""

_Parts = tuple[dict[str, str], str, str, str]
"""Ports and what they are connected to; declarations, tasks and checks."""


def _streams(beats: Beats, joint: str) -> _Parts:
    """A unit's own streams."""
    ports = {"clk": "clk", "rst": "reset"}
    for stream in ("weights", "activations", "results"):
        ports |= {f"{stream}{joint}{name}": f"{stream}_{name}" for name in ("valid", "ready", "payload")}
    if not beats.config.status:
        return ports, "", "", ""
    shown = ("cycles", "busy", "input_stalls", "output_stalls", "error")
    ports |= {f"status{joint}{name}": f"status_{name}" for name in shown} | {f"status{joint}clear": "1'b0"}
    declared = f"  wire [31:0] {', '.join(f'status_{name}' for name in shown[:-1])};\n  wire [2:0] status_error;\n\n"
    return ports, declared, "", _check("status_error", 0, "error") + _check("status_busy", "ACTIVATIONS", "busy")


def _axi(beats: Beats) -> _Parts:
    """A unit behind AXI: marks are bits of TUSER, and registers say what it is and has done."""
    config = beats.config
    part = _PART * config.splitter
    data = {
        "weights": config.columns * config.source.width,
        "activations": config.rows * config.source.width,
        "results": config.columns * config.result.width,
    }
    ports = {"aclk": "clk", "aresetn": "!reset"}
    for stream, prefix in (("weights", "s_axis_weights"), ("activations", "s_axis_activations")):
        low = data[stream]
        last = low + (stream == "activations")  # `first` is below it, which the unit finds out itself
        user = part + len(TILE_MARKS) * (stream == "activations")
        ports |= {
            f"{prefix}_tdata": f"{stream}_payload[{low - 1}:0]",
            f"{prefix}_tlast": f"{stream}_payload[{last}]",
            f"{prefix}_tvalid": f"{stream}_valid",
            f"{prefix}_tready": f"{stream}_ready",
        } | ({f"{prefix}_tuser": f"{stream}_payload[{last + user}:{last + 1}]"} if user else {})
    ports |= {
        "m_axis_results_tdata": f"results_payload[{data['results'] - 1}:0]",
        "m_axis_results_tlast": f"results_payload[{data['results']}]",
        "m_axis_results_tvalid": "results_valid",
        "m_axis_results_tready": "results_ready",
        **{f"s_axil_{port}": value for port, value in _AXIL.items()},
    }
    size = config.rows | config.columns << 16
    expected = (
        (Register.ID, f"32'h{IDENTITY:08X}"),
        (Register.SIZE, f"32'h{size:08X}"),
        (Register.LATENCY, "LATENCY"),
        (Register.ERROR, 0),
        (Register.BUSY, "ACTIVATIONS"),
    )
    checks = "".join(
        f"    read_register(6'h{int(register):02X});\n" + _check("word_read", value, f"register {register.name}")
        for register, value in expected
    )
    return ports, _AXIL_DECLARED, _AXIL_TASK, checks


_AXIL = {
    "awaddr": "6'd0",
    "awprot": "3'd0",
    "awvalid": "1'b0",
    "awready": "",
    "wdata": "32'd0",
    "wstrb": "4'd0",
    "wvalid": "1'b0",
    "wready": "",
    "bresp": "",
    "bvalid": "",
    "bready": "1'b1",
    "araddr": "address",
    "arprot": "3'd0",
    "arvalid": "address_valid",
    "arready": "address_ready",
    "rdata": "answer",
    "rresp": "response",
    "rvalid": "answer_valid",
    "rready": "1'b1",
}
"""What is connected to the ports of AXI4-Lite, which are only read from."""

_AXIL_DECLARED = """\
  reg [5:0] address = 6'd0;
  reg address_valid = 1'b0;
  wire address_ready, answer_valid;
  wire [1:0] response;
  wire [31:0] answer;
  reg [31:0] word_read;

"""

_AXIL_TASK = """\
  // Inputs change at falling edges: what is high there is high at the next rising edge.
  task read_register(input [5:0] which);
    begin
      address = which;
      address_valid = 1'b1;
      idle = 0;
      while (!(address_ready && enable) && idle < PATIENCE)
        @(negedge clk);
      @(negedge clk);
      address_valid = 1'b0;
      while (!(answer_valid && enable) && idle < PATIENCE)
        @(negedge clk);
      word_read = response == 2'd0 ? answer : ~32'd0;
      @(negedge clk);
      if (idle >= PATIENCE)
        complain("no answer on AXI4-Lite");
    end
  endtask

"""


def _check(what: str, expected: object, name: str) -> str:
    return f'    if ({what} !== {expected})\n      complain("{name} is wrong");\n'
