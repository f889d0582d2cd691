// Cells of Lattice ECP5 as nextpnr packs them, as the ECP5 data sheet and technical notes describe them, without delays.
//
// Configuration comes as constant inputs, except where a memory's size or content depends on it.

// The bit `inputs` of a truth table.
module ecp5_lut (input [15:0] truth, input [3:0] inputs, output o);
    assign o = truth[inputs];
endmodule

module ecp5_mux (input select, input zero, input one, output o);
    assign o = select ? one : zero;
endmodule

// Half of CCU2C: the LUT's output is the sum without the carry, and says whether that goes on; where it does not, the
// LUT of the first two inputs is the new carry. `inject` cuts both off.
module ecp5_carry (input [15:0] truth, input [3:0] inputs, input inject, input ci, output o, output co);
    wire propagate = truth[inputs];
    wire generate_ = truth[{2'b00, inputs[1:0]}] & ~inject;
    assign o = propagate ^ (ci & ~inject);
    assign co = propagate ? ci : generate_;
endmodule

// A flip-flop; it is set or reset by the clock, whether enabled or not. `global_reset` is that of the whole device.
module ecp5_ff #(parameter SET = 1'b0) (input clk, input enable, input sr, input global_reset, input d, output reg q);
    initial q = SET;
    always @(posedge clk)
        if (sr | global_reset) q <= SET;
        else if (enable) q <= d;
endmodule

// A flip-flop whose set or reset waits for nothing.
module ecp5_ff_async #(parameter SET = 1'b0) (
    input clk, input enable, input sr, input global_reset, input d, output reg q
);
    initial q = SET;
    always @(posedge clk, posedge sr)
        if (sr) q <= SET;
        else if (global_reset) q <= SET;
        else if (enable) q <= d;
endmodule

// LUT as a memory of 16 bits.
module ecp5_lutram (input [15:0] content, input clk, input we, input [3:0] waddr, input d, input [3:0] raddr, output o);
    reg [15:0] bits;
    initial bits = content;
    always @(posedge clk)
        if (we) bits[waddr] <= d;
    assign o = bits[raddr];
endmodule

// A port of DP16KD: which bytes and bits of the memory an address means.
//
//     width     1     2     4     9    18        36
//     byte      address[13:3]          [13:4],n  [13:5],n
//     bit      [2:0] [2:1]  [2]
//
// Bytes have nine bits, of which widths below nine use eight. Widths of 18 and 36 have an enable per byte, in the lowest
// bits of the address. A port of 36 bits has its upper half at the other port's pins.
module ecp5_dp16kd #(
    parameter WIDTH_A = 18,
    parameter WIDTH_B = 18,
    parameter OLD_A = 0,
    parameter OLD_B = 0,
    parameter THROUGH_A = 0,
    parameter THROUGH_B = 0,
    parameter [18431:0] CONTENT = 0
) (
    input clka, input cea, input wea, input [13:0] ada, input [17:0] dia, output [17:0] doa,
    input clkb, input ceb, input web, input [13:0] adb, input [17:0] dib, output [17:0] dob
);
    reg [8:0] bytes [0:2047];
    reg [35:0] qa, qb;
    integer n;

    initial begin
        for (n = 0; n < 2048; n = n + 1) bytes[n] = CONTENT[9 * n +: 9];
        qa = 36'd0;
        qb = 36'd0;
    end

    // A word at a port: at an address, the lowest byte in the lowest bits.
    function [35:0] shown (input integer width, input [13:0] address, input [35:0] four);
        case (width)
            1: shown = {35'd0, four[{3'd0, address[2:0]}]};
            2: shown = {34'd0, four[{3'd0, address[2:1], 1'b0} +: 2]};
            4: shown = {32'd0, four[{3'd0, address[2], 2'b00} +: 4]};
            9: shown = {27'd0, four[8:0]};
            18: shown = {18'd0, four[17:0]};
            default: shown = four;
        endcase
    endfunction

    // What four bytes become when a word is written there.
    function [35:0] written (input integer width, input [13:0] address, input [35:0] four, input [35:0] word);
        integer lane;
        begin
            written = four;
            case (width)
                1: written[{3'd0, address[2:0]}] = word[0];
                2: written[{3'd0, address[2:1], 1'b0} +: 2] = word[1:0];
                4: written[{3'd0, address[2], 2'b00} +: 4] = word[3:0];
                9: written[8:0] = word[8:0];
                default:
                    for (lane = 0; lane < width / 9; lane = lane + 1)
                        if (address[lane[3:0]]) written[9 * lane +: 9] = word[9 * lane +: 9];
            endcase
        end
    endfunction

    function [10:0] first (input integer width, input [13:0] address);
        first = width == 36 ? {address[13:5], 2'b00} : width == 18 ? {address[13:4], 1'b0} : address[13:3];
    endfunction

    wire [10:0] at_a = first(WIDTH_A, ada), at_b = first(WIDTH_B, adb);
    wire [35:0] old_a = {bytes[at_a + 11'd3], bytes[at_a + 11'd2], bytes[at_a + 11'd1], bytes[at_a]};
    wire [35:0] old_b = {bytes[at_b + 11'd3], bytes[at_b + 11'd2], bytes[at_b + 11'd1], bytes[at_b]};
    wire [35:0] new_a = written(WIDTH_A, ada, old_a, {dib, dia});
    wire [35:0] new_b = written(WIDTH_B, adb, old_b, WIDTH_B == 36 ? {dib, dia} : {18'd0, dib});

    integer byte_a, byte_b;
    always @(posedge clka)
        if (cea) begin
            if (wea)
                for (byte_a = 0; byte_a < (WIDTH_A < 18 ? 1 : WIDTH_A / 9); byte_a = byte_a + 1)
                    bytes[at_a + byte_a[10:0]] <= new_a[9 * byte_a +: 9];
            if (!wea || OLD_A == 1) qa <= shown(WIDTH_A, ada, old_a);
            else if (THROUGH_A == 1) qa <= shown(WIDTH_A, ada, new_a);
        end
    always @(posedge clkb)
        if (ceb) begin
            if (web)
                for (byte_b = 0; byte_b < (WIDTH_B < 18 ? 1 : WIDTH_B / 9); byte_b = byte_b + 1)
                    bytes[at_b + byte_b[10:0]] <= new_b[9 * byte_b +: 9];
            if (!web || OLD_B == 1) qb <= shown(WIDTH_B, adb, old_b);
            else if (THROUGH_B == 1) qb <= shown(WIDTH_B, adb, new_b);
        end

    assign doa = WIDTH_B == 36 ? qb[17:0] : qa[17:0];
    assign dob = WIDTH_B == 36 ? qb[35:18] : WIDTH_A == 36 ? qa[35:18] : qb[17:0];
endmodule

// MULT18X18D without its registers: each operand is signed or not, the product has twice the width.
module ecp5_mult18 (input [17:0] a, input [17:0] b, input signed_a, input signed_b, output [35:0] p);
    wire signed [35:0] left = {{18{signed_a & a[17]}}, a};
    wire signed [35:0] right = {{18{signed_b & b[17]}}, b};
    assign p = left * right;
endmodule
