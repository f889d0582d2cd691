/* As many 32-bit numbers at a time as the processor has room for. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined __AVX512F__
enum { LANES = 16 };
#elif defined __AVX2__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef uint32_t word __attribute__((vector_size(4 * LANES)));
typedef int32_t sword __attribute__((vector_size(4 * LANES)));

/* No functions: where registers are narrower, how one returns a word is a matter of taste. */
#define everywhere(value) ((word){} + (uint32_t)(value))

/* Every lane takes from the lane before it, the first one from the last of `before`. */
#if defined __clang__
#if defined __AVX512F__
#define shifted(before, w) \
  __builtin_shufflevector(before, w, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)
#elif defined __AVX2__
#define shifted(before, w) __builtin_shufflevector(before, w, 7, 8, 9, 10, 11, 12, 13, 14)
#else
#define shifted(before, w) __builtin_shufflevector(before, w, 3, 4, 5, 6)
#endif
#elif defined __AVX512F__
#define shifted(before, w) \
  __builtin_shuffle(before, w, (word){15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30})
#elif defined __AVX2__
#define shifted(before, w) __builtin_shuffle(before, w, (word){7, 8, 9, 10, 11, 12, 13, 14})
#else
#define shifted(before, w) __builtin_shuffle(before, w, (word){3, 4, 5, 6})
#endif
