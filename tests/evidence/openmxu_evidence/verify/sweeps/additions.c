/* Biased additions. Before this: lanes.c, gates() with the inputs a, b and a latency, host.c. */

/* Each of 512 * blocks pairs of a generator, and relatives of it: both exponents and signs moved together, which
   keeps them as near or as far as they are, and of every second one a bit of b flipped. Returns the number of
   wrong sums, the first one in wrong[4]. */
uint64_t additions(const uint32_t *a, const uint32_t *b, size_t blocks, unsigned relatives, uint32_t seed, int flush,
                   uint32_t *wrong) {
  static word state[REGISTERS + 1];
  static uint32_t operands[LATENCY + 1][2][LANES];
  word i[64], o[32];
  uint32_t out[LANES], random = seed | 1;
  uint64_t count = 0, steps = (uint64_t)blocks * relatives;
  unsigned before = enter(flush);
  for (uint64_t step = 0; step < steps + LATENCY; step++) {
    uint32_t(*now)[LANES] = operands[step % (LATENCY + 1)], (*then)[LANES] = operands[(step + 1) % (LATENCY + 1)];
    size_t block = step / relatives % blocks;
    int itself = step % relatives == 0;
    random = random * 1664525 + 1013904223;
    for (uint32_t lane = 0; lane < LANES; lane++) {
      uint32_t draw = itself ? 0 : (random ^ lane) * 2654435769u;
      uint32_t move = draw >> 23 << 23, flip = (draw >> 5 & 1) << (draw >> 6 & 31);
      now[0][lane] = a[block * LANES + lane] + move;
      now[1][lane] = (b[block * LANES + lane] + move) ^ flip;
    }
    memcpy(i, now[0], sizeof *now), transpose(i);
    memcpy(i + 32, now[1], sizeof *now), transpose(i + 32);
    gates(i, o, state);
    transpose(o);
    if (step < LATENCY) continue;
    memcpy(out, o, sizeof out);
    uint32_t expected[LANES], different = 0;
    for (int lane = 0; lane < LANES; lane++) {
      expected[lane] = canonical(flushed(flushed(as_float(then[0][lane]), flush) + flushed(as_float(then[1][lane]), flush), flush));
      different |= out[lane] ^ expected[lane];
    }
    if (!different) continue;
    for (int lane = 0; lane < LANES; lane++)
      if (out[lane] != expected[lane] && !count++)
        wrong[0] = then[0][lane], wrong[1] = then[1][lane], wrong[2] = out[lane], wrong[3] = expected[lane];
  }
  leave(before);
  return count;
}
