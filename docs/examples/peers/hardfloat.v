// Units of Berkeley HardFloat, Release 1, as they are compared: rounding to nearest even, flags unused.

`include "HardFloat_consts.vi"

// Between recoded numbers: 17 bits for bf16, 33 for fp32.

module hardfloat_multiplier_recoded (input [16:0] a, input [16:0] b, output [32:0] o);
  wire invalid, nan, infinite, zero, sign;
  wire signed [9:0] exponent;
  wire [15:0] significand;
  wire [4:0] flags;
  mulRecFNToFullRaw #(8, 8) exact (
    `flControl_tininessAfterRounding, a, b, invalid, nan, infinite, zero, sign, exponent, significand);
  roundAnyRawFNToRecFN #(8, 15, 8, 24, 0) rounded (
    `flControl_tininessAfterRounding, invalid, 1'b0, nan, infinite, zero, sign, exponent, significand,
    `round_near_even, o, flags);
endmodule

module hardfloat_adder_recoded (input [32:0] a, input [32:0] b, output [32:0] o);
  wire [4:0] flags;
  addRecFN #(8, 24) sum (`flControl_tininessAfterRounding, 1'b0, a, b, `round_near_even, o, flags);
endmodule

// Two roundings, as ours.
module hardfloat_multiply_add_recoded (input [16:0] a, input [16:0] b, input [32:0] c, output [32:0] o);
  wire [32:0] product;
  hardfloat_multiplier_recoded multiplier (a, b, product);
  hardfloat_adder_recoded adder (product, c, o);
endmodule

// One rounding; bf16 operands are those of fp32 with zeros behind.
module hardfloat_fused_recoded (input [16:0] a, input [16:0] b, input [32:0] c, output [32:0] o);
  wire [4:0] flags;
  mulAddRecFN #(8, 24) fused (
    `flControl_tininessAfterRounding, 2'b00, {a, 16'b0}, {b, 16'b0}, c, `round_near_even, o, flags);
endmodule

// The same between converters, with ports of 16 and 32 bits.

module hardfloat_multiplier (input [15:0] a, input [15:0] b, output [31:0] o);
  wire [16:0] x, y;
  wire [32:0] z;
  fNToRecFN #(8, 8) from_a (a, x);
  fNToRecFN #(8, 8) from_b (b, y);
  hardfloat_multiplier_recoded unit (x, y, z);
  recFNToFN #(8, 24) to_o (z, o);
endmodule

module hardfloat_adder (input [31:0] a, input [31:0] b, output [31:0] o);
  wire [32:0] x, y, z;
  fNToRecFN #(8, 24) from_a (a, x);
  fNToRecFN #(8, 24) from_b (b, y);
  hardfloat_adder_recoded unit (x, y, z);
  recFNToFN #(8, 24) to_o (z, o);
endmodule

module hardfloat_multiply_add (input [15:0] a, input [15:0] b, input [31:0] c, output [31:0] o);
  wire [16:0] x, y;
  wire [32:0] s, z;
  fNToRecFN #(8, 8) from_a (a, x);
  fNToRecFN #(8, 8) from_b (b, y);
  fNToRecFN #(8, 24) from_c (c, s);
  hardfloat_multiply_add_recoded unit (x, y, s, z);
  recFNToFN #(8, 24) to_o (z, o);
endmodule

module hardfloat_fused (input [15:0] a, input [15:0] b, input [31:0] c, output [31:0] o);
  wire [16:0] x, y;
  wire [32:0] s, z;
  fNToRecFN #(8, 8) from_a (a, x);
  fNToRecFN #(8, 8) from_b (b, y);
  fNToRecFN #(8, 24) from_c (c, s);
  hardfloat_fused_recoded unit (x, y, s, z);
  recFNToFN #(8, 24) to_o (z, o);
endmodule

// In the registers of our processing element: activation, shadow and active weight, two marks, partial sum. Operands have
// O bits and sums S: 16 and 32, or 17 and 33 between recoded numbers.

module hardfloat_registers #(parameter O = 16, parameter S = 32) (
  input clk, input rst, input [O-1:0] i_activation, output reg [O-1:0] o_activation, input i_swap, output reg o_swap,
  input i_load, output reg o_load, input [O-1:0] i_weight, output reg [O-1:0] o_weight, output reg [O-1:0] active,
  input [S-1:0] sum, output reg [S-1:0] o_psum);
  always @(posedge clk) begin
    o_activation <= i_activation;
    o_swap <= i_swap & ~rst;
    o_load <= i_load & ~rst;
    if (i_load) o_weight <= i_weight;
    if (i_swap) active <= o_weight;
    o_psum <= sum;
  end
endmodule

module hardfloat_pe (
  input clk, input rst, input [15:0] i_activation, output [15:0] o_activation, input i_swap, output o_swap, input i_load,
  output o_load, input [15:0] i_weight, output [15:0] o_weight, input [31:0] i_psum, output [31:0] o_psum);
  wire [15:0] active;
  wire [31:0] sum;
  hardfloat_multiply_add arithmetic (o_activation, active, i_psum, sum);
  hardfloat_registers registers (
    clk, rst, i_activation, o_activation, i_swap, o_swap, i_load, o_load, i_weight, o_weight, active, sum, o_psum);
endmodule

module hardfloat_pe_recoded (
  input clk, input rst, input [16:0] i_activation, output [16:0] o_activation, input i_swap, output o_swap, input i_load,
  output o_load, input [16:0] i_weight, output [16:0] o_weight, input [32:0] i_psum, output [32:0] o_psum);
  wire [16:0] active;
  wire [32:0] sum;
  hardfloat_multiply_add_recoded arithmetic (o_activation, active, i_psum, sum);
  hardfloat_registers #(17, 33) registers (
    clk, rst, i_activation, o_activation, i_swap, o_swap, i_load, o_load, i_weight, o_weight, active, sum, o_psum);
endmodule
