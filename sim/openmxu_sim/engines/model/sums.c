/* Sums of tiles, each step in the fastest way that has the right bits; compiled behind kernel.c. */

static inline floats spread(float x) { return x - (floats){ 0 }; }

/* Steps of a processing element. */

static inline floats fused(floats sum, floats a, floats b) {
#if defined __AVX512F__
  return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined __FMA__
  return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
  return sum + a * b;
#endif
}

static inline floats flushed(floats x) {
#if defined __AVX512F__
  __mmask16 tiny = _mm512_testn_epi32_mask((__m512i)x, _mm512_set1_epi32(INFINITE));
  return (floats)_mm512_mask_and_epi32((__m512i)x, tiny, (__m512i)x, _mm512_set1_epi32(~MAGNITUDE));
#else
  words bits = (words)x, tiny = (bits & MAGNITUDE) < (1 << FRACTION_WIDTH);
  return (floats)(bits & ~(tiny & MAGNITUDE));
#endif
}

/* To the nearest number with `dropped` bits less, ties to even, as a sum with a number of its sign and so much larger
 * is; the sign of a zero is lost. That number is tiny for infinities and NaNs, so they stay. */
static inline floats rounded(floats x, int dropped) {
  floats large = (floats)(((words)x & ~((1 << FRACTION_WIDTH) - 1)) + (dropped << FRACTION_WIDTH));
  return x + large - large;
}

/* A magnitude to the nearest number with as many bits as a format has, and what overflows; it may still be tiny. */
static inline double normally_rounded(double size, const struct format *format) {
  int dropped = 52 - format->fraction_width;
  uint64_t bits;
  memcpy(&bits, &size, sizeof bits);
  bits = (bits + (1ull << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped << dropped;
  double normal;
  memcpy(&normal, &bits, sizeof normal);
  return fabs(normal) > format->largest64 ? format->overflow64 : fabs(normal);
}

/* To the nearest number of a format, whatever x is. */
static inline double exactly_rounded(double x, const struct format *format, int flush) {
  double size = fabs(x), tiny = flush ? 0 : size + format->grid64 - format->grid64;
  return copysign(size < format->min_normal64 ? tiny : normally_rounded(size, format), x);
}

/* Random words, one or a vector of them: openmxu_sim.golden.noise. */
#define MIXED(name, type) \
  static inline type name(type x) { \
    x = (x ^ x >> 16) * 0x7FEB352Du; \
    x = (x ^ x >> 15) * 0x846CA68Bu; \
    return x ^ x >> 16; \
  }
MIXED(mixed, uint32_t)
MIXED(mixed_words, words)

static inline uint32_t stream_of(uint32_t seed, uint32_t stream) { return mixed(mixed(seed) ^ stream); }

/* 2^n, of a normal number. */
static inline double power(int n) {
  uint64_t bits = (uint64_t)(n + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* As `exactly_rounded` or otherwise; x: rounded towards zero, if it is not exact. What is too large becomes the largest
 * number where it is cut off. */
static inline double rounded_so(enum rounding rounding, double x, const struct format *format, int flush, int least,
                                uint32_t word) {
  if (rounding == NEAREST) return exactly_rounded(x, format, flush);
  double size = fabs(x);
  if (!(size < INFINITY)) return size == INFINITY ? copysign(format->overflow64, x) : x;
  if (flush && size < format->min_normal64) return copysign(0, x);
  uint64_t bits;
  memcpy(&bits, &size, sizeof bits);
  int exponent = (int)(bits >> 52) - 1023, last = (exponent > least ? exponent : least) - format->fraction_width;
  double places = size * power(-last);
  if (rounding == STOCHASTIC) places = trunc(places * 0x1p24) * 0x1p-24 + (word >> 8) * 0x1p-24;
  double number = trunc(places) * power(last);
  if (number > format->largest64) number = rounding == TRUNCATE ? format->largest64 : format->overflow64;
  return copysign(number, x);
}

/* A sum rounded towards zero; its error is exact (Knuth). */
static inline double added_down(double a, double b) {
  double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  bits -= sum != 0 && error * copysign(1, sum) < 0;
  memcpy(&sum, &bits, sizeof bits);
  return sum;
}

/* The place of a sum, for its random words: kinds 0 to 3 are a product, its sum, a tile's sum, and a tile's scaling. */
static inline uint32_t word_at(uint32_t row, int64_t k, int kind) {
  return mixed(row ^ mixed((uint32_t)(4 * k + kind)));
}

/* Sums of a band and a panel over one tile, k by k. The loops over vectors are unrolled: the sums are registers. */

enum step { FUSED, PLAIN, FLUSHING, NARROW, GENERAL, CUT, GENERAL_CUT, TERMS, CUT_TERMS, GENERAL_TERMS };

/* Where sums are in a result of so many columns: random words, and factors, depend on it. */
struct place {
  int64_t m, n, columns, k;
  uint32_t stream;
};

static inline uint32_t row_at(const struct place *at, int m, int n) {
  return mixed((uint32_t)((at->m + m) * at->columns + at->n + n) ^ at->stream);
}

static inline __attribute__((always_inline)) void sum_up(enum step step, int dropped, const float *a, const float *b,
                                                         int64_t length, float *out) {
  floats sums[BAND][VECTORS];
#pragma GCC unroll 16
  for (int m = 0; m < BAND; m++)
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) sums[m][v] = (floats){ 0 };
  for (int64_t k = 0; k < length; k++) {
    const floats *right = (const floats *)(b + k * PANEL);
#pragma GCC unroll 16
    for (int m = 0; m < BAND; m++) {
      floats left = spread(a[k * BAND + m]);
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; v++) {
        floats sum = sums[m][v];
        if (step == FUSED) sum = fused(sum, left, right[v]);
        if (step == FLUSHING) sum = flushed(sum + flushed(left * right[v]));
        if (step == NARROW) sum = rounded(sum + rounded(left * right[v], dropped), dropped);
        sums[m][v] = sum;
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < BAND; m++)
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; v++) ((floats *)(out + m * PANEL))[v] = sums[m][v];
}

/* As `sum_up`, by the host's multiplications and additions. Inlined by GCC 12, it takes a third longer. */
static __attribute__((noinline)) void sum_up_plainly(const float *a, const float *b, int64_t length, float *out) {
  for (int first = 0; first < PANEL; first += PLAIN_PANEL) {
    plain_floats sums[BAND][VECTORS];
#pragma GCC unroll 16
    for (int m = 0; m < BAND; m++)
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; v++) sums[m][v] = (plain_floats){ 0 };
    for (int64_t k = 0; k < length; k++) {
      const plain_floats *right = (const plain_floats *)(b + k * PANEL + first);
#pragma GCC unroll 16
      for (int m = 0; m < BAND; m++) {
        plain_floats left = a[k * BAND + m] - (plain_floats){ 0 };
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; v++) sums[m][v] = sums[m][v] + left * right[v];
      }
    }
#pragma GCC unroll 16
    for (int m = 0; m < BAND; m++)
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; v++) ((plain_floats *)(out + m * PANEL + first))[v] = sums[m][v];
  }
}

static void sum_up_generally(const struct arithmetic *how, const float *a, const float *b, int64_t length, float *out) {
  double sums[BAND][PANEL] = { 0 };
  struct format format = how->sum;
  for (int64_t k = 0; k < length; k++)
    for (int m = 0; m < BAND; m++)
      for (int n = 0; n < PANEL; n++) {
        double product = exactly_rounded((double)a[k * BAND + m] * b[k * PANEL + n], &format, how->flush);
        sums[m][n] = exactly_rounded(sums[m][n] + product, &format, how->flush);
      }
  for (int m = 0; m < BAND; m++)
    for (int n = 0; n < PANEL; n++) out[m * PANEL + n] = sums[m][n];
}

/* The same, rounded otherwise. */
static void sum_up_otherwise(const struct arithmetic *how, const struct place *at, const float *a, const float *b,
                             int64_t length, float *out) {
  struct format format = how->sum;
  int flush = how->flush, least = format.min_exponent;
  enum rounding rounding = how->rounding;
  for (int m = 0; m < BAND; m++)
    for (int n = 0; n < PANEL; n++) {
      double sum = 0;
      uint32_t row = row_at(at, m, n), word = 0;
      for (int64_t k = 0; k < length; k++) {
        if (rounding == STOCHASTIC) word = word_at(row, at->k + k, 0);
        double product = rounded_so(rounding, (double)a[k * BAND + m] * b[k * PANEL + n], &format, flush, least, word);
        if (rounding == STOCHASTIC) word = word_at(row, at->k + k, 1);
        sum = rounded_so(rounding, added_down(sum, product), &format, flush, least, word);
      }
      out[m * PANEL + n] = sum;
    }
}

typedef double doubles __attribute__((vector_size(2 * WIDTH)));
typedef uint64_t longs __attribute__((vector_size(2 * WIDTH)));

/* Normal numbers with `dropped` bits less, after the upper 24 bits of what is cut off and a word are added. */
static inline doubles cut_after(doubles x, int dropped, words word) {
  longs bits = (longs)x >> (dropped - 24) << (dropped - 24);
  bits += __builtin_convertvector(word >> 8, longs) << (dropped - 24);
  return (doubles)(bits >> dropped << dropped);
}

/* As `sum_up_otherwise`, where no number is tiny or too large. */
static void sum_up_cut(const struct arithmetic *how, const struct place *at, const float *a, const float *b,
                       int64_t length, float *out) {
  int dropped = 52 - how->sum.fraction_width, drawn = how->rounding == STOCHASTIC;
  for (int m = 0; m < BAND; m++)
    for (int v = 0; v < VECTORS; v++) {
      doubles sum = { 0 };
      words row = { 0 }, word = { 0 };
      if (drawn) for (int lane = 0; lane < LANES; lane++) row[lane] = row_at(at, m, v * LANES + lane);
      for (int64_t k = 0; k < length; k++) {
        floats exact = spread(a[k * BAND + m]) * ((const floats *)(b + k * PANEL))[v];
        if (drawn) word = mixed_words(row ^ mixed((uint32_t)(4 * (at->k + k))));
        doubles product = cut_after(__builtin_convertvector(exact, doubles), dropped, word);
        if (drawn) word = mixed_words(row ^ mixed((uint32_t)(4 * (at->k + k) + 1)));
        doubles total = sum + product, part = total - sum, error = (sum - (total - part)) + (product - part);
        /* Knuth's error is exact: where it has the other sign, the sum was rounded away from zero. */
        longs away = (longs)(error != 0) & (longs)(((longs)error ^ (longs)total) >> 63 != 0) & (longs)(total != 0);
        sum = cut_after((doubles)((longs)total + away), dropped, word);
      }
      ((floats *)(out + m * PANEL))[v] = __builtin_convertvector(sum, floats);
    }
}

/* Several products and a sum at once: the contract's "Several terms". */

enum { BELOW = 3 };  /* bits of the window below the last place of a sum */

typedef int32_t integers __attribute__((vector_size(WIDTH)));

static inline floats larger(floats x, floats y) {
#if defined __AVX512F__
  return (floats)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined __AVX__
  return (floats)_mm256_max_ps((__m256)x, (__m256)y);
#else
  return (floats)chosen((words)(x > y), (words)x, (words)y);
#endif
}

static inline floats power_of(floats x) { return (floats)((words)x & INFINITE); }

/* The sum of some terms, each cut to a multiple of 1 / scale. It is exact: each is below 2^28, of at most 5 terms. */
static inline __attribute__((always_inline)) integers cut(floats c, const floats *a, const floats *b, int terms,
                                                          floats scale) {
  integers total = __builtin_convertvector(c * scale, integers);
#pragma GCC unroll 8
  for (int i = 0; i < terms; i++) total += __builtin_convertvector(a[i] * b[i] * scale, integers);
  return total;
}

/* One element for many sums: products and scales are exact, as `choose` made sure of, and no sum is tiny.
 *
 * largest = 2^E, as the product of the operands' powers of two, 0 where an operand is; scale = 2^(26 - E). An infinite
 * sum stays, and a NaN; a sum to which only zeros are added, too: that of zeros begins with +0 and is +0. */
static inline __attribute__((always_inline)) floats add_terms(floats c, const floats *a, const floats *b, int terms) {
  floats products = power_of(a[0]) * power_of(b[0]);
#pragma GCC unroll 8
  for (int i = 1; i < terms; i++) products = larger(products, power_of(a[i]) * power_of(b[i]));
  words largest = (words)larger(products, power_of(c));
  enum { LAST = FRACTION_WIDTH + BELOW };
  floats scale = (floats)((2 * BIAS + LAST) * (1u << FRACTION_WIDTH) - largest);
  floats sum;
  if (terms <= 4) sum = __builtin_convertvector(cut(c, a, b, terms, scale), floats);
  else {
    integers some = cut(c, a, b, 4, scale), more = cut((floats){ 0 }, a + 4, b + 4, 4, scale);
    for (int lane = 0; lane < LANES; lane++) sum[lane] = (float)((double)some[lane] + more[lane]);
  }
  sum *= (floats)(largest - (LAST << FRACTION_WIDTH));
  words stays = (words)(products == 0) | (words)(power_of(c) == (floats)((words){ 0 } + INFINITE));
  return (floats)chosen(stays, (words)c, (words)sum);
}

/* One block of terms for a band and a panel. */
static inline __attribute__((always_inline)) void add_block(int terms, const float *a, const float *b, float *sums) {
  for (int v = 0; v < VECTORS; v++) {
    floats right[8];
#pragma GCC unroll 8
    for (int i = 0; i < terms; i++) right[i] = ((const floats *)(b + i * PANEL))[v];
    for (int m = 0; m < BAND; m++) {
      floats left[8], *sum = (floats *)(sums + m * PANEL) + v;
#pragma GCC unroll 8
      for (int i = 0; i < terms; i++) left[i] = spread(a[i * BAND + m]);
      *sum = add_terms(*sum, left, right, terms);
    }
  }
}

static inline __attribute__((always_inline)) void sum_up_terms(int terms, const float *a, const float *b,
                                                               int64_t length, float *out) {
  memset(out, 0, BAND * PANEL * sizeof *out);
  int64_t k = 0;
  for (; k + terms <= length; k += terms) add_block(terms, a + k * BAND, b + k * PANEL, out);
  if (k == length) return;
  float last_a[8 * BAND] = { 0 }, last_b[8 * PANEL] __attribute__((aligned(WIDTH))) = { 0 };
  memcpy(last_a, a + k * BAND, (length - k) * BAND * sizeof *a);
  memcpy(last_b, b + k * PANEL, (length - k) * PANEL * sizeof *b);
  add_block(terms, last_a, last_b, out);
}

/* As `add_terms`, of any width, with any guard bits, cut or rounded: integers of binary64 hold the sum of all terms. */
static inline floats add_cut_terms(floats c, const floats *a, const floats *b, int terms, int last, int dropped,
                                   int nearest) {
  floats products = { 0 };
  for (int i = 0; i < terms; i++) products = larger(products, power_of(a[i]) * power_of(b[i]));
  words largest = (words)larger(products, power_of(c));
  floats scale = (floats)((2 * BIAS + last) * (1u << FRACTION_WIDTH) - largest);
  doubles total = { 0 };
  for (int i = 0; i < terms; i += 4) {
    integers some = cut(i ? (floats){ 0 } : c, a + i, b + i, terms - i < 4 ? terms - i : 4, scale);
    total += __builtin_convertvector(some, doubles);
  }
  longs bits = (longs)total;
  if (nearest) bits += (1ull << (dropped - 1)) - 1 + (bits >> dropped & 1);
  total = (doubles)(bits >> dropped << dropped);
  floats sum = __builtin_convertvector(total, floats) * (floats)(largest - (last << FRACTION_WIDTH));
  words stays = (words)(products == 0) | (words)(power_of(c) == (floats)((words){ 0 } + INFINITE));
  return (floats)chosen(stays, (words)c, (words)sum);
}

static void sum_up_cut_terms(const struct arithmetic *how, const float *a, const float *b, int64_t length, float *out) {
  int terms = how->terms, last = how->sum.fraction_width + how->guard, dropped = 52 - how->sum.fraction_width;
  floats left[32], right[32];
  memset(out, 0, BAND * PANEL * sizeof *out);
  for (int64_t k = 0; k < length; k += terms) {
    int some = least_of(terms, length - k);
    for (int v = 0; v < VECTORS; v++) {
      for (int i = 0; i < some; i++) right[i] = ((const floats *)(b + (k + i) * PANEL))[v];
      for (int m = 0; m < BAND; m++) {
        for (int i = 0; i < some; i++) left[i] = spread(a[(k + i) * BAND + m]);
        floats *sum = (floats *)(out + m * PANEL) + v;
        *sum = add_cut_terms(*sum, left, right, some, last, dropped, how->rounding == NEAREST);
      }
    }
  }
}

/* The exponent of a number of fp32; that of zeros takes no part. */
static inline int exponent_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= MAGNITUDE;
  return bits ? (int)(bits >> FRACTION_WIDTH) - BIAS : -10 * BIAS;
}

/* The same for one sum, whatever operands and formats are. */
static float add_terms_generally(const struct arithmetic *how, float c, const float *a, const float *b, int terms,
                                 uint32_t word) {
  const struct format *format = &how->sum;
  double special = c, total = 0, products[32];
  int largest = exponent_of(c), negative = signbit(c) != 0;
  for (int i = 0; i < terms; i++) {
    products[i] = (double)a[i * BAND] * b[i * PANEL];
    special += products[i];
    negative &= signbit(products[i]) != 0;
    int exponent = exponent_of(a[i * BAND]) + exponent_of(b[i * PANEL]);
    if (exponent > largest) largest = exponent;
  }
  if (!isfinite(special)) return isinf(special) ? copysign(format->overflow64, special) : special;
  int last = largest - format->fraction_width - how->guard;
  total = trunc(scalbn(c, -last));
  for (int i = 0; i < terms; i++) total += trunc(scalbn(products[i], -last));
  if (total == 0) return negative ? -0.0f : 0.0f;
  double sum = fabs(scalbn(total, last));
  if (how->rounding == NEAREST) sum = normally_rounded(sum, format);
  else sum = rounded_so(how->rounding, sum, format, 0, -1000, word);
  return copysign(sum < format->min_normal64 ? 0 : sum, total);  /* flushed after the rounding */
}

static void sum_up_terms_generally(const struct arithmetic *how, const struct place *at, const float *a, const float *b,
                                   int64_t length, float *out) {
  memset(out, 0, BAND * PANEL * sizeof *out);
  for (int64_t k = 0; k < length; k += how->terms)
    for (int m = 0; m < BAND; m++)
      for (int n = 0; n < PANEL; n++) {
        uint32_t word = how->rounding == STOCHASTIC ? word_at(row_at(at, m, n), at->k + k, 1) : 0;
        out[m * PANEL + n] = add_terms_generally(how, out[m * PANEL + n], a + k * BAND + m, b + k * PANEL + n,
                                                 least_of(how->terms, length - k), word);
      }
}

static inline int is_finite(const float *values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bits &= MAGNITUDE;
    most = bits > most ? bits : most;
  }
  return most < INFINITE;
}

static inline int is_fp32(const struct format *format) {
  return format->fraction_width == FRACTION_WIDTH && format->min_exponent == 1 - BIAS;
}

/* The fastest step that has the right bits for all operands of a block; why is said in the module's docstring. */
static enum step choose(const struct arithmetic *how, struct extent a, struct extent b) {
  int width = how->operand.fraction_width + how->weight.fraction_width, exact = width <= 22;
  const struct format *sum = &how->sum;
  /* Every product is at least 2^least, and less than 2^most. */
  int least = a.least + b.least - 2 * BIAS, most = a.most + b.most - 2 * BIAS + 2;
  /* The window of the least product ends at 2^-126: no sum is tiny, and every scale is a number. */
  int far_below = most + 40 <= sum->max_exponent;  /* no sum of a tile reaches the largest number */
  if (how->terms > 1) {
    int usual = is_fp32(sum) && how->terms <= 8 && how->guard == BELOW && how->rounding == NEAREST;
    if (usual) return exact && least >= -100 && most <= BIAS + 1 ? TERMS : GENERAL_TERMS;
    int fits = far_below && least - sum->fraction_width - how->guard >= sum->min_exponent;
    return exact && fits && how->rounding != STOCHASTIC ? CUT_TERMS : GENERAL_TERMS;
  }
  if (how->rounding != NEAREST)
    return exact && far_below && least - sum->fraction_width >= sum->min_exponent ? CUT : GENERAL_CUT;
  if (!is_fp32(sum)) {
    int bound = most + sum->fraction_width + 1, fits = bound <= sum->max_exponent && bound <= 100;
    fits = fits && least - sum->fraction_width >= sum->min_exponent;
    return exact && sum->fraction_width <= 10 && fits ? NARROW : GENERAL;
  }
  int grid = least - (exact ? width : FRACTION_WIDTH);
  if (how->flush && grid < 1 - BIAS) return exact ? FLUSHING : GENERAL;
  return exact && most <= BIAS + 1 && grid >= 1 - BIAS - FRACTION_WIDTH ? FUSED : PLAIN;
}

static void tile(const struct arithmetic *how, const struct place *at, enum step step, const float *a, const float *b,
                 int64_t length, float *out) {
  if (step == NARROW && isnan(how->sum.overflow64) && !(is_finite(a, length * BAND) && is_finite(b, length * PANEL)))
    step = GENERAL;
  int quick = step == TERMS || step == CUT_TERMS || step == CUT;
  if (quick && !(is_finite(a, length * BAND) && is_finite(b, length * PANEL)))
    step = step == CUT ? GENERAL_CUT : GENERAL_TERMS;
  switch (step) {
    case FUSED: sum_up(FUSED, 0, a, b, length, out); break;
    case PLAIN: sum_up_plainly(a, b, length, out); break;
    case FLUSHING: sum_up(FLUSHING, 0, a, b, length, out); break;
    case NARROW: sum_up(NARROW, FRACTION_WIDTH - how->sum.fraction_width, a, b, length, out); break;
    case GENERAL: sum_up_generally(how, a, b, length, out); break;
    case CUT: sum_up_cut(how, at, a, b, length, out); break;
    case GENERAL_CUT: sum_up_otherwise(how, at, a, b, length, out); break;
    case TERMS:
      if (how->terms == 2) sum_up_terms(2, a, b, length, out);
      else if (how->terms == 4) sum_up_terms(4, a, b, length, out);
      else sum_up_terms(8, a, b, length, out);
      break;
    case CUT_TERMS: sum_up_cut_terms(how, a, b, length, out); break;
    case GENERAL_TERMS: sum_up_terms_generally(how, at, a, b, length, out);
  }
}

/* What is there and a tile's sums; row: of random words, one for each lane, if they are wanted. */
static inline floats added(const struct arithmetic *how, floats total, floats sums, words row, int64_t k) {
  enum rounding rounding = how->rounding_between;
  if (rounding == NEAREST && is_fp32(&how->between)) return how->flush ? flushed(total + sums) : total + sums;
  for (int lane = 0; lane < LANES; lane++) {
    double sum = rounding == NEAREST ? (double)total[lane] + sums[lane] : added_down(total[lane], sums[lane]);
    sums[lane] = rounded_so(rounding, sum, &how->between, how->flush, how->between.min_exponent,
                            word_at(row[lane], k, 2));
  }
  return sums;
}

/* A tile's sums in the format of those of tiles, times factors. */
static inline floats between_tiles(const struct arithmetic *how, floats sums, const float *factors, words row,
                                   int64_t k) {
  floats products;
  words tiny = { 0 };
  if (factors) {
    memcpy(&products, factors, sizeof products);
    products *= sums;
    /* Below 2^-125 it may have been less than 2^-126 before it was rounded. */
    words magnitude = (words)products & MAGNITUDE;
    tiny = (words)((magnitude < 2 << FRACTION_WIDTH) & (((words)sums & MAGNITUDE) != 0));
  }
  int slow = how->rounding_between != NEAREST || !is_fp32(&how->between);
  for (int lane = 0; lane < LANES; lane++) slow |= tiny[lane] != 0;
  if (!slow) return factors ? products : sums;
  for (int lane = 0; lane < LANES; lane++)
    sums[lane] = rounded_so(how->rounding_between, factors ? (double)sums[lane] * factors[lane] : sums[lane],
                            &how->between, how->flush, how->between.min_exponent, word_at(row[lane], k, 3));
  return sums;
}

static inline int same_format(const struct format *a, const struct format *b) {
  return a->fraction_width == b->fraction_width && a->min_exponent == b->min_exponent && a->largest == b->largest;
}

/* Factors of some columns in one row: products of those of both sides, which are 1 where there are none. */
static inline void factors_of(const struct factors *factors, int64_t m, int64_t n, int64_t columns, int64_t k,
                              float *products) {
  const struct factors *a = factors, *b = factors + 1;
  int64_t block = a->length ? k / a->length : 0, other = b->length ? k / b->length : 0;
  float row = a->values ? a->values[m * a->step + block * a->k_step] : 1;
  for (int64_t j = 0; j < LANES; j++) {
    float product = j < columns && b->values ? row * b->values[(n + j) * b->step + other * b->k_step] : row;
    products[j] = product < INFINITY ? product : 0x1.fffffep127f;
  }
}

/* As `converted`; a result in fp32 loses what is tiny only. */
static inline words finished(words bits, const struct format *target, int flush) {
  if (!is_fp32(target)) return converted(bits, target, flush);
  words number = flush ? (words)flushed((floats)bits) : bits;
  return chosen((bits & MAGNITUDE) > INFINITE, (words){ 0 } + CANONICAL_NAN, number);
}

/* One pass: multiply the bands of `a` with the panels of `b` into the result, of (m, n).
 *
 * from: where these sums are; factors: of results, if they have any. later: it goes on where the pass before ended.
 * clear: NaNs that are there become +0 first. target: the format to which sums are converted then, or none. step: how
 * far rows of the result are apart. */
static void multiply(const struct arithmetic *how, const struct place *from, const struct factors *factors,
                     const struct packed *a, const struct packed *b, int64_t m, int64_t inner, int64_t n, int64_t rows,
                     int64_t block, int32_t later, int32_t clear, float *result, int64_t step,
                     const struct format *target) {
  int64_t bands = (m + BAND - 1) / BAND, panels = (n + PANEL - 1) / PANEL, blocks = (inner + block - 1) / block;
  int drawn = how->rounding_between == STOCHASTIC;
  int kept = !factors && same_format(&how->sum, &how->between);  /* a tile's sums are those between tiles */
  struct place place = *from;
  float sums[BAND * PANEL] __attribute__((aligned(WIDTH)));
  for (int64_t at = 0; at < blocks; at++)
    for (int64_t panel = 0; panel < panels; panel++)
      for (int64_t band = 0; band < bands; band++) {
        enum step kind = choose(how, a->extents[band * blocks + at], b->extents[panel * blocks + at]);
        int64_t end = least_of((at + 1) * block, inner), used = least_of(PANEL, n - panel * PANEL);
        for (int64_t k = at * block; k < end; k += rows) {
          place.m = from->m + band * BAND, place.n = from->n + panel * PANEL, place.k = from->k + k;
          tile(how, &place, kind, a->values + (band * inner + k) * BAND, b->values + (panel * inner + k) * PANEL,
               least_of(rows, end - k), sums);
          for (int64_t i = 0; i < least_of(BAND, m - band * BAND); i++)
            for (int64_t j = 0; j < used; j += LANES) {
              float *to = result + (band * BAND + i) * step + panel * PANEL + j, products[LANES];
              floats sum = *(floats *)(sums + i * PANEL + j);
              words row = { 0 };
              if (drawn) for (int lane = 0; lane < LANES; lane++) row[lane] = row_at(&place, i, j + lane);
              if (!kept) {
                if (factors) factors_of(factors, place.m + i, place.n + j, used - j, place.k, products);
                sum = between_tiles(how, sum, factors ? products : 0, row, place.k);
              }
              if (later || k) {
                floats total = (floats)load(to, used - j);
                if (clear && !k) total = (floats)((words)total & (words)(total == total));
                sum = added(how, total, sum, row, place.k);
              }
              words number = (words)sum;
              if (target && k + rows >= inner) number = finished(number, target, how->flush);
              store(to, number, used - j);
            }
        }
      }
}
