/* fp32 -> bf16; a and b are the operand's halves. A NaN keeps its sign and upper fraction bits, and is quiet. */
static void expect(uint32_t a, uint32_t b, int flush, uint32_t *out) {
  int special = (a & 0x7F80) == 0x7F80;
  for (int lane = 0; lane < LANES; lane++) {
    uint32_t bits = a << 16 | (b + lane);
    out[lane] = special && (bits & 0x007FFFFF) ? a | 0x40 : narrow(as_float(bits), 8, 7, flush);
  }
}
