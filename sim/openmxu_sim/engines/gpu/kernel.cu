// Products of matrices with the bits of the unit, on a GPU: the steps of the engine `model` that fp32 has.
//
//          B  k by k, in panels of 128 columns       A block of 256 threads computes 128 x 128 sums, a thread 8 x 8 of
//            ┌────────┬────────┐                     them in registers, k by k in the order of the contract. Operands
//            └────────┴────────┘                     are converted before, and lie k by k; rows and columns that are
//    A ┌─┐   ┌────────┬────────┐                     missing in the last group are zero.
//      │ │   │ block  │        │
//      └─┘   └────────┴────────┘
//
// With FLUSH each product and sum below 2^-126 becomes a zero of its sign, as the contract has it. Instructions are
// spelled out, and signs change as bits: what the compiler's flags say of subnormal numbers and of fusing does not matter.

typedef unsigned int u32;
typedef long long i64;

enum { SIDE = 128, DEPTH = 16, THREADS = 256 };
enum { MAGNITUDE = 0x7FFFFFFF, UPPER = 0x7FFF0000, INFINITE = 0x7F800000, CANONICAL_NAN = 0x7FC00000 };
enum { WHOLE, HIGH, REST, MIDDLE, LOW };  // openmxu.spec.passes.Part

#ifdef __CUDACC__
#ifdef FLUSH
#define MODE ".rn.ftz.f32 "
#else
#define MODE ".rn.f32 "
#endif
__device__ static __forceinline__ float plus(float x, float y) {
  float z;
  asm("add" MODE "%0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ static __forceinline__ float times(float x, float y) {
  float z;
  asm("mul" MODE "%0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ static __forceinline__ float fused(float x, float y, float sum) {
  float z;
  asm("fma" MODE "%0, %1, %2, %3;" : "=f"(z) : "f"(x), "f"(y), "f"(sum));
  return z;
}
#endif

__device__ static __forceinline__ float minus(float x, float y) {
  return plus(x, __uint_as_float(__float_as_uint(y) ^ 0x80000000));
}

// A format of at most 12 significant bits: limits as patterns of fp32.
struct Format {
  int fraction_width;
  u32 min_normal, largest, overflow;
  float grid;
};

__device__ static u32 converted(u32 bits, Format format, int flush) {
  int dropped = 23 - format.fraction_width;
  u32 magnitude = bits & MAGNITUDE, sign = bits ^ magnitude;
  if (magnitude > INFINITE) return CANONICAL_NAN;
  if (magnitude < format.min_normal) {
    float tiny = minus(plus(__uint_as_float(magnitude), format.grid), format.grid);
    return (flush ? 0 : __float_as_uint(tiny)) | sign;
  }
  u32 half = (1u << dropped >> 1) - (dropped > 0), last = magnitude >> dropped & (dropped > 0);
  u32 normal = (magnitude + half + last) >> dropped << dropped;
  return (normal > format.largest ? format.overflow : normal) | sign;
}

// What the upper 16 bits of an fp32 number leave, exactly; of infinity a NaN.
__device__ static u32 rest_of(u32 bits) {
  u32 magnitude = bits & MAGNITUDE;
  float rest = minus(__uint_as_float(magnitude), __uint_as_float(magnitude & UPPER));
  return __float_as_uint(rest) | (bits ^ magnitude);
}

__device__ static u32 upper_of(u32 bits) {
  return (bits & MAGNITUDE) > INFINITE ? bits : bits & (UPPER | ~MAGNITUDE);
}

__device__ static u32 part_of(u32 bits, int part) {
  switch (part) {
    case HIGH: return upper_of(bits);
    case REST: return rest_of(bits);
    case MIDDLE: return upper_of(rest_of(bits));
    case LOW: return rest_of(rest_of(bits));
  }
  return bits;
}

// Converts a part of (count, inner) words, so many words apart, to (inner, padded) operands; a block takes 32 x 32.
// extents: by group of 128 rows 255 less the smallest exponent field, zeros aside, and the largest, infinities and NaNs
// aside; both are 0 to begin with.
extern "C" __global__ void pack(const u32 *source, i64 product_step, i64 step, i64 k_step, int count, int padded,
                                int inner, int part, int fraction_width, u32 min_normal, u32 largest, u32 overflow,
                                float grid, int flush, float *values, int *extents) {
  Format format = {fraction_width, min_normal, largest, overflow, grid};
  __shared__ u32 words[32][33];
  __shared__ int least, most;
  int groups = padded / 32, x = threadIdx.x % 32, y = threadIdx.x / 32;
  int first = blockIdx.x % groups * 32, k_first = blockIdx.x / groups * 32;
  if (threadIdx.x == 0) least = most = 0;
  __syncthreads();
  source += blockIdx.z * product_step;
  int along_k = k_step == 1;  // neighbours read what lies side by side
  for (int line = y; line < 32; line += 8) {
    int row = along_k ? line : x, k = along_k ? x : line;
    u32 bits = 0;
    if (first + row < count && k_first + k < inner) {
      bits = converted(part_of(source[(first + row) * step + (k_first + k) * k_step], part), format, flush);
      u32 magnitude = bits & MAGNITUDE;
      if (magnitude) atomicMax(&least, 255 - (int)(magnitude >> 23));
      if (magnitude < INFINITE) atomicMax(&most, (int)(magnitude >> 23));
    }
    words[row][k] = bits;
  }
  __syncthreads();
  for (int k = y; k < 32; k += 8)
    if (k_first + k < inner)
      values[((i64)blockIdx.z * inner + k_first + k) * padded + first + x] = __uint_as_float(words[x][k]);
  if (threadIdx.x == 0) {
    int *extent = extents + 2 * (blockIdx.z * (padded / SIDE) + first / SIDE);
    atomicMax(extent, least);
    atomicMax(extent + 1, most);
  }
}

// Whether a fused multiply-add has the contract's bits: `choose` in the engine `model` says why.
__device__ static int fits(const int *a, const int *b, int fraction_width, int flush) {
  int grid = (255 - a[0]) + (255 - b[0]) - 254 - 2 * fraction_width;
  return a[1] + b[1] - 254 + 2 <= 128 && grid >= (flush ? -126 : -149);
}

struct Chunk {
  float4 a[2], b[2];
};

// A thread's part of up to DEPTH rows of operands.
__device__ static Chunk fetch(const float *a, const float *b, i64 a_padded, i64 b_padded, int length) {
  Chunk chunk;
  for (int i = 0; i < 2; i++) {
    int at = threadIdx.x + i * THREADS, k = at / 32, column = at % 32 * 4;
    if (k >= length) continue;
    chunk.a[i] = *(const float4 *)(a + k * a_padded + column);
    chunk.b[i] = *(const float4 *)(b + k * b_padded + column);
  }
  return chunk;
}

template <int FUSED>
__device__ static __forceinline__ void step(float sums[8][8], const float *a, const float *b, int row, int column) {
  float left[8], right[8];
  for (int half = 0; half < 2; half++) {
    *(float4 *)(left + 4 * half) = *(const float4 *)(a + 64 * half + row);
    *(float4 *)(right + 4 * half) = *(const float4 *)(b + 64 * half + column);
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++)
      sums[i][j] = FUSED ? fused(left[i], right[j], sums[i][j]) : plus(sums[i][j], times(left[i], right[j]));
}

// One pass: it goes on where the one before ended (later), after NaNs have become +0 (clear); the last one leaves the
// canonical NaN.
template <int FUSED>
__device__ static __forceinline__ void multiply(const float *a, const float *b, int m, int inner, int n, int a_padded,
                                                int b_padded, int rows, int later, int clear, int last,
                                                float *result) {
  __shared__ __align__(16) float left[2][DEPTH * SIDE], right[2][DEPTH * SIDE];
  int panels = b_padded / SIDE, band = blockIdx.x / panels, panel = blockIdx.x % panels;
  int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  a += (i64)blockIdx.z * inner * a_padded + band * SIDE;
  b += (i64)blockIdx.z * inner * b_padded + panel * SIDE;
  result += (i64)blockIdx.z * m * n;
  float sums[8][8], totals[8][8];
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      int y = band * SIDE + i / 4 * 64 + row + i % 4, x = panel * SIDE + j / 4 * 64 + column + j % 4;
      float total = later && y < m && x < n ? result[(i64)y * n + x] : 0.0f;
      totals[i][j] = clear && total != total ? 0.0f : total;
      sums[i][j] = 0.0f;
    }
  int at = 0, left_in_tile = rows < inner ? rows : inner, length = left_in_tile < DEPTH ? left_in_tile : DEPTH;
  int is_first = !later;
  Chunk chunk = fetch(a, b, a_padded, b_padded, length);
  for (int k = 0; k < inner;) {
    for (int i = 0; i < 2; i++) {
      int to = 4 * (threadIdx.x + i * THREADS);
      *(float4 *)(left[at] + to) = chunk.a[i];
      *(float4 *)(right[at] + to) = chunk.b[i];
    }
    __syncthreads();
    int now = length, ends = now == left_in_tile;
    k += now;
    left_in_tile -= now;
    if (ends) left_in_tile = rows < inner - k ? rows : inner - k;
    length = left_in_tile < DEPTH ? left_in_tile : DEPTH;
    if (k < inner) chunk = fetch(a + (i64)k * a_padded, b + (i64)k * b_padded, a_padded, b_padded, length);
    if (now == DEPTH) {
#pragma unroll 4
      for (int i = 0; i < DEPTH; i++) step<FUSED>(sums, left[at] + i * SIDE, right[at] + i * SIDE, row, column);
    } else {
      for (int i = 0; i < now; i++) step<FUSED>(sums, left[at] + i * SIDE, right[at] + i * SIDE, row, column);
    }
    at ^= 1;  // while some still read one half, others write the other
    if (!ends) continue;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) {
        totals[i][j] = is_first ? sums[i][j] : plus(totals[i][j], sums[i][j]);
        sums[i][j] = 0.0f;
      }
    is_first = 0;
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      int y = band * SIDE + i / 4 * 64 + row + i % 4, x = panel * SIDE + j / 4 * 64 + column + j % 4;
      float total = totals[i][j];
      if (last && total != total) total = __uint_as_float(CANONICAL_NAN);
      if (y < m && x < n) result[(i64)y * n + x] = total;
    }
}

// Each of both multiplies the blocks that are its own.
#define PRODUCTS(NAME, FUSED)                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME(                                                         \
    const float *a, const float *b, const int *a_extents, const int *b_extents, int fraction_width, int flush, int m, \
    int inner, int n, int a_padded, int b_padded, int rows, int later, int clear, int last, float *result) {          \
    int panels = b_padded / SIDE;                                                                                     \
    a_extents += 2 * (blockIdx.z * (a_padded / SIDE) + blockIdx.x / panels);                                          \
    b_extents += 2 * (blockIdx.z * panels + blockIdx.x % panels);                                                     \
    if (fits(a_extents, b_extents, fraction_width, flush) == FUSED)                                                   \
      multiply<FUSED>(a, b, m, inner, n, a_padded, b_padded, rows, later, clear, last, result);                       \
  }
PRODUCTS(products_fused, 1)
PRODUCTS(products_plain, 0)
