/* A part of an fp32 number in bf16, from what this processor's subtraction leaves; a and b are the operand's halves.
   PART: 1 the operand, truncated; 2 what this leaves, rounded; 3 that, truncated; 4 what this leaves. Each has the
   operand's sign. The first keeps infinities, and of NaNs what conversion keeps. */
static inline float truncated(float x) { return as_float(as_bits(x) & 0xFFFF0000u); }

static void expect(uint32_t a, uint32_t b, int flush, uint32_t *out) {
  int special = (a & 0x7F80) == 0x7F80;
  for (int lane = 0; lane < LANES; lane++) {
    uint32_t bits = a << 16 | (b + lane);
    float x = flushed(as_float(bits), flush), rest = flushed(x - truncated(x), flush);
    float middle = truncated(rest), low = flushed(rest - middle, flush);
    float part = PART == 1 ? truncated(flushed(x, flush)) : PART == 2 ? rest : PART == 3 ? middle : low;
    uint32_t of_special = PART == 1 ? a | (bits & 0x007FFFFF ? 0x40 : 0) : 0x7FC0;
    out[lane] = special ? of_special : (narrow(part, 8, 7, flush) & 0x7FFF) | (a & 0x8000);
  }
}
