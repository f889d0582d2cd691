// Units of bf16-fp32-ops by ChipLab, as they are compared.

// Its two halves, without the register that it has between them.
module chiplab_adder (input [31:0] a, input [31:0] b, output [31:0] o);
  wire special, sign;
  wire [31:0] word, rounded;
  wire [27:0] sum;
  wire signed [11:0] exponent;
  a50_add32_align aligned (a, b, special, word, sign, sum, exponent);
  a50_round_pack packed_ (sign, sum, exponent, rounded);
  assign o = special ? word : rounded;
endmodule

// Two roundings, as ours.
module chiplab_multiply_add (input [15:0] a, input [15:0] b, input [31:0] c, output [31:0] o);
  wire [31:0] product;
  a50_bf16_mul multiplier (a, b, product);
  chiplab_adder adder (product, c, o);
endmodule
