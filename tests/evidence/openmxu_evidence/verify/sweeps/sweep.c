/* All 2^32 operands: an upper half a, fixed, and a lower half b, 512 values at a time. Before this: lanes.c,
   gates() of 32 inputs, b's first, host.c, and expect(a, b, flush, out) for b and the 511 behind it. */

/* Checks a in [from, to) with all b. Returns the number of wrong results, the first one in wrong[4]. */
uint64_t sweep(uint32_t from, uint32_t to, int flush, uint32_t *wrong) {
  static word state[REGISTERS + 1];
  word i[32] = {{0}}, o[32];
  uint32_t out[LANES], expected[LANES];
  uint64_t count = 0;
  for (int bit = 0; bit < 9; bit++)
    for (int lane = 0; lane < LANES; lane++)
      i[bit][lane % ELEMENTS] |= (uint32_t)(lane >> bit & 1) << lane / ELEMENTS;
  unsigned before = enter(flush);
  for (uint32_t a = from; a < to; a++) {
    for (int bit = 0; bit < 16; bit++) i[16 + bit] = everywhere(a >> bit & 1);
    for (uint32_t b = 0; b < 1 << 16; b += LANES) {
      for (int bit = 9; bit < 16; bit++) i[bit] = everywhere(b >> bit & 1);
      gates(i, o, state);
      transpose(o);
      memcpy(out, o, sizeof out);
      expect(a, b, flush, expected);
      uint32_t different = 0;
      for (int lane = 0; lane < LANES; lane++) different |= out[lane] ^ expected[lane];
      if (!different) continue;
      for (int lane = 0; lane < LANES; lane++)
        if (out[lane] != expected[lane] && !count++)
          wrong[0] = a, wrong[1] = b + lane, wrong[2] = out[lane], wrong[3] = expected[lane];
    }
  }
  leave(before);
  return count;
}
