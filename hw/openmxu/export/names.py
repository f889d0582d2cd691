"""Names in exported files: what Verilog and VHDL allow."""

import re

PORTS = {"nested": "__", "flat": "_"}
"""The joint of a stream and its members in names of ports: ``weights__valid``, or ``weights_valid``, which VHDL can
name, too."""

# Reserved words: IEEE 1800-2017 for Verilog, IEEE 1076-2019 for VHDL; both include those of older standards.
_SYSTEMVERILOG = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin
    bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos
    config const constraint context continue cover covergroup coverpoint cross deassign default defparam design
    disable dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate
    endgroup endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify
    endtable endtask enum event eventually expect export extends extern final first_match for force foreach
    forever fork forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins
    implements implies import incdir include initial inout input inside instance int integer interconnect
    interface intersect join join_any join_none large let liblist library local localparam logic longint
    macromodule matches medium modport module nand negedge nettype new nexttime nmos nor noshowcancelled not
    notif0 notif1 null or output package packed parameter pmos posedge primitive priority program property
    protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase
    randsequence rcmos real realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0
    rtranif1 s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1 struct super
    supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time timeprecision timeunit
    tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unique0 unsigned until
    until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while wildcard
    wire with within wor xnor xor
"""

_VHDL = """
    abs access after alias all and architecture array assert assume assume_guarantee attribute begin block body
    buffer bus case component configuration constant context cover default disconnect downto else elsif end
    entity exit fairness file for force function generate generic group guarded if impure in inertial inout is
    label library linkage literal loop map mod nand new next nor not null of on open or others out package
    parameter port postponed private procedure process property protected pure range record register reject
    release rem report restrict restrict_guarantee return rol ror select sequence severity shared signal sla sll
    sra srl strong subtype then to transport type unaffected units until use variable view vmode vpkg vprop
    vunit wait when while with xnor xor
"""

_VHDL_TYPES = ("std_logic", "std_logic_vector")
"""Types of ports: a component of that name would hide the type."""


def check_name(noun: str, name: str) -> str:
    """Return ``name`` if a module can be called so in Verilog and SystemVerilog."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name):
        raise ValueError(f"{noun} must be a Verilog identifier, not {name!r}")
    if name in _SYSTEMVERILOG.split():
        raise ValueError(f"{noun} must not be a keyword of Verilog or SystemVerilog, {name!r}")
    return name


def check_vhdl_name(noun: str, name: str) -> str:
    """Return ``name`` if VHDL can name it, as an ordinary identifier of VHDL-93."""
    if not re.fullmatch(r"[A-Za-z](_?[A-Za-z0-9])*", name):
        raise ValueError(f"{noun} must be a VHDL identifier, not {name!r}")
    if name.lower() in _VHDL.split():
        raise ValueError(f"{noun} must not be a keyword of VHDL, {name!r}")
    if name.lower() in _VHDL_TYPES:
        raise ValueError(f"{noun} must not be a type of ports in VHDL, {name!r}")
    return name


def check_names(name: str | None, prefix: str | None, ports: str) -> None:
    """Check the options of an export: name and prefix, where given, and the kind of its port names."""
    if ports not in PORTS:
        raise ValueError(f"ports must be one of {', '.join(PORTS)}, not {ports!r}")
    if name is not None:
        check_name("name", name)
        if ports == "flat":
            check_vhdl_name("name", name)
    if prefix is not None:
        check_name("prefix", prefix)
