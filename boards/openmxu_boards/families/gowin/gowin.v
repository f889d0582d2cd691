// Cells of Gowin GW1N and GW2A as nextpnr packs them, as Gowin's user guides UG285, UG288 and UG289 and Project Apicula's
// notes describe them, without delays.
//
// Configuration comes as constant inputs, except where a memory's size or content depends on it.

// The bit `inputs` of a truth table.
module gowin_lut (input [15:0] truth, input [3:0] inputs, output o);
    assign o = truth[inputs];
endmodule

module gowin_mux (input select, input zero, input one, output o);
    assign o = select ? one : zero;
endmodule

// A LUT in a carry chain. It says whether the carry goes on; where it does not, the table's lowest four bits, a LUT of
// the first two inputs, are the new one.
//
//     inputs ──▶ LUT4 ──┬──▶ ⊕ ──▶ o
//                       │    ▲
//                       ▼    │
//     LUT2 ──────────▶ mux ◀─┴── ci
//                       └──▶ co
module gowin_alu (input [15:0] truth, input [3:0] inputs, input ci, output o, output co);
    wire goes_on = truth[inputs];
    assign o = goes_on ^ ci;
    assign co = goes_on ? ci : truth[{2'b00, inputs[1:0]}];
endmodule

// A flip-flop; it is set or reset by the clock, whether enabled or not.
module gowin_ff #(parameter SET = 1'b0) (input clk, input enable, input sr, input d, output reg q);
    initial q = SET;
    always @(posedge clk)
        if (sr) q <= SET;
        else if (enable) q <= d;
endmodule

// A flip-flop whose preset or clear waits for nothing.
module gowin_ff_async #(parameter SET = 1'b0) (input clk, input enable, input sr, input d, output reg q);
    initial q = SET;
    always @(posedge clk, posedge sr)
        if (sr) q <= SET;
        else if (enable) q <= d;
endmodule

// A LUT as a memory of 16 bits.
module gowin_lutram (
    input [15:0] content, input clk, input we, input [3:0] waddr, input d, input [3:0] raddr, output o
);
    reg [15:0] bits;
    initial bits = content;
    always @(posedge clk)
        if (we) bits[waddr] <= d;
    assign o = bits[raddr];
endmodule

// What an address means to a port of a block RAM, which sees four bytes of nine bits each: the first of these, and which
// of their bits the port has.
//
//     width     1     2     4     9     18           36
//     first     address[13:3]           [13:4],0     [13:5],00
//     bits     [2:0] [2:1]  [2]   all   by the lowest bits of the address, an enable for each byte
//
// Widths below nine use eight bits of a byte.
module gowin_bsram_place #(parameter WIDTH = 9) (
    input [13:0] address, output [10:0] first, output [5:0] offset, output [35:0] mask
);
    localparam [35:0] WORD = (36'd1 << WIDTH) - 36'd1;
    wire [3:0] lanes = WIDTH == 36 ? address[3:0] : {2'b00, address[1:0]};
    assign first = WIDTH == 36 ? {address[13:5], 2'b00} : WIDTH == 18 ? {address[13:4], 1'b0} : address[13:3];
    assign offset = WIDTH < 9 ? {3'd0, address[2:0] & ~(WIDTH[2:0] - 3'd1)} : 6'd0;
    assign mask = WIDTH > 9 ? {{9{lanes[3]}}, {9{lanes[2]}}, {9{lanes[1]}}, {9{lanes[0]}}} : WORD << offset;
endmodule

// A block RAM of 2048 bytes with two ports, of widths 1, 2, 4, 9, 18 and 36. While it writes, a port shows what it showed
// before (WRITE 0), the new word (1) or the old one (2).
module gowin_bsram #(
    parameter WIDTH_A = 9,
    parameter WIDTH_B = 9,
    parameter WRITE_A = 0,
    parameter WRITE_B = 0,
    parameter [18431:0] CONTENT = 0
) (
    input clka, input cea, input wea, input [13:0] ada, input [35:0] dia, output [35:0] doa,
    input clkb, input ceb, input web, input [13:0] adb, input [35:0] dib, output [35:0] dob
);
    localparam [35:0] SHOWN_A = (36'd1 << WIDTH_A) - 36'd1;
    localparam [35:0] SHOWN_B = (36'd1 << WIDTH_B) - 36'd1;
    reg [8:0] bytes [0:2047];
    reg [35:0] qa, qb;
    integer n;

    initial begin
        for (n = 0; n < 2048; n = n + 1) bytes[n] = CONTENT[9 * n +: 9];
        qa = 36'd0;
        qb = 36'd0;
    end

    wire [10:0] at_a, at_b;
    wire [5:0] offset_a, offset_b;
    wire [35:0] mask_a, mask_b;
    gowin_bsram_place #(.WIDTH(WIDTH_A)) place_a (.address(ada), .first(at_a), .offset(offset_a), .mask(mask_a));
    gowin_bsram_place #(.WIDTH(WIDTH_B)) place_b (.address(adb), .first(at_b), .offset(offset_b), .mask(mask_b));
    wire [35:0] old_a = {bytes[at_a + 11'd3], bytes[at_a + 11'd2], bytes[at_a + 11'd1], bytes[at_a]};
    wire [35:0] old_b = {bytes[at_b + 11'd3], bytes[at_b + 11'd2], bytes[at_b + 11'd1], bytes[at_b]};
    wire [35:0] new_a = (old_a & ~mask_a) | ((dia << offset_a) & mask_a);
    wire [35:0] new_b = (old_b & ~mask_b) | ((dib << offset_b) & mask_b);

    integer lane_a, lane_b;
    always @(posedge clka)
        if (cea) begin
            for (lane_a = 0; lane_a < 4; lane_a = lane_a + 1)
                if (wea && |mask_a[9 * lane_a +: 9]) bytes[at_a + lane_a[10:0]] <= new_a[9 * lane_a +: 9];
            if (!wea || WRITE_A == 2) qa <= (old_a >> offset_a) & SHOWN_A;
            else if (WRITE_A == 1) qa <= (new_a >> offset_a) & SHOWN_A;
        end
    always @(posedge clkb)
        if (ceb) begin
            for (lane_b = 0; lane_b < 4; lane_b = lane_b + 1)
                if (web && |mask_b[9 * lane_b +: 9]) bytes[at_b + lane_b[10:0]] <= new_b[9 * lane_b +: 9];
            if (!web || WRITE_B == 2) qb <= (old_b >> offset_b) & SHOWN_B;
            else if (WRITE_B == 1) qb <= (new_b >> offset_b) & SHOWN_B;
        end

    assign doa = qa;
    assign dob = qb;
endmodule
