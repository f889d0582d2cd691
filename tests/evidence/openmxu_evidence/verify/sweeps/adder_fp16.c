/* fp16 + fp16: the sum is exact in binary64 and rounded once. */
static double widen(uint32_t bits, int flush) {
  double magnitude = bits >> 10 & 31 ? ldexp((bits & 0x3FF) | 0x400, (int)(bits >> 10 & 31) - 25)
                                     : flush ? 0 : ldexp(bits & 0x3FF, -24);
  if ((bits >> 10 & 31) == 31) magnitude = bits & 0x3FF ? NAN : INFINITY;
  return bits >> 15 ? -magnitude : magnitude;
}

static void expect(uint32_t a, uint32_t b, int flush, uint32_t *out) {
  static double table[2][1 << 16];
  static int known[2];
  for (uint32_t bits = 0; !known[flush] && bits < 1 << 16; bits++) table[flush][bits] = widen(bits, flush);
  known[flush] = 1;
  double x = table[flush][a];
  for (int lane = 0; lane < LANES; lane++) {
    double sum = x + table[flush][b + lane];
    out[lane] = sum != sum ? 0x7E00 : narrow(sum, 5, 10, flush);
  }
}
