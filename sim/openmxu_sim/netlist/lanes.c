/* Bit slices: one wire of a netlist in 512 independent copies ("lanes") at a time.

   A word holds one wire. Lane p is bit p / 16 of element p % 16, so that 32 words, transposed as 32 x 32
   matrices of bits, are 512 numbers of 32 bits in the order of the lanes. */

#include <stdint.h>
#include <string.h>

enum { ELEMENTS = 16, LANES = 512 };
typedef uint32_t word __attribute__((vector_size(4 * ELEMENTS)));

/* 32 words of wires into 512 numbers, or back. */
static inline void transpose(word *w) {
  uint32_t mask = 0x0000FFFF;
  for (int distance = 16; distance; distance >>= 1, mask ^= mask << distance)
    for (int i = 0; i < 32; i = (i + distance + 1) & ~distance) {
      word swapped = ((w[i] >> distance) ^ w[i + distance]) & mask;
      w[i] ^= swapped << distance;
      w[i + distance] ^= swapped;
    }
}

/* One bit on all lanes. No function: where registers are narrower, how one returns a word is a matter of taste. */
#define everywhere(bit) ((word){} - (uint32_t)(bit))
