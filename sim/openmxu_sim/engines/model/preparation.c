/* Operands that are scaled, or rounded otherwise, before they are packed; it stands behind the text of kernel.c. */

struct preparation {
  struct format element;  /* numbers become elements of this format, if `converts` */
  int32_t flush, divides, converts, stochastic;
  int32_t limited;   /* magnitudes above the largest element are that; blocks with an infinity or a NaN are NaN */
  int32_t integers;  /* the same, but NaNs are 0 */
  uint32_t seed, stream;
};

static inline words without_subnormals(words bits, int flush) {
  words magnitude = bits & MAGNITUDE;
  return flush ? chosen(magnitude < 1 << FRACTION_WIDTH, bits ^ magnitude, bits) : bits;
}

/* The largest finite magnitude in each `length` numbers of each row. */
void kernel_peaks(const uint32_t *source, int64_t rows, int64_t inner, int64_t length, int32_t flush, float *peaks) {
  for (int64_t row = 0; row < rows; row++, source += inner)
    for (int64_t first = 0; first < inner; first += length) {
      int64_t end = least_of(first + length, inner);
      words most = { 0 };
      for (int64_t k = first; k < end; k += LANES) {
        words magnitude = without_subnormals(load(source + k, end - k), flush) & MAGNITUDE;
        most = chosen((words)(magnitude > most) & (words)(magnitude < INFINITE), magnitude, most);
      }
      uint32_t peak = 0;
      for (int lane = 0; lane < LANES; lane++) peak = most[lane] > peak ? most[lane] : peak;
      memcpy(peaks++, &peak, sizeof peak);
    }
}

static inline words element_of(const struct preparation *how, words bits, const uint32_t *noise) {
  const struct format *element = &how->element;
  int flush = how->flush && !how->limited;
  words magnitude = bits & MAGNITUDE, sign = bits ^ magnitude, is_nan = (words)(magnitude > INFINITE);
  words large = (words)(magnitude > element->largest) & ~is_nan;
  if (how->limited) magnitude = chosen(large, (words){ 0 } + element->largest, magnitude);
  words number = converted(magnitude | sign, element, flush);
  if (how->stochastic)
    for (int lane = 0; lane < LANES; lane++) {
      uint32_t one = magnitude[lane] | sign[lane];
      float x;
      memcpy(&x, &one, sizeof x);
      x = rounded_so(STOCHASTIC, x, element, flush, element->min_exponent, noise[lane]);
      memcpy(&one, &x, sizeof one);
      number[lane] = one;
    }
  return how->integers ? number & ~is_nan : number;
}

/* Multiply or divide (count, rows, inner) numbers by factors, convert them, and multiply them by `decoders`, which are
 * as many as factors, if there are any; as are `peaks`, the magnitudes that factors are made of: up to there nothing
 * overflows. */
void kernel_prepare(const struct preparation *how, const uint32_t *source, int64_t count, int64_t rows, int64_t inner,
                    const struct factors *factors, const float *decoders, const float *peaks, uint32_t *result) {
  int64_t length = factors->length;
  for (int64_t line = 0; line < count * rows; line++, source += inner, result += inner) {
    int64_t product = line / rows, row = line % rows;
    uint32_t noise[LANES] = { 0 }, start = mixed((uint32_t)row ^ stream_of(how->seed + product, how->stream));
    for (int64_t first = 0; first < inner; first += length) {
      int64_t at = product * factors->product_step + row * factors->step + first / length * factors->k_step;
      int64_t end = least_of(first + length, inner);
      floats factor = spread(factors->values[at]), decoder = spread(decoders ? decoders[at] : 1);
      words peak = (words)spread(peaks ? peaks[at] : 0);
      words odd = { 0 };
      for (int64_t k = first; k < end; k += LANES) {
        words bits = without_subnormals(load(source + k, end - k), how->flush);
        odd |= (words)((bits & MAGNITUDE) >= INFINITE);
        floats scaled = how->divides ? (floats)bits / factor : (floats)bits * factor;
        words sign = (words)scaled & ~MAGNITUDE, largest = sign | how->element.largest;
        words above = (words)((bits & MAGNITUDE) <= peak) & (words)(((words)scaled ^ sign) > how->element.largest);
        scaled = (floats)chosen(above, largest, (words)scaled);
        if (how->stochastic)
          for (int lane = 0; lane < LANES; lane++) noise[lane] = mixed(start ^ mixed((uint32_t)(k + lane)));
        if (how->converts) scaled = (floats)element_of(how, (words)scaled, noise);
        store(result + k, (words)(scaled * decoder), end - k);
      }
      int is_odd = 0;
      for (int lane = 0; lane < LANES; lane++) is_odd |= odd[lane] != 0;
      if (how->limited && !how->integers && is_odd)
        for (int64_t k = first; k < end; k++) result[k] = CANONICAL_NAN;
    }
  }
}
