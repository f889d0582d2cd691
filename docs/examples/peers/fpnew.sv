// Units of FPnew (CVFPU) as they are compared: formats and operation fixed, rounding to nearest even, no registers.

module fpnew_multiply_add_mixed (
    input logic [15:0] a,
    input logic [15:0] b,
    input logic [31:0] c,
    output logic [31:0] o
);
  fpnew_mixed #(.OPERATION(fpnew_pkg::FMADD)) unit (.*);
endmodule

module fpnew_multiplier (
    input logic [15:0] a,
    input logic [15:0] b,
    output logic [31:0] o
);
  fpnew_mixed #(.OPERATION(fpnew_pkg::MUL)) unit (.c('0), .*);
endmodule

// bf16 operands, called FP16ALT there, fp32 addend and result.
module fpnew_mixed #(
    parameter fpnew_pkg::operation_e OPERATION = fpnew_pkg::FMADD
) (
    input logic [15:0] a,
    input logic [15:0] b,
    input logic [31:0] c,
    output logic [31:0] o
);
  fpnew_fma_multi #(
      .FpFmtConfig(5'b10001),
      .NumPipeRegs(0)
  ) fused (
      .clk_i(1'b0),
      .rst_ni(1'b1),
      .operands_i({c, 16'hffff, b, 16'hffff, a}),
      .is_boxed_i('1),
      .rnd_mode_i(fpnew_pkg::RNE),
      .op_i(OPERATION),
      .op_mod_i(1'b0),
      .src_fmt_i(fpnew_pkg::FP16ALT),
      .src2_fmt_i(fpnew_pkg::FP32),
      .dst_fmt_i(fpnew_pkg::FP32),
      .tag_i(1'b0),
      .mask_i(1'b1),
      .aux_i(1'b0),
      .in_valid_i(1'b1),
      .in_ready_o(),
      .flush_i(1'b0),
      .result_o(o),
      .status_o(),
      .extension_bit_o(),
      .tag_o(),
      .mask_o(),
      .aux_o(),
      .out_valid_o(),
      .out_ready_i(1'b1),
      .busy_o(),
      .reg_ena_i(1'b0)
  );
endmodule

module fpnew_adder (
    input logic [31:0] a,
    input logic [31:0] b,
    output logic [31:0] o
);
  fpnew_fma #(
      .FpFormat(fpnew_pkg::FP32),
      .NumPipeRegs(0)
  ) fused (
      .clk_i(1'b0),
      .rst_ni(1'b1),
      .operands_i({b, a, 32'b0}),  // FPnew adds its second and third operand
      .is_boxed_i('1),
      .rnd_mode_i(fpnew_pkg::RNE),
      .op_i(fpnew_pkg::ADD),
      .op_mod_i(1'b0),
      .tag_i(1'b0),
      .mask_i(1'b1),
      .aux_i(1'b0),
      .in_valid_i(1'b1),
      .in_ready_o(),
      .flush_i(1'b0),
      .result_o(o),
      .status_o(),
      .extension_bit_o(),
      .tag_o(),
      .mask_o(),
      .aux_o(),
      .out_valid_o(),
      .out_ready_i(1'b1),
      .busy_o(),
      .reg_ena_i(1'b0)
  );
endmodule
