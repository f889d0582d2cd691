/* Packing of operands for the kernel; compiled behind kernel.c. */

/* As `converted` for bf16 if tiny numbers become zero, in half of the time: the sign is no case, as no carry reaches it
 * but a NaN's, and the carry of what overflows makes it infinite. */
static inline words converted_to_bf16(words bits) {
  words magnitude = bits & MAGNITUDE, number = (bits + (0x7FFF + (bits >> 16 & 1))) & ~0xFFFFu;
#if defined __AVX512F__
  __m512i sign = (__m512i)(bits ^ magnitude), nan = _mm512_set1_epi32(CANONICAL_NAN);
  __mmask16 is_tiny = _mm512_testn_epi32_mask((__m512i)bits, _mm512_set1_epi32(INFINITE));
  __mmask16 is_nan = _mm512_cmpgt_epu32_mask((__m512i)magnitude, _mm512_set1_epi32(INFINITE));
  return (words)_mm512_mask_mov_epi32(_mm512_mask_mov_epi32((__m512i)number, is_tiny, sign), is_nan, nan);
#else
  number = chosen(magnitude < (1 << FRACTION_WIDTH), bits ^ magnitude, number);
  return chosen(magnitude > INFINITE, (words){ 0 } + CANONICAL_NAN, number);
#endif
}

static inline int is_bf16(const struct format *format) {
  return format->fraction_width == 7 && format->min_normal == 1 << FRACTION_WIDTH && format->overflow == INFINITE;
}

/* The least of all magnitudes less 1, so that zeros are large, and the most of all magnitudes. */
struct limits {
  words least, most;
};

static inline void include(struct limits *limits, words magnitude) {
#if defined __AVX512F__
  limits->least = (words)_mm512_min_epu32((__m512i)limits->least, (__m512i)(magnitude - 1));
  limits->most = (words)_mm512_max_epu32((__m512i)limits->most, (__m512i)magnitude);
#else
  words low = magnitude - 1;
  limits->least = chosen(low < limits->least, low, limits->least);
  limits->most = chosen(magnitude > limits->most, magnitude, limits->most);
#endif
}

/* The extent of a vector's multiple of packed operands, of which these are the limits. */
static struct extent extent_of(const struct limits *limits, const float *values, int64_t count) {
  uint32_t low = INFINITE - 1, high = 0;
  for (int lane = 0; lane < LANES; lane++) {
    if (limits->least[lane] < low) low = limits->least[lane];
    if (limits->most[lane] > high) high = limits->most[lane];
  }
  if (high >= INFINITE) {  /* seldom: those are to be left out */
    words most = { 0 };
    for (int64_t i = 0; i < count; i += LANES) {
      words magnitude = load(values + i, count - i) & MAGNITUDE;
      most = chosen((words)(magnitude > most) & (words)(magnitude < INFINITE), magnitude, most);
    }
    high = 0;
    for (int lane = 0; lane < LANES; lane++) if (most[lane] > high) high = most[lane];
  }
  return (struct extent){ (low + 1) >> FRACTION_WIDTH, high >> FRACTION_WIDTH };
}

/* Up to LANES lines of a square of numbers as columns that are side by side: the first n numbers of each. */
static inline void store_turned(float *to, int64_t step, const uint32_t *lines, int64_t count, int64_t n) {
#if defined __AVX512F__
  __m512 a[LANES], b[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) a[i] = _mm512_load_ps(lines + (i < count ? i : 0) * LANES);
  /* Squares of 2x2 numbers, of 2x2 pairs, then of 2x2 quarters, twice. */
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    b[i] = i & 1 ? _mm512_unpackhi_ps(a[i - 1], a[i]) : _mm512_unpacklo_ps(a[i], a[i + 1]);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    __m512d one = (__m512d)b[(i & ~3) + (i >> 1 & 1)], other = (__m512d)b[(i & ~3) + (i >> 1 & 1) + 2];
    a[i] = (__m512)(i & 1 ? _mm512_unpackhi_pd(one, other) : _mm512_unpacklo_pd(one, other));
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    __m512 one = a[i & ~4], other = a[i | 4];
    b[i] = i & 4 ? _mm512_shuffle_f32x4(one, other, 0xDD) : _mm512_shuffle_f32x4(one, other, 0x88);
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    __m512 one = b[i & ~8], other = b[i | 8];
    a[i] = i & 8 ? _mm512_shuffle_f32x4(one, other, 0xDD) : _mm512_shuffle_f32x4(one, other, 0x88);
  }
  __mmask16 filled = (1u << count) - 1;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (i < n) _mm512_mask_storeu_ps(to + i * step, filled, a[i]);
#else
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < n; j++) memcpy(to + j * step + i, lines + i * LANES + j, sizeof *to);
#endif
}

/* A part of some numbers as operands; plain: in bf16, tiny ones as zeros. */
static inline words operands(words bits, enum part part, const struct format *format, int flush, int plain,
                             struct limits *limits) {
  bits = plain ? converted_to_bf16(bits) : converted(part_of(bits, part), format, flush);
  include(limits, bits & MAGNITUDE);
  return bits;
}

/* One group's part of one block: `count` rows or columns, `step` words apart, and `length` k, `k_step` apart. */
static inline __attribute__((always_inline)) struct extent pack_block(
  const uint32_t *source, int64_t step, int64_t k_step, int64_t count, int64_t length, int64_t size, enum part part,
  const struct format *format, int flush, int plain, float *values) {
  struct limits limits = { ~(words){ 0 }, { 0 } };
  if (count < size) memset(values, 0, length * size * sizeof *values);
  /* Along what is contiguous in memory. */
  if (step == 1)
    for (int64_t first = 0; first < count; first += LANES)
      for (int64_t k = 0; k < length; k++) {
        int64_t n = least_of(LANES, count - first);
        const uint32_t *from = source + k * k_step + first;
        __builtin_prefetch(from + 16 * k_step);
        store(values + k * size + first, operands(load(from, n), part, format, flush, plain, &limits), n);
      }
  else
    for (int64_t line = 0; line < count; line += LANES)
      for (int64_t k = 0; k < length; k += LANES) {
        int64_t n = least_of(LANES, length - k), lines = least_of(LANES, count - line);
        union { words vector; uint32_t each[LANES]; } some[LANES];
        for (int64_t i = 0; i < lines; i++) {
          const uint32_t *from = source + (line + i) * step + k * k_step;
          __builtin_prefetch(from + 16 * step);
          some[i].vector = (words){ 0 };
          if (k_step == 1) some[i].vector = load(from, n);
          else for (int64_t j = 0; j < n; j++) some[i].each[j] = from[j * k_step];
          some[i].vector = operands(some[i].vector, part, format, flush, plain, &limits);
        }
        store_turned(values + k * size + line, size, some[0].each, lines, n);
      }
  return extent_of(&limits, values, length * size);
}

void kernel_pack(const uint32_t *source, int64_t step, int64_t k_step, int64_t count, int64_t inner, int64_t size,
                 int64_t block, int32_t part, const struct format *format, int32_t flush, struct packed *packed) {
  struct format f = *format;
  int plain = part == WHOLE && is_bf16(format) && flush;
  int64_t blocks = (inner + block - 1) / block;
  for (int64_t first = 0; first < count; first += size)
    for (int64_t k = 0; k < inner; k += block) {
      const uint32_t *from = source + first * step + k * k_step;
      int64_t some = least_of(size, count - first), length = least_of(block, inner - k);
      float *to = packed->values + first * inner + k * size;
      packed->extents[first / size * blocks + k / block] =
        plain ? pack_block(from, step, k_step, some, length, size, WHOLE, &f, 1, 1, to)
              : pack_block(from, step, k_step, some, length, size, part, &f, flush, 0, to);
    }
}
