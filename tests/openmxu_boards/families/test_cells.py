"""The models of cells, against Yosys's where it has some, and against integers."""

import random
from itertools import product

import pytest

from ..testbenches import verilated
from .pairs import at_pins, compare, pair, words, yosys

pytestmark = verilated

FLIP_FLOPS = {
    "SB_DFF": ("ice40_ff", "enable/=1'b1 sr/=1'b0 set/=1'b0"),
    "SB_DFFE": ("ice40_ff", "enable/E=noise[2] sr/=1'b0 set/=1'b0"),
    "SB_DFFESR": ("ice40_ff", "enable/E=noise[2] sr/R=noise[3] set/=1'b0"),
    "SB_DFFESS": ("ice40_ff", "enable/E=noise[2] sr/S=noise[3] set/=1'b1"),
    "SB_DFFER": ("ice40_ff_async", "enable/E=noise[2] sr/R=noise[3] set/=1'b0"),
    "SB_DFFES": ("ice40_ff_async", "enable/E=noise[2] sr/S=noise[3] set/=1'b1"),
}
LUT = "inputs/=noise[7:4] {} o/{}=@"


def test_ice40_logic() -> None:
    pairs = [pair(ours, name, f"clk/C=clk d/D=noise[1] {ports} q/Q=@") for name, (ours, ports) in FLIP_FLOPS.items()]
    inputs = LUT.format(" ".join(f"/I{n}=noise[{4 + n}]" for n in range(4)), "O")
    for truth in random.Random(2).sample(range(1 << 16), 8):
        pairs.append(pair("ice40_lut", f"SB_LUT4 #(.LUT_INIT(16'd{truth}))", f"truth/=16'd{truth} {inputs}"))
    pairs.append(pair("ice40_carry", "SB_CARRY", "a/I0=noise[8] b/I1=noise[9] ci/CI=noise[10] co/CO=@"))
    theirs = yosys("ice40/cells_sim.v", "SB_LUT4", "SB_CARRY", *FLIP_FLOPS)
    compare(theirs, pairs, ".d(noise[1]), .enable(1'b1)", ".d(noise[0]), .enable(1'b1)")


@pytest.mark.slow
def test_ice40_memory() -> None:
    """All widths of both ports, with mask, enables and contents."""
    pairs, draw = [], random.Random(3)
    wires = words(
        "RCLK=clk RCLKE=noise[1] RE=noise[2] RADDR=noise[13:3] WCLK=clk WCLKE=noise[14] WE=noise[15] "
        "WADDR={noise[26:24],noise[5:3],noise[20:16]} WDATA=noise[79:64] MASK=noise[95:80] RDATA=@"
    )
    ports = " ".join(f"{wire.partition('=')[0].lower()}/{wire}" for wire in wires)
    known = "reg read@ = 1'b0; always @(posedge clk) read@ <= read@ | noise[1] & noise[2];\n"
    for read, write in product(range(4), repeat=2):
        rows = [draw.getrandbits(256) for _ in range(16)]
        content = sum(row << 256 * number for number, row in enumerate(rows))
        init = ", ".join(f".INIT_{number:X}(256'h{row:x})" for number, row in enumerate(rows))
        modes = f".READ_MODE({read}), .WRITE_MODE({write})"
        ours = f"{known}ice40_ram #({modes}, .CONTENT(4096'h{content:x}))"
        pairs.append(pair(ours, f"SB_RAM40_4K #({modes}, {init})", ports, width=16, when="read@"))
    mode = ".READ_MODE(1), .WRITE_MODE({}), .CONTENT"
    compare(yosys("ice40/cells_sim.v", "SB_RAM40_4K"), pairs, mode.format(1), mode.format(0))


@pytest.mark.slow
def test_ice40_multiplier() -> None:
    """Configurations at random; the chain from another block is not modelled, and gets zeros."""
    draw, pairs = random.Random(4), []
    flags = words(
        "NEG_TRIGGER A_REG B_REG C_REG D_REG TOP_8x8_MULT_REG BOT_8x8_MULT_REG PIPELINE_16x16_MULT_REG1 "
        "PIPELINE_16x16_MULT_REG2 TOPADDSUB_UPPERINPUT BOTADDSUB_UPPERINPUT MODE_8x8 A_SIGNED B_SIGNED"
    )
    choices = words("OUTPUT_SELECT ADDSUB_LOWERINPUT ADDSUB_CARRYSELECT")
    widths = dict.fromkeys(flags, 1) | {half + choice: 2 for half in ("TOP", "BOT") for choice in choices}
    ports = " ".join(f"{name}/{name}=noise[{16 * n + 15}:{16 * n}]" for n, name in enumerate("ABCD"))
    rare = [f"noise[{64 + 3 * n}]&noise[{65 + 3 * n}]&noise[{66 + 3 * n}]" for n in range(12)]
    names = words("AHOLD BHOLD CHOLD DHOLD IRSTTOP IRSTBOT ORSTTOP ORSTBOT OLOADTOP OLOADBOT OHOLDTOP OHOLDBOT")
    ports += "".join(f" {name}/{name}={wire}" for name, wire in zip(names, rare, strict=True))
    ports += " ADDSUBTOP/ADDSUBTOP=noise[110] ADDSUBBOT/ADDSUBBOT=noise[111] CI/CI=noise[112] CLK/CLK=clk"
    ports += " CE/CE=noise[113]|noise[114] O/O=@[31:0] CO/CO=@[32] /ACCUMCI=1'b0 /SIGNEXTIN=1'b0 /ACCUMCO= /SIGNEXTOUT="
    known = f"reg [3:0] reset@ = 4'd0; always @(posedge clk) reset@ <= reset@ | {{{', '.join(rare[4:8])}}};\n"
    for _ in range(32):
        chosen = {name: draw.getrandbits(bits) for name, bits in widths.items()} | {"NEG_TRIGGER": 0}
        ours = " ".join(f"{name}/={widths[name]}'d{value}" for name, value in chosen.items())
        theirs = ", ".join(f".{name}({value})" for name, value in chosen.items())
        pairs.append(pair(f"{known}ice40_mac16", f"SB_MAC16 #({theirs})", f"{ours} {ports}", width=33, when="&reset@"))
    compare(yosys("ice40/cells_sim.v", "SB_MAC16"), pairs, ".ADDSUBTOP(noise[110])", ".ADDSUBTOP(noise[109])")


def test_ecp5_logic() -> None:
    draw, pairs = random.Random(5), []
    inputs = LUT.format(" ".join(f"/{name}=noise[{4 + n}]" for n, name in enumerate("ABCD")), "Z")
    halves = " ".join(f"/{name}{half}=noise[{4 * half + 4 + n}]" for half in (0, 1) for n, name in enumerate("ABCD"))
    for truth in draw.sample(range(1 << 16), 8):
        pairs.append(pair("ecp5_lut", f"LUT4 #(.INIT(16'd{truth}))", f"truth/=16'd{truth} {inputs}"))
        for inject, say in ((0, "NO"), (1, "YES")):
            other, level = draw.getrandbits(16), f"1'b{inject}"
            # The upper half is behind the lower one, which has the name of the cell.
            ours = (
                f"wire ca@; ecp5_carry high@ (.truth(16'd{other}), .inputs(noise[11:8]), .inject({level}), .ci(ca@), "
                ".o(a@[1]), .co(a@[2]));\necp5_carry"
            )
            theirs = f'CCU2C #(.INIT0(16\'d{truth}), .INIT1(16\'d{other}), .INJECT1_0("{say}"), .INJECT1_1("{say}"))'
            ports = f"truth/=16'd{truth} inputs/=noise[7:4] inject/={level} ci/CIN=noise[3] o/S0=@[0] co/=c@"
            pairs.append(pair(ours, theirs, f"{ports} {halves} /S1=@[1] /COUT=@[2]", width=3))
    for name, zero, one, select in (("PFUMX", "BLUT", "ALUT", "C0"), ("L6MUX21", "D0", "D1", "SD")):
        pairs.append(pair("ecp5_mux", name, f"select/{select}=noise[1] zero/{zero}=noise[2] one/{one}=noise[3] o/Z=@"))
    ports = "clk/CLK=clk enable/CE=noise[1] sr/LSR=noise[2] global_reset/=1'b0 d/DI=noise[3] /M=1'b0 q/Q=@"
    for (mode, ours), initial in product((("ASYNC", "ecp5_ff_async"), ("LSR_OVER_CE", "ecp5_ff")), (0, 1)):
        theirs = f'TRELLIS_FF #(.CEMUX("CE"), .SRMODE("{mode}"), .REGSET("{("RESET", "SET")[initial]}"))'
        pairs.append(pair(f"{ours} #(.SET(1'b{initial}))", theirs, ports))
    ports = "(.content(16'd0), .clk(clk), .we(noise[1]), .waddr(noise[5:2]), .raddr(noise[9:6])"
    ours = "\n".join(f"ecp5_lutram ours@_{n} {ports}, .d(noise[{10 + n}]), .o(a@[{n}]));" for n in range(4))
    theirs = "(.DI(noise[13:10]), .WAD(noise[5:2]), .WRE(noise[1]), .WCK(clk), .RAD(noise[9:6]), .DO(b@))"
    pairs.append(f"wire [3:0] a@, b@; {ours}\nTRELLIS_DPR16X4 theirs@ {theirs};\nassign SAME = a@ === b@;")
    modules = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "TRELLIS_FF", "TRELLIS_DPR16X4")
    theirs = yosys("ecp5/common_sim.vh", *modules) + "\n" + yosys("ecp5/ccu2c_sim.vh", "CCU2C")
    compare(theirs, pairs, ".inject(1'b1)", ".inject(1'b0)")


def test_ecp5_multiplier() -> None:
    """Corners and random operands, each signed or not."""
    cell = "ecp5_mult18 it (.a(i[17:0]), .b(i[35:18]), .signed_a(i[36]), .signed_b(i[37]), .p(o[35:0]));"
    multiply = at_pins(cell, 38, 36)
    draw = random.Random(6)
    corners = [0, 1, 2, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, (1 << 18) - 2, (1 << 18) - 1, 0x15555, 0x2AAAA]
    operands = [*product(corners, repeat=2)]
    operands += [(draw.getrandbits(18), draw.getrandbits(18)) for _ in range(1000)]
    for (a, b), signs in product(operands, range(4)):
        left = a - (1 << 18) if signs & 1 and a >> 17 else a
        right = b - (1 << 18) if signs & 2 and b >> 17 else b
        assert multiply(a | b << 18 | signs << 36) == left * right & (1 << 36) - 1, (hex(a), hex(b), signs)


@pytest.mark.slow
def test_gatemate_logic() -> None:
    """Adders, multiplexers, flip-flops with set and reset on either level."""
    draw = random.Random(13)
    adder = "left/=4'b1010 right/=4'b1100 inputs/={noise[2:1],noise[1:0]} /A=noise[0] /B=noise[2] ci/CI=noise[3]"
    pairs = [pair("gatemate_adder", "CC_ADDF", f"{adder} o/S=@[0] co/CO=@[1]", width=2)]
    for _ in range(4):
        used, inverted = draw.getrandbits(4), draw.getrandbits(4)
        ports = "low/=4'b1010 high/=4'b0011 select/={noise[5],2'b10,noise[4]} /S0=noise[4] /S1=~noise[5] o/Y=@ "
        ports += f"inputs/=noise[3:0] used/=4'd{used} inverted/=4'd{inverted} "
        ports += " ".join(f"/D{n}=(noise[{n}]&1'b{used >> n & 1})^1'b{inverted >> n & 1}" for n in range(4))
        pairs.append(pair("gatemate_mux4", "CC_MX4", ports))
    for value, low in product((0, 1), repeat=2):
        signal, level = ("noise[1]|noise[2]", "~") if low else ("noise[1]&noise[2]", "")
        ports = f"{('reset', 'set')[value]}/={level}({signal}) {('set', 'reset')[value]}/=1'b0 /SR={signal}"
        theirs = f"CC_DFF #(.SR_INV({low}), .SR_VAL({value}), .INIT({low}))"
        ports += " clk/CLK=clk enable/EN=noise[3] d/D=noise[4] q/Q=@"
        pairs.append(pair(f"gatemate_ff #(.INIT(1'b{low}))", theirs, ports))
    theirs = yosys("gatemate/cells_sim.v", "CC_ADDF", "CC_MX4", "CC_DFF")
    compare(theirs, pairs, "CC_DFF #(.SR_INV(0), .SR_VAL(1)", "CC_DFF #(.SR_INV(0), .SR_VAL(0)")


def _ram(size: int, simple: bool, a: int, b: int, through: int) -> str:
    """A block RAM of each kind whose ports are never at the same place; few rows, so that what is written is read."""
    wires, mode, write = size // 1024, ("SDP" if simple else "TDP"), ("NO_CHANGE", "WRITE_THROUGH")[through]
    widths = f".A_WR_WIDTH({a}), .B_RD_WIDTH({b})" + ("" if simple else f", .A_RD_WIDTH({a}), .B_WR_WIDTH({b})")
    ends = {"dia": 79, "dib": 119, "ma": 159, "mb": 199}
    word = {port: f"noise[{end}:{end - wires + 1}]" for port, end in ends.items()}
    wide = {port: f"{{{80 - wires}'d0,{bits}}}" for port, bits in word.items()}
    fill = f"{80 - 2 * wires}'d0," if wires < 40 else ""
    if simple:
        ports = f"dia/={{{fill}{word['dib']},{word['dia']}}} maska/={{{fill}{word['mb']},{word['ma']}}} "
        ports += "dib/=80'd0 maskb/=80'd0 web/=1'b0 /B_WE=noise[203] "
        seen = f"doba@[{2 * wires - 1}:0]"
    else:
        ports = f"dia/={wide['dia']} maska/={wide['ma']} dib/={wide['dib']} maskb/={wide['mb']} web/B_WE=noise[203] "
        seen = f"{{doba@[{wires - 1}:0], doaa@[{wires - 1}:0]}}"
    sides, chain = ([""], "") if wires == 20 else (["A_", "B_"], "/A_CO= /B_CO= /A_CI=1'b0 /B_CI=1'b0 ")
    ports += chain + "".join(f"/{side}ECC_{bits}B_ERR= " for side in sides for bits in (1, 2))
    ports += f"/A_DI={word['dia']} /B_DI={word['dib']} /A_BM={word['ma']} /B_BM={word['mb']} doa/=doa@ dob/=dob@ "
    ports += "clka/A_CLK=clk ena/A_EN=noise[200] wea/A_WE=noise[201] addra/A_ADDR={noise[15:13],6'd0,noise[6:0]} "
    ports += "clkb/B_CLK=clk enb/B_EN=noise[202] addrb/B_ADDR={~noise[15],noise[14:13],6'd0,noise[22:16]} "
    ports += f"/A_DO=@[{wires - 1}:0] /B_DO=@[{2 * wires - 1}:{wires}]"
    return pair(
        f"wire [79:0] doaa@, doba@; assign a@ = {seen};\ngatemate_ram #(.WIDTH_A({a}), .WIDTH_B({b}), "
        f".THROUGH_A({through}), .THROUGH_B({through}), .HALF({int(wires == 20)}))",
        f'CC_BRAM_{wires}K #(.RAM_MODE("{mode}"), .A_WR_MODE("{write}"), .B_WR_MODE("{write}"), {widths})',
        ports,
        width=2 * wires,
    )


@pytest.mark.slow
def test_gatemate_memory() -> None:
    """Whole block RAMs and halves: all widths of two ports, both ways to write, and words of the wires of both."""
    pairs = [_ram(20480, True, 40, 40, 0), _ram(40960, True, 80, 80, 0)]
    for size, widths in ((20480, (1, 2, 5, 10, 20)), (40960, (1, 2, 5, 10, 20, 40))):
        pairs += [_ram(size, False, a, b, n % 2) for n, (a, b) in enumerate(zip(widths, widths[::-1], strict=True))]
    theirs = yosys("gatemate/cells_sim.v", "CC_BRAM_20K", "CC_BRAM_40K")
    compare(theirs, pairs, ".WIDTH_A(1), .WIDTH_B(20)", ".WIDTH_A(1), .WIDTH_B(10)")


@pytest.mark.slow
def test_gatemate_multiplier() -> None:
    """A place of a multiplier, all inputs: what its outputs weigh is what its inputs do."""
    cell = "gatemate_mult it (.a(i[2:0]), .inverted(i[3]), .b(i[5:4]), .sum(i[7:6]), .carry(i[9:8]),"
    multiply = at_pins(f"{cell} .o(o[1:0]), .carry_out(o[3:2]));", 10, 4)
    for word in range(1 << 10):
        a = word & 7 ^ (7 if word & 8 else 0)
        products = (a >> 1) * (word >> 5 & 1) + (a & 3) * (word >> 4 & 1)
        total = products + (word >> 6 & 3) + (word >> 8 & 1) + (word >> 9 & 1)
        outputs = multiply(word)
        assert (outputs & 7) + 4 * (outputs >> 3) == total, hex(word)
