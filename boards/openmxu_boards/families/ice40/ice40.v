// Cells of Lattice iCE40, as its data sheets and the ICE Technology Library describe them, without delays.
//
// Configuration bits come as constant inputs, except where a memory's size or content depends on them.

// The bit `inputs` of a truth table.
module ice40_lut (input [15:0] truth, input [3:0] inputs, output o);
    assign o = truth[inputs];
endmodule

module ice40_carry (input a, input b, input ci, output co);
    assign co = (a & b) | ((a | b) & ci);
endmodule

// A flip-flop; its set or reset needs the clock, and the enable.
module ice40_ff (input clk, input enable, input sr, input set, input d, output reg q);
    initial q = 1'b0;
    always @(posedge clk)
        if (enable) q <= sr ? set : d;
endmodule

// A flip-flop; its set or reset waits for nothing.
module ice40_ff_async (input clk, input enable, input sr, input set, input d, output reg q);
    initial q = 1'b0;
    always @(posedge clk, posedge sr)
        if (sr) q <= set;
        else if (enable) q <= d;
endmodule

// SB_RAM40_4K: 256 words of 16 bits. A port of mode M has 2^M words in each of these: word S of it is made of every bit
// S of a group of 2^M, and stands in the middle of the groups at the port.
//
//     mode 2:  bit of the word    15 14 13 12   11 10  9  8    7  6  5  4    3  2  1  0
//              S of the address    3  2  1  0    3  2  1  0    3  2  1  0    3  2  1  0
//              bit at the port          13             9             5             1
module ice40_ram #(
    parameter READ_MODE = 0,
    parameter WRITE_MODE = 0,
    parameter [4095:0] CONTENT = 0
) (
    input rclk, input rclke, input re, input [10:0] raddr, output [15:0] rdata,
    input wclk, input wclke, input we, input [10:0] waddr, input [15:0] wdata, input [15:0] mask
);
    localparam READ_GROUP = 1 << READ_MODE;
    localparam WRITE_GROUP = 1 << WRITE_MODE;
    reg [15:0] words [0:255];
    reg [15:0] word;
    reg [2:0] part;
    integer n;

    initial begin
        for (n = 0; n < 256; n = n + 1) words[n] = CONTENT[16 * n +: 16];
        word = 16'd0;
        part = 3'd0;
    end

    wire [2:0] into = waddr[10:8] & (WRITE_GROUP[2:0] - 3'd1);
    integer bit_;
    always @(posedge wclk)
        if (wclke & we)
            for (bit_ = 0; bit_ < 16; bit_ = bit_ + 1)
                if (WRITE_MODE == 0 ? !mask[bit_] : bit_ % WRITE_GROUP == {29'd0, into})
                    words[waddr[7:0]][bit_] <= wdata[bit_ - bit_ % WRITE_GROUP + (WRITE_GROUP - 1) / 2];

    always @(posedge rclk)
        if (rclke & re) begin
            word <= words[raddr[7:0]];
            part <= raddr[10:8] & (READ_GROUP[2:0] - 3'd1);
        end

    genvar place;
    generate
        for (place = 0; place < 16; place = place + 1) begin : port
            if (place % READ_GROUP == (READ_GROUP - 1) / 2) begin : used
                wire [READ_GROUP - 1:0] group = word[place - place % READ_GROUP +: READ_GROUP];
                if (READ_GROUP == 1) begin : whole
                    assign rdata[place] = group;
                end else begin : chosen
                    assign rdata[place] = group[part[READ_MODE - 1:0]];
                end
            end else begin : unused
                assign rdata[place] = 1'b0;
            end
        end
    endgenerate
endmodule

// One half of SB_MAC16's last stage: sum or difference of two words, and the register behind it.
//
//     upper  ──▶┌───┐      load value ──▶┌─────┐ p         q
//     lower  ──▶│ ± ├───────────────────▶│ mux ├──▶[ ]──┬──▶
//     carry  ──▶└───┘                    └─────┘        └ back to `upper`, outside
module ice40_mac16_sum (
    input clk, input ce, input hold, input reset, input load, input subtract,
    input [15:0] upper, input [15:0] lower, input carry, input [15:0] value,
    output [15:0] p, output reg [15:0] q, output co
);
    initial q = 16'd0;
    wire [16:0] sum = {1'b0, upper} + {1'b0, lower} + {16'd0, carry};
    wire [16:0] difference = {1'b0, upper} - {1'b0, lower} - {16'd0, carry};
    wire [15:0] result;
    assign {co, result} = subtract ? difference : sum;
    assign p = load ? value : result;
    always @(posedge clk, posedge reset)
        if (reset) q <= 16'd0;
        else if (ce & ~hold) q <= p;
endmodule

// A register of SB_MAC16 that its configuration may leave out.
module ice40_mac16_register #(parameter WIDTH = 16) (
    input used, input clk, input ce, input reset, input [WIDTH - 1:0] d, output [WIDTH - 1:0] o
);
    reg [WIDTH - 1:0] q;
    initial q = 0;
    always @(posedge clk, posedge reset)
        if (reset) q <= 0;
        else if (ce) q <= d;
    assign o = used ? q : d;
endmodule

// SB_MAC16: four products of 8 by 8 bits, their sum, and two adders with registers. Inputs in capitals are
// configuration, named as in the ICE Technology Library. The chain to the next block (ACCUMCI, SIGNEXTIN) is left out.
module ice40_mac16 (
    input NEG_TRIGGER, input A_REG, input B_REG, input C_REG, input D_REG,
    input TOP_8x8_MULT_REG, input BOT_8x8_MULT_REG, input PIPELINE_16x16_MULT_REG1, input PIPELINE_16x16_MULT_REG2,
    input [1:0] TOPOUTPUT_SELECT, input [1:0] TOPADDSUB_LOWERINPUT, input TOPADDSUB_UPPERINPUT,
    input [1:0] TOPADDSUB_CARRYSELECT,
    input [1:0] BOTOUTPUT_SELECT, input [1:0] BOTADDSUB_LOWERINPUT, input BOTADDSUB_UPPERINPUT,
    input [1:0] BOTADDSUB_CARRYSELECT,
    input MODE_8x8, input A_SIGNED, input B_SIGNED,
    input CLK, input CE, input [15:0] A, input [15:0] B, input [15:0] C, input [15:0] D,
    input AHOLD, input BHOLD, input CHOLD, input DHOLD, input IRSTTOP, input IRSTBOT, input ORSTTOP, input ORSTBOT,
    input OLOADTOP, input OLOADBOT, input ADDSUBTOP, input ADDSUBBOT, input OHOLDTOP, input OHOLDBOT, input CI,
    output [31:0] O, output CO
);
    wire clk = CLK ^ NEG_TRIGGER;

    wire [15:0] a, b, c, d;
    ice40_mac16_register reg_a (.used(A_REG), .clk(clk), .ce(CE & ~AHOLD), .reset(IRSTTOP), .d(A), .o(a));
    ice40_mac16_register reg_b (.used(B_REG), .clk(clk), .ce(CE & ~BHOLD), .reset(IRSTBOT), .d(B), .o(b));
    ice40_mac16_register reg_c (.used(C_REG), .clk(clk), .ce(CE & ~CHOLD), .reset(IRSTTOP), .d(C), .o(c));
    ice40_mac16_register reg_d (.used(D_REG), .clk(clk), .ce(CE & ~DHOLD), .reset(IRSTBOT), .d(D), .o(d));

    // A signed operand's upper byte is signed; its lower one only where it is an operand of its own.
    wire signed [17:0] a_high = {{10{A_SIGNED & a[15]}}, a[15:8]};
    wire signed [17:0] b_high = {{10{B_SIGNED & b[15]}}, b[15:8]};
    wire signed [17:0] a_low = {{10{A_SIGNED & MODE_8x8 & a[7]}}, a[7:0]};
    wire signed [17:0] b_low = {{10{B_SIGNED & MODE_8x8 & b[7]}}, b[7:0]};
    wire signed [17:0] high = a_high * b_high, low = a_low * b_low;
    wire signed [17:0] left = $signed({10'd0, a[7:0]}) * b_high, right = a_high * $signed({10'd0, b[7:0]});

    // The names of the data sheet's figure.
    wire [15:0] f, g, j, k;
    ice40_mac16_register reg_f (
        .used(TOP_8x8_MULT_REG), .clk(clk), .ce(CE), .reset(IRSTTOP), .d(high[15:0]), .o(f));
    ice40_mac16_register reg_g (
        .used(BOT_8x8_MULT_REG), .clk(clk), .ce(CE), .reset(IRSTBOT), .d(low[15:0]), .o(g));
    ice40_mac16_register reg_j (
        .used(PIPELINE_16x16_MULT_REG1), .clk(clk), .ce(CE & ~MODE_8x8), .reset(IRSTTOP), .d(left[15:0]), .o(j));
    ice40_mac16_register reg_k (
        .used(PIPELINE_16x16_MULT_REG1), .clk(clk), .ce(CE & ~MODE_8x8), .reset(IRSTBOT), .d(right[15:0]), .o(k));
    wire [31:0] product = {f, g} + {{8{B_SIGNED & j[15]}}, j, 8'd0} + {{8{A_SIGNED & k[15]}}, k, 8'd0};
    wire [31:0] h;
    ice40_mac16_register #(.WIDTH(32)) reg_h (
        .used(PIPELINE_16x16_MULT_REG2), .clk(clk), .ce(CE & ~MODE_8x8), .reset(IRSTBOT), .d(product), .o(h));

    wire [15:0] p, q, r, s;
    wire carry, carry_top;
    reg [15:0] x, z, top, bottom;
    reg carry_in_top, carry_in_bottom;
    always @(*) begin
        case (BOTADDSUB_LOWERINPUT)
            2'd0: z = b;
            2'd1: z = g;
            2'd2: z = h[15:0];
            2'd3: z = 16'd0;
        endcase
        case (TOPADDSUB_LOWERINPUT)
            2'd0: x = a;
            2'd1: x = f;
            2'd2: x = h[31:16];
            2'd3: x = {16{z[15]}};
        endcase
        case (BOTADDSUB_CARRYSELECT)
            2'd0: carry_in_bottom = 1'b0;
            2'd1: carry_in_bottom = 1'b1;
            2'd2: carry_in_bottom = 1'b0;
            2'd3: carry_in_bottom = CI;
        endcase
        case (TOPADDSUB_CARRYSELECT)
            2'd0: carry_in_top = 1'b0;
            2'd1: carry_in_top = 1'b1;
            2'd2: carry_in_top = carry;
            2'd3: carry_in_top = carry ^ ADDSUBBOT;
        endcase
        case (TOPOUTPUT_SELECT)
            2'd0: top = p;
            2'd1: top = q;
            2'd2: top = f;
            2'd3: top = h[31:16];
        endcase
        case (BOTOUTPUT_SELECT)
            2'd0: bottom = r;
            2'd1: bottom = s;
            2'd2: bottom = g;
            2'd3: bottom = h[15:0];
        endcase
    end
    ice40_mac16_sum sum_bottom (
        .clk(clk), .ce(CE), .hold(OHOLDBOT), .reset(ORSTBOT), .load(OLOADBOT), .subtract(ADDSUBBOT),
        .upper(BOTADDSUB_UPPERINPUT ? d : s), .lower(z), .carry(carry_in_bottom), .value(d), .p(r), .q(s), .co(carry));
    ice40_mac16_sum sum_top (
        .clk(clk), .ce(CE), .hold(OHOLDTOP), .reset(ORSTTOP), .load(OLOADTOP), .subtract(ADDSUBTOP),
        .upper(TOPADDSUB_UPPERINPUT ? c : q), .lower(x), .carry(carry_in_top), .value(c), .p(p), .q(q),
        .co(carry_top));
    assign O = {top, bottom};
    assign CO = carry_top ^ ADDSUBTOP;
endmodule
