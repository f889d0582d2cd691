/* What results must be, by the arithmetic of this processor: IEEE 754 in binary32 and binary64.

   Flush mode is the processor's own where it has one (x86: FTZ and DAZ in MXCSR), and comparisons elsewhere.
   In the sums and products that are checked here, nothing below the smallest normal number is ever rounded, so
   it does not matter that x86 looks for underflow behind rounding, and the contract before it. */

#include <math.h>

#ifdef __SSE2__
#include <immintrin.h>
static unsigned enter(int flush) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(flush ? before | 0x8040 : before & ~0x8040u);
  return before;
}
static void leave(unsigned before) { _mm_setcsr(before); }
static inline float flushed(float x, int flush) { return x; }
#else
static unsigned enter(int flush) { return 0; }
static void leave(unsigned before) {}
static inline float flushed(float x, int flush) { return flush && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
#endif

static inline float as_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t as_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static inline double as_double(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline uint64_t as_bits64(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }

/* The pattern in fp32, every NaN being the canonical one. */
static inline uint32_t canonical(float x) { return x != x ? 0x7FC00000 : as_bits(x); }

/* The pattern of x, no NaN, in a narrower format with a hidden bit, infinities and subnormal numbers. This
   processor rounds: x + c - c is x to the last place of the format, if that is the last place of c. */
static inline uint32_t narrow(double x, int exponent_width, int fraction_width, int flush) {
  const int bias = (1 << (exponent_width - 1)) - 1;
  const double smallest_normal = as_double((uint64_t)(1023 + 1 - bias) << 52);
  const uint64_t infinity = (uint64_t)((1 << exponent_width) - 1) << fraction_width;
  double magnitude = fabs(x);
  if (flush && magnitude < smallest_normal) magnitude = 0;
  uint64_t exponent = as_bits64(magnitude < smallest_normal ? smallest_normal : magnitude) >> 52;
  double c = as_double(((exponent + 52 - fraction_width) << 52) | 1ull << 51);
  double rounded = (magnitude + c) - c;
  double last_places = rounded * as_double((uint64_t)(1023 + bias - 1 + fraction_width) << 52);
  uint64_t subnormal = as_bits64(last_places + 0x1p52) - as_bits64(0x1p52);
  uint64_t normal = (as_bits64(rounded) >> (52 - fraction_width)) - ((uint64_t)(1023 - bias) << fraction_width);
  uint64_t finite = rounded < smallest_normal ? subnormal : normal;
  uint64_t pattern = magnitude >= as_double((uint64_t)(1023 + 1 + bias) << 52) || finite > infinity ? infinity : finite;
  return (uint32_t)(pattern | (as_bits64(x) >> 63) << (exponent_width + fraction_width));
}
