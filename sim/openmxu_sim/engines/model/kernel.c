/* Products of matrices with the bits of the unit: operands are packed, then tiles of them are multiplied. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined __AVX512F__ || defined __FMA__
#include <immintrin.h>
#endif

/* A band of rows of activations and a panel of columns of weights are multiplied at a time: their sums are as many
 * vectors as the processor has registers for, beside two for the weights and one for an activation. */
#if defined __AVX512F__
enum { WIDTH = 64, BAND = 12 };
#elif defined __AVX__
enum { WIDTH = 32, BAND = 6 };
#else
enum { WIDTH = 16, BAND = 6 };
#endif
enum { LANES = WIDTH / 4, VECTORS = 2, PANEL = VECTORS * LANES };

/* AMD's Zen 4 splits vectors of 64 bytes, and adds beside multiplying all the time only with shorter ones. Older
 * compilers take it for a Zen 3, which has no AVX-512. */
#if defined __AVX512VL__ && (defined __znver3__ || defined __znver4__)
enum { PLAIN_WIDTH = 32 };
#else
enum { PLAIN_WIDTH = WIDTH };
#endif
enum { PLAIN_LANES = PLAIN_WIDTH / 4, PLAIN_PANEL = VECTORS * PLAIN_LANES };

typedef float floats __attribute__((vector_size(WIDTH)));
typedef float plain_floats __attribute__((vector_size(PLAIN_WIDTH)));
typedef uint32_t words __attribute__((vector_size(WIDTH)));

enum { MAGNITUDE = 0x7FFFFFFF, UPPER = 0x7FFF0000, INFINITE = 0x7F800000, CANONICAL_NAN = 0x7FC00000 };
enum { FRACTION_WIDTH = 23, BIAS = 127 };

/* A format of which fp32 holds every number: its limits as patterns of fp32 and as binary64 numbers. Adding `grid` and
 * taking it away again rounds to a multiple of the smallest subnormal number. */
struct format {
  int32_t fraction_width, min_exponent, max_exponent;
  uint32_t min_normal, largest, overflow;
  float grid;
  double min_normal64, largest64, overflow64, grid64;
};

enum rounding { NEAREST, TRUNCATE, STOCHASTIC };

struct arithmetic {
  struct format operand, weight, sum, between;  /* of activations, weights, a tile's sums, and sums of tiles */
  int32_t flush, terms;                         /* terms: products that are added at once, with one rounding */
  int32_t guard;                                /* bits of their window below the last place of a sum */
  int32_t rounding, rounding_between;
  uint32_t seed;
};

/* Factors of results, one for each row and each block of the inner dimension, or for all of them: then steps are 0. */
struct factors {
  const float *values;
  int64_t product_step, step, k_step, length;
};

/* What is multiplied in a pass: openmxu.spec.passes.Part. */
enum part { WHOLE, HIGH, REST, MIDDLE, LOW };

/* The smallest and the largest exponent field of some operands, zeros, infinities and NaNs aside. */
struct extent {
  int32_t least, most;
};

/* Operands as the kernel reads them: groups of `size` rows or columns, within a group k by k. */
struct packed {
  float *values;
  struct extent *extents;
};

/* Rows or columns of operands, of several products: patterns of fp32, and how many words they are apart. */
struct stack {
  const uint32_t *words;
  int64_t product_step, step, k_step;
};

int64_t kernel_band(void) { return BAND; }
int64_t kernel_panel(void) { return PANEL; }

static inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static inline words chosen(words mask, words yes, words no) { return (mask & yes) | (~mask & no); }

/* The numbers of a format that are nearest to patterns of fp32. */
static inline words converted(words bits, const struct format *format, int flush) {
  int dropped = FRACTION_WIDTH - format->fraction_width;
  words magnitude = bits & MAGNITUDE, sign = bits ^ magnitude;
  /* A carry runs into the exponent by itself. */
  words last = magnitude >> dropped & (dropped > 0);
  words normal = (magnitude + ((1u << dropped >> 1) - (dropped > 0)) + last) >> dropped << dropped;
  normal = chosen(normal > format->largest, (words){ 0 } + format->overflow, normal);
  words tiny = flush ? (words){ 0 } : (words)((floats)magnitude + format->grid - format->grid);
  words number = chosen(magnitude < format->min_normal, tiny, normal) | sign;
  return chosen(magnitude > INFINITE, (words){ 0 } + CANONICAL_NAN, number);
}

/* What the upper 16 bits of fp32 numbers leave; of infinities a NaN. Two numbers with one exponent have an exact
 * difference. */
static inline words rest_of(words bits) {
  words magnitude = bits & MAGNITUDE, sign = bits ^ magnitude;
  return (words)((floats)magnitude - (floats)(magnitude & UPPER)) | sign;
}

/* A part of fp32 numbers; it is exact, conversion rounds what is to be rounded. */
static inline words part_of(words bits, enum part part) {
  words sign = bits & ~MAGNITUDE;
  switch (part) {
    case WHOLE: return bits;
    /* All that makes a number a NaN may be below. */
    case HIGH: return chosen((bits & MAGNITUDE) > INFINITE, bits, bits & (UPPER | sign));
    case REST: return rest_of(bits);
    case MIDDLE: return part_of(rest_of(bits), HIGH);
    case LOW: return rest_of(rest_of(bits));
  }
  return bits;
}

/* The first `count` numbers from here, and zeros if these are fewer than a vector has. */
static inline words load(const void *from, int64_t count) {
#if defined __AVX512F__
  return (words)_mm512_maskz_loadu_epi32(count >= LANES ? 0xFFFF : (1u << count) - 1, from);
#else
  words some = { 0 };
  if (count >= LANES) memcpy(&some, from, sizeof some);
  else memcpy(&some, from, count * sizeof(uint32_t));
  return some;
#endif
}

static inline void store(void *to, words some, int64_t count) {
#if defined __AVX512F__
  _mm512_mask_storeu_epi32(to, count >= LANES ? 0xFFFF : (1u << count) - 1, (__m512i)some);
#else
  if (count >= LANES) memcpy(to, &some, sizeof some);
  else memcpy(to, &some, count * sizeof(uint32_t));
#endif
}

/* Convert and pack a part of `count` rows or columns of `inner` operands each, in blocks of so many k; what is missing
 * in the last group is zero. */
void kernel_pack(const uint32_t *source, int64_t step, int64_t k_step, int64_t count, int64_t inner, int64_t size,
                 int64_t block, int32_t part, const struct format *format, int32_t flush, struct packed *packed);

/* A number in all lanes, -0 and NaNs included. A loop over lanes would be two halves where a compiler prefers shorter
 * vectors than these, as for Intel's processors, and joining them in memory takes ten times as long as multiplying. */
