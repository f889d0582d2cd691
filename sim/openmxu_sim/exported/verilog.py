"""A bench in Verilog, with a makefile for Icarus Verilog and Verilator and a core file for FuseSoC."""

from collections.abc import Mapping

from openmxu.export.bench import Bench, Export
from openmxu.export.integration import CoreBench, to_core
from openmxu.export.names import PORTS
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.unit.axi import Register, constant_registers
from openmxu.unit.status import COUNTERS
from openmxu_sim.exported.beats import Beats, make_beats
from openmxu_sim.exported.text import BEATS, fill, fill_common, is_on_bus, write_beats

_PART = 3
"""Bits of a part."""

_SPELLS = 1024
"""Cycles for which pauses, one spell after the other, may hold up all streams."""


def _write(export: Export) -> list[str]:
    """Return the text of each file."""
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
"""The kind of bench in Verilog."""


def _sizes(beats: Beats) -> dict[str, object]:
    """Return constants of the bench."""
    config = beats.config
    names = ("WEIGHT_BITS", "ACTIVATION_BITS", "RESULT_BITS")
    drained = config.latency + config.rows * config.row_step + config.row_latency
    return {
        "WEIGHTS": len(beats.weights),
        "ACTIVATIONS": len(beats.activations),
        "RESULTS": len(beats.results),
        "ROWS": config.rows,
        "TERMS": config.terms,
        "SOURCE": config.source.width,
        "COLUMNS": config.columns,
        "WORD": config.result.width,
        "LATENCY": config.latency,
        "PATIENCE": _SPELLS + 4 * drained,
        **dict(zip(names, beats.widths, strict=True)),
    }


def _connections(export: Export, beats: Beats) -> dict[str, object]:
    """Return the connections of the unit, and the checks at the end."""
    if is_on_bus(export):
        ports, declared, tasks, checks = _axi(beats)
        enable = "aclken"
    else:
        ports, declared, tasks, checks = _streams(beats, PORTS[export.ports])
        enable = "clk_en"
    counts = beats.config.status
    if export.clock_enable:
        ports[enable] = "enable"
    connected = ",\n".join(f"    .{port}({value})" for port, value in ports.items())
    return {
        "ENABLE": _ENABLED if export.clock_enable else _ALWAYS,
        "INSTANCE": f"{declared}  {export.name} unit(\n{connected}\n  );\n",
        "TASKS": tasks,
        "CLEAR": _CLEAR if counts else "",
        "WATCH": "" if is_on_bus(export) or not counts else _WATCH,
        "CHECKS": checks,
        "COUNTERS": fill("counters.v.in", {}) if counts else "",
    }


_ALWAYS = """\
  wire enable = 1'b1;
"""

_ENABLED = """
  reg enabled = 1'b1;
  wire enable = reset || enabled;  // a clock edge at which it is low does not happen
  wire pause;
  @NAME@_tb_pauses #(.STREAM(3)) enabling(.clk(clk), .reset(begins), .seed(seed), .pause(pause));
  always @(posedge clk)
    enabled <= !pause || stalls == 0;
"""

_CLEAR = """\
    while (received < RESULTS / 2 && idle < PATIENCE)
      @(negedge clk);
    zero_counters;
"""

_WATCH = "".join(
    f'      if (status_{name} !== {right})\n        complain("{name} is wrong");\n'
    for name, right in [*((name, f"count_{name}") for name in COUNTERS), ("error", "3'd0")]
)

_Parts = tuple[dict[str, str], str, str, str]
"""Ports and the signals that they are connected to; declarations, tasks and checks."""


def _streams(beats: Beats, joint: str) -> _Parts:
    """Connect a unit's own streams."""
    ports = {"clk": "clk", "rst": "reset"}
    for stream in ("weights", "activations", "results"):
        ports |= {f"{stream}{joint}{name}": f"{stream}_{name}" for name in ("valid", "ready", "payload")}
    if not beats.config.status:
        return ports, "", "", ""
    ports |= {f"status{joint}{name}": f"status_{name}" for name in (*COUNTERS, "error")}
    ports[f"status{joint}clear"] = "clear"
    declared = (
        f"  reg clear = 1'b0;\n  wire [31:0] {', '.join(f'status_{name}' for name in COUNTERS)};\n"
        f"  wire [2:0] status_error;\n{_declare_counts(beats)}"
    )
    return ports, declared, _CLEAR_TASK, ""


def _axi(beats: Beats) -> _Parts:
    """Connect a unit behind AXI: marks are bits of TUSER, and registers describe the unit and its work."""
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
    constant = {register: f"32'h{value:08X}" for register, value in constant_registers(config).items()}
    counted = {Register.ERROR: "0"} | {Register[name.upper()]: f"count_{name}" for name in COUNTERS}
    checks = _check_registers(counted)
    declared = f"{_AXIL_DECLARED}{_declare_counts(beats)}"
    return ports, declared, _AXIL_TASK, f"{_check_registers(constant)}{checks}    zero_counters;\n{checks}"


def _check_registers(expected: Mapping[Register, str]) -> str:
    return "".join(
        f"    read_register(6'h{int(register):02X});\n    if (word_read !== {value})\n"
        f'      complain("register {register.name} is wrong");\n'
        for register, value in expected.items()
    )


def _declare_counts(beats: Beats) -> str:
    """Declare the counters that the unit's are compared with."""
    config = beats.config
    low = config.rows * config.source.width
    ports = {name: name for name in ("clk", "reset", "enable", "clear")}
    for stream in ("weights", "activations", "results"):
        ports |= {name: name for name in (f"{stream}_valid", f"{stream}_ready")}
    for mark in ("first", "last", "emit", "keep"):
        ports[mark] = f"activations_payload[{low + MARKS.index(mark)}]"
    ports |= {name: f"count_{name}" for name in COUNTERS}
    connected = ",\n".join(f"    .{port}({value})" for port, value in ports.items())
    return (
        f"  wire [31:0] {', '.join(f'count_{name}' for name in COUNTERS)};\n\n"
        f"  @NAME@_tb_counters #(.ROWS({config.rows}), .DEPTH({config.depth})) counters(\n{connected}\n  );\n\n"
    )


_AXIL = {
    "awaddr": f"6'h{int(Register.CONTROL):02X}",
    "awprot": "3'd0",
    "awvalid": "command_valid",
    "awready": "command_ready",
    "wdata": "32'd1",
    "wstrb": "4'd1",
    "wvalid": "command_valid",
    "wready": "word_ready",
    "bresp": "",
    "bvalid": "clear",
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
"""Connections of the ports of AXI4-Lite: any register is read; the only command clears the counters, in the cycle
in which its response is valid."""

_AXIL_DECLARED = """\
  reg [5:0] address = 6'd0;
  reg address_valid = 1'b0;
  reg command_valid = 1'b0;
  wire address_ready, answer_valid, command_ready, word_ready, clear;
  wire [1:0] response;
  wire [31:0] answer;
  reg [31:0] word_read;
"""

_CLEAR_TASK = """\
  task zero_counters;
    begin
      clear = 1'b1;
      while (!enable)
        @(negedge clk);
      @(negedge clk);
      clear = 1'b0;
    end
  endtask

"""

_AXIL_TASK = """\
  // Inputs change at falling edges: what is high there is high at the next rising edge.
  task zero_counters;
    begin
      command_valid = 1'b1;
      while (!(command_ready && word_ready && enable) && idle < PATIENCE)
        @(negedge clk);
      @(negedge clk);
      command_valid = 1'b0;
      while (!(clear && enable) && idle < PATIENCE)
        @(negedge clk);
      @(negedge clk);
    end
  endtask

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
