/* bf16 x bf16 -> fp32: operands are the upper halves of binary32 numbers. */
static void expect(uint32_t a, uint32_t b, int flush, uint32_t *out) {
  float x = flushed(as_float(a << 16), flush);
  for (int lane = 0; lane < LANES; lane++)
    out[lane] = canonical(flushed(x * flushed(as_float((b + lane) << 16), flush), flush));
}
