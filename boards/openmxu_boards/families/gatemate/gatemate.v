// Cells of Cologne Chip's GateMate as nextpnr packs and routes them, as its data sheet DS1001, Yosys's models of the
// primitives and Project Peppercorn describe them, without delays.
//
// Configuration comes as constant inputs, except where a memory's size or content depends on it.

// Half of a CPE, or what compares two halves: the bit `inputs` of the table that its small tables amount to.
module gatemate_lut (input [63:0] truth, input [5:0] inputs, output o);
    assign o = truth[inputs];
endmodule

// A multiplexer; `used` says which inputs there are, and `inverted` which of these count inverted.
module gatemate_mux4 (
    input [3:0] low, input [3:0] high, input [3:0] select, input [3:0] used, input [3:0] inverted, input [3:0] inputs,
    output o
);
    wire [3:0] values = (inputs & used) ^ inverted;
    assign o = values[{high[select[3:2]], low[select[1:0]]}];
endmodule

// A full adder of two tables with two inputs each.
module gatemate_adder (
    input [3:0] left, input [3:0] right, input [3:0] inputs, input ci, output o, output co
);
    assign {co, o} = {1'b0, left[inputs[1:0]]} + {1'b0, right[inputs[3:2]]} + {1'b0, ci};
endmodule

// One place of a multiplier, two bits by two bits. The neighbours give a sum, and each of the bits of b has its carry.
//
//        sum     a1 a0 · b1   carry 1          · a1 a0 a-1: three bits of one operand, of which each bit of the
//          └──▶  +  ◀─────────┘                  other one takes two
//                │       a0 a-1 · b0   carry 0
//                └──▶  +  ◀────────────┘
//                      └──▶ to the neighbours
//
// `inverted`: the bits of a arrive inverted.
module gatemate_mult (
    input [2:0] a, input inverted, input [1:0] b, input [1:0] sum, input [1:0] carry,
    output [1:0] o, output [1:0] carry_out
);
    wire [2:0] bits = a ^ {3{inverted}};
    wire [1:0] between;
    assign {carry_out[1], between} = {1'b0, sum} + {1'b0, bits[2:1] & {2{b[1]}}} + {2'd0, carry[1]};
    assign {carry_out[0], o} = {1'b0, between} + {1'b0, bits[1:0] & {2{b[0]}}} + {2'd0, carry[0]};
endmodule

// A flip-flop whose set and reset wait for nothing.
module gatemate_ff #(parameter INIT = 1'b0) (
    input clk, input enable, input set, input reset, input d, output reg q
);
    initial q = INIT;
    always @(posedge clk, posedge reset, posedge set)
        if (reset) q <= 1'b0;
        else if (set) q <= 1'b1;
        else if (enable) q <= d;
endmodule

// What an address means to a port of a block RAM: a row, the first bit in it, and which bits of it the port writes.
//
//     width                  1      2      5     10     20    40    80
//     row                    address[15:7]
//     word in a whole row    [6:1]  [6:2]  [6:3]  [6:4]  [6:5]  [6]   0
//     word in half of one    [5:1]  [5:2]  [5:3]  [5:4]  [5]    0
//
// Rows consist of groups of five bits; widths of one and two use four of each.
module gatemate_ram_place #(parameter WIDTH = 5, parameter HALF = 1) (
    input [15:0] address, input [79:0] mask, output [8:0] row, output [6:0] first, output [79:0] written
);
    localparam [79:0] WORD = (80'd1 << WIDTH) - 80'd1;
    localparam SHIFT = WIDTH == 80 ? 7 : WIDTH == 40 ? 6 : WIDTH == 20 ? 5 : WIDTH == 10 ? 4 : WIDTH == 5 ? 3 : WIDTH;
    wire [6:0] word = (HALF == 1 ? {1'b0, address[5:0]} : address[6:0]) >> SHIFT;
    assign row = address[15:7];
    assign first = WIDTH == 1 ? word + word / 7'd4 : WIDTH == 2 ? 7'd2 * word + word / 7'd2 : WIDTH[6:0] * word;
    assign written = (mask & WORD) << first;
endmodule

// A block RAM of 512 rows of 80 bits, or half of one, with two ports. While it writes, a port shows what it showed before
// or, with THROUGH, the new word.
module gatemate_ram #(
    parameter WIDTH_A = 5,
    parameter WIDTH_B = 5,
    parameter THROUGH_A = 0,
    parameter THROUGH_B = 0,
    parameter HALF = 1,
    parameter [40959:0] CONTENT = 0
) (
    input clka, input ena, input wea, input [15:0] addra, input [79:0] dia, input [79:0] maska, output [79:0] doa,
    input clkb, input enb, input web, input [15:0] addrb, input [79:0] dib, input [79:0] maskb, output [79:0] dob
);
    localparam [79:0] SHOWN_A = (80'd1 << WIDTH_A) - 80'd1;
    localparam [79:0] SHOWN_B = (80'd1 << WIDTH_B) - 80'd1;
    reg [79:0] rows [0:511];
    reg [79:0] qa, qb;
    integer n;

    initial begin
        for (n = 0; n < 512; n = n + 1) rows[n] = CONTENT[80 * n +: 80];
        qa = 80'd0;
        qb = 80'd0;
    end

    wire [8:0] row_a, row_b;
    wire [6:0] first_a, first_b;
    wire [79:0] written_a, written_b;
    gatemate_ram_place #(.WIDTH(WIDTH_A), .HALF(HALF)) place_a (
        .address(addra), .mask(maska), .row(row_a), .first(first_a), .written(written_a));
    gatemate_ram_place #(.WIDTH(WIDTH_B), .HALF(HALF)) place_b (
        .address(addrb), .mask(maskb), .row(row_b), .first(first_b), .written(written_b));
    wire [79:0] new_a = (rows[row_a] & ~written_a) | ((dia << first_a) & written_a);
    wire [79:0] new_b = (rows[row_b] & ~written_b) | ((dib << first_b) & written_b);

    // Bit by bit: both ports may write different parts of a row.
    integer bit_a, bit_b;
    always @(posedge clka)
        if (ena) begin
            for (bit_a = 0; bit_a < 80; bit_a = bit_a + 1)
                if (wea && written_a[bit_a]) rows[row_a][bit_a] <= new_a[bit_a];
            if (!wea) qa <= (rows[row_a] >> first_a) & SHOWN_A;
            else if (THROUGH_A == 1) qa <= (new_a >> first_a) & SHOWN_A;
        end
    always @(posedge clkb)
        if (enb) begin
            for (bit_b = 0; bit_b < 80; bit_b = bit_b + 1)
                if (web && written_b[bit_b]) rows[row_b][bit_b] <= new_b[bit_b];
            if (!web) qb <= (rows[row_b] >> first_b) & SHOWN_B;
            else if (THROUGH_B == 1) qb <= (new_b >> first_b) & SHOWN_B;
        end

    assign doa = qa;
    assign dob = qb;
endmodule
