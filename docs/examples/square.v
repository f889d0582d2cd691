// The square of a matrix of 2x2 fp32 numbers, y = x * x, by the unit that
//   openmxu verilog mxu --rows 2 --columns 2 --depth 4 --status -o mxu.v
// writes. Element (0,0) is in bits 31:0, then (0,1), (1,0) and (1,1).
// Accepts one matrix at a time. The results are bf16 products summed in fp32.

module square (
  input  wire         clk,
  input  wire         rst,    // synchronous, active high
  input  wire         start,  // take x; looked at while busy is low
  input  wire [127:0] x,
  output reg          busy,
  output reg          done,   // y is complete; high until the next start
  output reg  [127:0] y,
  output wire [2:0]   error   // the first mistake on the unit's streams, 0 for none
);

  reg [127:0] held;
  reg [1:0] weights_sent;
  reg [1:0] activations_sent;

  wire [63:0] row_0 = held[63:0];
  wire [63:0] row_1 = held[127:64];

  // Weights are loaded from the last row up, activations are fed from the first row down. Both streams run side by
  // side: the unit itself lets a tile wait until its weights are complete.
  wire weights_valid = busy & ~weights_sent[1];
  wire weights_ready;
  wire weights_last = weights_sent[0];
  wire [63:0] weights_data = weights_sent[0] ? row_0 : row_1;

  wire activations_valid = busy & ~activations_sent[1];
  wire activations_ready;
  wire activations_first = ~activations_sent[0];
  wire activations_last = activations_sent[0];
  wire [63:0] activations_data = activations_sent[0] ? row_1 : row_0;

  wire results_valid;
  wire [64:0] results_payload;

  mxu unit (
    .clk(clk),
    .rst(rst),
    .weights__valid(weights_valid),
    .weights__ready(weights_ready),
    .weights__payload({weights_last, weights_data}),
    .activations__valid(activations_valid),
    .activations__ready(activations_ready),
    // From the top: take new weights; emit the sums; no NaN is cleared; they are not added to others.
    .activations__payload({1'b0, 1'b1, 1'b0, 1'b0, activations_last, activations_first, activations_data}),
    .results__valid(results_valid),
    .results__ready(busy),
    .results__payload(results_payload),
    .status__clear(1'b0),
    .status__error(error),
    /* verilator lint_off PINCONNECTEMPTY */  // the counters are left open
    .status__cycles(),
    .status__busy(),
    .status__input_stalls(),
    .status__output_stalls()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  always @(posedge clk) begin
    if (start & ~busy) begin
      busy <= 1'b1;
      done <= 1'b0;
      held <= x;
      weights_sent <= 2'd0;
      activations_sent <= 2'd0;
    end
    if (weights_valid & weights_ready)
      weights_sent <= weights_sent + 2'd1;
    if (activations_valid & activations_ready)
      activations_sent <= activations_sent + 2'd1;
    if (results_valid & busy) begin
      // The first row moves down when the second comes.
      y <= {results_payload[63:0], y[127:64]};
      if (results_payload[64]) begin
        busy <= 1'b0;
        done <= 1'b1;
      end
    end
    if (rst) begin
      busy <= 1'b0;
      done <= 1'b0;
    end
  end

endmodule
