"""The models of cells, against Yosys's where it has some, and against integers."""

import random

import pytest

from .conftest import needs_simulator
from .pairs import at_pins, differ, words, yosys

pytestmark = needs_simulator

FLIP_FLOPS = {
    "SB_DFF": ("ice40_ff", ".enable(1'b1), .sr(1'b0), .set(1'b0)", ""),
    "SB_DFFE": ("ice40_ff", ".enable(noise[2]), .sr(1'b0), .set(1'b0)", ".E(noise[2])"),
    "SB_DFFESR": ("ice40_ff", ".enable(noise[2]), .sr(noise[3]), .set(1'b0)", ".E(noise[2]), .R(noise[3])"),
    "SB_DFFESS": ("ice40_ff", ".enable(noise[2]), .sr(noise[3]), .set(1'b1)", ".E(noise[2]), .S(noise[3])"),
    "SB_DFFER": ("ice40_ff_async", ".enable(noise[2]), .sr(noise[3]), .set(1'b0)", ".E(noise[2]), .R(noise[3])"),
    "SB_DFFES": ("ice40_ff_async", ".enable(noise[2]), .sr(noise[3]), .set(1'b1)", ".E(noise[2]), .S(noise[3])"),
}


def test_ice40_logic() -> None:
    """LUT, carry and all kinds of flip-flops."""
    pairs = []
    for name, (ours, our_ports, their_ports) in FLIP_FLOPS.items():
        ports = f", {their_ports}" if their_ports else ""
        pairs.append(
            f"wire a@, b@; {ours} ours@ (.clk(clk), .d(noise[1]), {our_ports}, .q(a@));\n"
            f"{name} theirs@ (.C(clk), .D(noise[1]), .Q(b@){ports}); assign SAME = a@ === b@;"
        )
    for truth in random.Random(2).sample(range(1 << 16), 8):
        pairs.append(
            f"wire a@, b@; ice40_lut ours@ (.truth(16'd{truth}), .inputs(noise[7:4]), .o(a@));\n"
            f"SB_LUT4 #(.LUT_INIT(16'd{truth})) theirs@ (.I0(noise[4]), .I1(noise[5]), .I2(noise[6]), .I3(noise[7]), "
            f".O(b@)); assign SAME = a@ === b@;"
        )
    pairs.append(
        "wire a@, b@; ice40_carry ours@ (.a(noise[8]), .b(noise[9]), .ci(noise[10]), .co(a@));\n"
        "SB_CARRY theirs@ (.I0(noise[8]), .I1(noise[9]), .CI(noise[10]), .CO(b@)); assign SAME = a@ === b@;"
    )
    theirs = yosys("ice40/cells_sim.v", "SB_LUT4", "SB_CARRY", *FLIP_FLOPS)
    assert not differ(theirs, pairs)
    assert differ(theirs, [pairs[0].replace(".d(noise[1])", ".d(noise[0])")]), "the comparison sees nothing"


@pytest.mark.slow
def test_ice40_memory() -> None:
    """All widths of both ports, with mask, enables and contents."""
    pairs, draw = [], random.Random(3)
    ports = words(
        "RCLK(clk) RCLKE(noise[1]) RE(noise[2]) RADDR(noise[13:3]) WCLK(clk) WCLKE(noise[14]) WE(noise[15]) "
        "WADDR({noise[26:24],noise[5:3],noise[20:16]}) WDATA(noise[79:64]) MASK(noise[95:80])"
    )
    theirs_ports = ", ".join(f".{port}" for port in ports)
    ours_ports = ", ".join(f".{port.partition('(')[0].lower()}({port.partition('(')[2]}" for port in ports)
    for read in range(4):
        for write in range(4):
            rows = [draw.getrandbits(256) for _ in range(16)]
            content = sum(row << 256 * number for number, row in enumerate(rows))
            init = ", ".join(f".INIT_{number:X}(256'h{row:x})" for number, row in enumerate(rows))
            pairs.append(
                "wire [15:0] a@, b@;\n"
                f"ice40_ram #(.READ_MODE({read}), .WRITE_MODE({write}), .CONTENT(4096'h{content:x})) "
                f"ours@ ({ours_ports}, .rdata(a@));\n"
                f"SB_RAM40_4K #(.READ_MODE({read}), .WRITE_MODE({write}), {init}) "
                f"theirs@ ({theirs_ports}, .RDATA(b@));\n"
                "reg read@ = 1'b0; always @(posedge clk) read@ <= read@ | noise[1] & noise[2];\n"
                "assign SAME = !read@ | a@ === b@;"
            )
    theirs = yosys("ice40/cells_sim.v", "SB_RAM40_4K")
    assert not differ(theirs, pairs)
    assert differ(theirs, [pairs[5].replace(".WRITE_MODE(1), .CONTENT", ".WRITE_MODE(0), .CONTENT")])


MAC16_FLAGS = words(
    "NEG_TRIGGER A_REG B_REG C_REG D_REG TOP_8x8_MULT_REG BOT_8x8_MULT_REG PIPELINE_16x16_MULT_REG1 "
    "PIPELINE_16x16_MULT_REG2 TOPADDSUB_UPPERINPUT BOTADDSUB_UPPERINPUT MODE_8x8 A_SIGNED B_SIGNED"
)
MAC16_CHOICES = words(
    "TOPOUTPUT_SELECT TOPADDSUB_LOWERINPUT TOPADDSUB_CARRYSELECT BOTOUTPUT_SELECT BOTADDSUB_LOWERINPUT "
    "BOTADDSUB_CARRYSELECT"
)
MAC16_BITS = dict.fromkeys(MAC16_FLAGS, 1) | dict.fromkeys(MAC16_CHOICES, 2)


@pytest.mark.slow
def test_ice40_multiplier() -> None:
    """Configurations at random; the chain from another block is not modelled, and gets zeros."""
    draw, pairs = random.Random(4), []
    ports = ", ".join(f".{name}(noise[{16 * n + 15}:{16 * n}])" for n, name in enumerate("ABCD"))
    rare = [f"noise[{64 + 3 * n}] & noise[{65 + 3 * n}] & noise[{66 + 3 * n}]" for n in range(15)]
    names = words("AHOLD BHOLD CHOLD DHOLD IRSTTOP IRSTBOT ORSTTOP ORSTBOT OLOADTOP OLOADBOT OHOLDTOP OHOLDBOT")
    ports += "".join(f", .{name}({wire})" for name, wire in zip(names, rare, strict=False))
    ports += ", .ADDSUBTOP(noise[110]), .ADDSUBBOT(noise[111]), .CI(noise[112]), .CE(noise[113] | noise[114])"
    for _ in range(32):
        chosen = {name: draw.getrandbits(bits) for name, bits in MAC16_BITS.items()} | {"NEG_TRIGGER": 0}
        ours = ", ".join(f".{name}({MAC16_BITS[name]}'d{value})" for name, value in chosen.items())
        theirs = ", ".join(f".{name}({value})" for name, value in chosen.items())
        pairs.append(
            f"wire [32:0] a@, b@; ice40_mac16 ours@ ({ours}, .CLK(clk), {ports}, .O(a@[31:0]), .CO(a@[32]));\n"
            f"SB_MAC16 #({theirs}) theirs@ (.CLK(clk), {ports}, .O(b@[31:0]), .CO(b@[32]), .ACCUMCI(1'b0), "
            ".SIGNEXTIN(1'b0), .ACCUMCO(), .SIGNEXTOUT());\n"
            f"reg [3:0] reset@ = 4'd0; always @(posedge clk) reset@ <= reset@ | {{{', '.join(rare[4:8])}}};\n"
            "assign SAME = !(&reset@) | a@ === b@;"
        )
    theirs = yosys("ice40/cells_sim.v", "SB_MAC16")
    assert not differ(theirs, pairs)
    assert differ(theirs, [pair.replace(".ADDSUBTOP(noise[110])", ".ADDSUBTOP(noise[109])", 1) for pair in pairs])


def test_ecp5_logic() -> None:
    """LUT, multiplexers, both halves of a carry, flip-flops, a memory of LUTs."""
    draw, pairs = random.Random(5), []
    for truth in draw.sample(range(1 << 16), 8):
        pairs.append(
            f"wire a@, b@; ecp5_lut ours@ (.truth(16'd{truth}), .inputs(noise[7:4]), .o(a@));\n"
            f"LUT4 #(.INIT(16'd{truth})) theirs@ (.A(noise[4]), .B(noise[5]), .C(noise[6]), .D(noise[7]), .Z(b@));\n"
            "assign SAME = a@ === b@;"
        )
        for inject in (0, 1):
            other, say = draw.getrandbits(16), ("NO", "YES")[inject]
            pairs.append(
                "wire [2:0] a@, b@; wire c@;\n"
                f"ecp5_carry low@ (.truth(16'd{truth}), .inputs(noise[7:4]), .inject(1'b{inject}), .ci(noise[3]), "
                ".o(a@[0]), .co(c@));\n"
                f"ecp5_carry high@ (.truth(16'd{other}), .inputs(noise[11:8]), .inject(1'b{inject}), .ci(c@), "
                ".o(a@[1]), .co(a@[2]));\n"
                f'CCU2C #(.INIT0(16\'d{truth}), .INIT1(16\'d{other}), .INJECT1_0("{say}"), .INJECT1_1("{say}")) '
                "theirs@ (.A0(noise[4]), .B0(noise[5]), .C0(noise[6]), .D0(noise[7]), .A1(noise[8]), .B1(noise[9]), "
                ".C1(noise[10]), .D1(noise[11]), .CIN(noise[3]), .S0(b@[0]), .S1(b@[1]), .COUT(b@[2]));\n"
                "assign SAME = a@ === b@;"
            )
    for name, zero, one, select in (("PFUMX", "BLUT", "ALUT", "C0"), ("L6MUX21", "D0", "D1", "SD")):
        pairs.append(
            "wire a@, b@; ecp5_mux ours@ (.select(noise[1]), .zero(noise[2]), .one(noise[3]), .o(a@));\n"
            f"{name} theirs@ (.{select}(noise[1]), .{zero}(noise[2]), .{one}(noise[3]), .Z(b@));\n"
            "assign SAME = a@ === b@;"
        )
    for mode, ours in (("ASYNC", "ecp5_ff_async"), ("LSR_OVER_CE", "ecp5_ff")):
        for initial in (0, 1):
            pairs.append(
                f"wire a@, b@; {ours} #(.SET(1'b{initial})) ours@ (.clk(clk), .enable(noise[1]), .sr(noise[2]), "
                ".global_reset(1'b0), .d(noise[3]), .q(a@));\n"
                f'TRELLIS_FF #(.CEMUX("CE"), .SRMODE("{mode}"), .REGSET("{("RESET", "SET")[initial]}")) theirs@ '
                "(.CLK(clk), .CE(noise[1]), .LSR(noise[2]), .DI(noise[3]), .M(1'b0), .Q(b@)); assign SAME = a@ === b@;"
            )
    ports = "(.content(16'd0), .clk(clk), .we(noise[1]), .waddr(noise[5:2]), .raddr(noise[9:6])"
    halves = "\n".join(f"ecp5_lutram ours@_{n} {ports}, .d(noise[{10 + n}]), .o(a@[{n}]));" for n in range(4))
    pairs.append(
        f"wire [3:0] a@, b@; {halves}\nTRELLIS_DPR16X4 theirs@ (.DI(noise[13:10]), .WAD(noise[5:2]), .WRE(noise[1]), "
        ".WCK(clk), .RAD(noise[9:6]), .DO(b@)); assign SAME = a@ === b@;"
    )
    modules = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "TRELLIS_FF", "TRELLIS_DPR16X4")
    theirs = yosys("ecp5/common_sim.vh", *modules) + "\n" + yosys("ecp5/ccu2c_sim.vh", "CCU2C")
    assert not differ(theirs, pairs)
    assert differ(theirs, [pair.replace(".inject(1'b1)", ".inject(1'b0)") for pair in pairs])


def test_ecp5_multiplier() -> None:
    """Corners and random operands, each signed or not."""
    cell = "ecp5_mult18 it (.a(i[17:0]), .b(i[35:18]), .signed_a(i[36]), .signed_b(i[37]), .p(o[35:0]));"
    multiply = at_pins(cell, 38, 36)
    draw = random.Random(6)
    corners = [0, 1, 2, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, (1 << 18) - 2, (1 << 18) - 1, 0x15555, 0x2AAAA]
    operands = [(a, b) for a in corners for b in corners]
    operands += [(draw.getrandbits(18), draw.getrandbits(18)) for _ in range(1000)]
    for a, b in operands:
        for signs in range(4):
            left = a - (1 << 18) if signs & 1 and a >> 17 else a
            right = b - (1 << 18) if signs & 2 and b >> 17 else b
            assert multiply(a | b << 18 | signs << 36) == left * right & (1 << 36) - 1, (hex(a), hex(b), signs)


@pytest.mark.slow
def test_gatemate_logic() -> None:
    """Adders, multiplexers, flip-flops with set and reset on either level."""
    draw, pairs = random.Random(13), []
    pairs.append(
        "wire [1:0] a@, b@; gatemate_adder ours@ (.left(4'b1010), .right(4'b1100), .inputs({noise[2:1], noise[1:0]}), "
        ".ci(noise[3]), .o(a@[0]), .co(a@[1]));\n"
        "CC_ADDF theirs@ (.A(noise[0]), .B(noise[2]), .CI(noise[3]), .S(b@[0]), .CO(b@[1]));\n"
        "assign SAME = a@ === b@;"
    )
    for _ in range(4):
        used, inverted = draw.getrandbits(4), draw.getrandbits(4)
        data = ", ".join(f".D{n}((noise[{n}] & 1'b{used >> n & 1}) ^ 1'b{inverted >> n & 1})" for n in range(4))
        pairs.append(
            f"wire a@, b@; gatemate_mux4 ours@ (.low(4'b1010), .high(4'b0011), .select({{noise[5], 2'b10, noise[4]}}), "
            f".used(4'd{used}), .inverted(4'd{inverted}), .inputs(noise[3:0]), .o(a@));\n"
            f"CC_MX4 theirs@ ({data}, .S0(noise[4]), .S1(~noise[5]), .Y(b@)); assign SAME = a@ === b@;"
        )
    for value, low in ((0, 0), (0, 1), (1, 0), (1, 1)):
        signal = "noise[1] | noise[2]" if low else "noise[1] & noise[2]"
        ports = f".{('reset', 'set')[value]}({'~' if low else ''}({signal})), .{('set', 'reset')[value]}(1'b0)"
        pairs.append(
            f"wire a@, b@; gatemate_ff #(.INIT(1'b{low})) ours@ (.clk(clk), .enable(noise[3]), {ports}, .d(noise[4]), "
            f".q(a@));\nCC_DFF #(.SR_INV({low}), .SR_VAL({value}), .INIT({low})) theirs@ (.CLK(clk), .EN(noise[3]), "
            f".SR({signal}), .D(noise[4]), .Q(b@)); assign SAME = a@ === b@;"
        )
    theirs = yosys("gatemate/cells_sim.v", "CC_ADDF", "CC_MX4", "CC_DFF")
    assert not differ(theirs, pairs)
    assert differ(
        theirs, [pair.replace("CC_DFF #(.SR_INV(0), .SR_VAL(1)", "CC_DFF #(.SR_INV(0), .SR_VAL(0)") for pair in pairs]
    )


def _gatemate_ram(size: int, simple: bool, a: int, b: int, through: int) -> str:
    """A block RAM of each kind whose ports are never at the same place; few rows, so that what is written is read."""
    wires, name = size // 1024, f"CC_BRAM_{size // 1024}K"
    mode, write = ("SDP" if simple else "TDP"), ("NO_CHANGE", "WRITE_THROUGH")[through]
    widths = f".A_WR_WIDTH({a}), .B_RD_WIDTH({b})" + ("" if simple else f", .A_RD_WIDTH({a}), .B_WR_WIDTH({b})")
    addresses = {"a": "{noise[15:13], 6'd0, noise[6:0]}", "b": "{~noise[15], noise[14:13], 6'd0, noise[22:16]}"}
    ends = {"dia": 79, "dib": 119, "ma": 159, "mb": 199}
    word = {port: f"noise[{end}:{end - wires + 1}]" for port, end in ends.items()}
    wide = {port: f"{{{80 - wires}'d0, {bits}}}" for port, bits in word.items()}
    fill = f"{80 - 2 * wires}'d0, " if wires < 40 else ""
    if simple:
        ours = f".dia({{{fill}{word['dib']}, {word['dia']}}}), .maska({{{fill}{word['mb']}, {word['ma']}}}), "
        ours += ".dib(80'd0), .maskb(80'd0), .web(1'b0), .doa(), .dob(a@)"
        seen = f"{{B@, A@}} === a@[{2 * wires - 1}:0]"
    else:
        ours = f".dia({wide['dia']}), .maska({wide['ma']}), .dib({wide['dib']}), .maskb({wide['mb']}), "
        ours += ".web(noise[203]), .doa(a@), .dob(c@)"
        seen = f"A@ === a@[{wires - 1}:0] && B@ === c@[{wires - 1}:0]"
    unused = ".ECC_1B_ERR(), .ECC_2B_ERR()"
    if wires == 40:
        unused = ", ".join(f".{port}_ECC_{bits}B_ERR()" for port in "AB" for bits in (1, 2))
        unused += ", .A_CO(), .B_CO(), .A_CI(1'b0), .B_CI(1'b0)"
    return (
        f"wire [79:0] a@, c@; wire [{wires - 1}:0] A@, B@;\n"
        f"gatemate_ram #(.WIDTH_A({a}), .WIDTH_B({b}), .THROUGH_A({through}), .THROUGH_B({through}), "
        f".HALF({int(wires == 20)})) ours@ (.clka(clk), .ena(noise[200]), .wea(noise[201]), .addra({addresses['a']}), "
        f".clkb(clk), .enb(noise[202]), .addrb({addresses['b']}), {ours});\n"
        f'{name} #(.RAM_MODE("{mode}"), .A_WR_MODE("{write}"), .B_WR_MODE("{write}"), {widths}) theirs@ '
        f"(.A_CLK(clk), .B_CLK(clk), .A_EN(noise[200]), .A_WE(noise[201]), .B_EN(noise[202]), .B_WE(noise[203]), "
        f".A_ADDR({addresses['a']}), .B_ADDR({addresses['b']}), .A_DI({word['dia']}), .B_DI({word['dib']}), "
        f".A_BM({word['ma']}), .B_BM({word['mb']}), .A_DO(A@), .B_DO(B@), {unused});\nassign SAME = {seen};"
    )


@pytest.mark.slow
def test_gatemate_memory() -> None:
    """Whole block RAMs and halves: all widths of two ports, both ways to write, and words of the wires of both."""
    pairs = [_gatemate_ram(20480, True, 40, 40, 0), _gatemate_ram(40960, True, 80, 80, 0)]
    for size, widths in ((20480, (1, 2, 5, 10, 20)), (40960, (1, 2, 5, 10, 20, 40))):
        pairs += [
            _gatemate_ram(size, False, a, b, n % 2) for n, (a, b) in enumerate(zip(widths, widths[::-1], strict=True))
        ]
    theirs = yosys("gatemate/cells_sim.v", "CC_BRAM_20K", "CC_BRAM_40K")
    assert not differ(theirs, pairs)
    assert differ(theirs, [pairs[2].replace(".WIDTH_B(20)", ".WIDTH_B(10)")])


@pytest.mark.slow
def test_gatemate_multiplier() -> None:
    """A place of a multiplier, all inputs: what its outputs weigh is what its inputs do."""
    cell = (
        "gatemate_mult it (.a(i[2:0]), .inverted(i[3]), .b(i[5:4]), .sum(i[7:6]), .carry(i[9:8]), .o(o[1:0]), "
        ".carry_out(o[3:2]));"
    )
    multiply = at_pins(cell, 10, 4)
    for word in range(1 << 10):
        a = word & 7 ^ (7 if word & 8 else 0)
        products = (a >> 1) * (word >> 5 & 1) + (a & 3) * (word >> 4 & 1)
        total = products + (word >> 6 & 3) + (word >> 8 & 1) + (word >> 9 & 1)
        outputs = multiply(word)
        assert (outputs & 7) + 4 * (outputs >> 3) == total, hex(word)
