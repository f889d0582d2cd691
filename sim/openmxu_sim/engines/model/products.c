/* Products of operands that are packed a cache's worth at a time; compiled behind packing.c. */

enum { TOGETHER = 8 };  /* panels that are packed, in a cache, before they are multiplied */

/* The first of some products, and the part of their results that is computed, of so many columns in all. */
struct origin {
  int64_t product, m, n, columns;
};

/* Products, one after the other, each of (m, inner) times (inner, n), and the results converted to a format. The parts
 * of activations and weights are given for each pass; step: how far rows of the results are apart. Each product has the
 * seed after that of the one before. Gives 0, or 1 where there is no memory. */
int32_t kernel_part(const struct arithmetic *how, const struct format *target, const struct stack *a,
                    const struct stack *b, int64_t count, int64_t m, int64_t inner, int64_t n, int64_t rows,
                    int64_t block, const int32_t (*parts)[2], int64_t passes, float *result, int64_t step,
                    const struct origin *origin, const struct factors *factors) {
  int64_t bands = (m + BAND - 1) / BAND, length = least_of(block, inner);
  int64_t values = (bands * BAND + TOGETHER * PANEL) * length * sizeof(float);
  int64_t size = values + (bands + TOGETHER) * sizeof(struct extent);
  char *memory = aligned_alloc(WIDTH, (size + WIDTH - 1) / WIDTH * WIDTH);
  if (!memory) return 1;
  struct packed right = { (float *)memory, (struct extent *)(memory + values) };
  struct packed left = { right.values + TOGETHER * PANEL * length, right.extents + TOGETHER };
  for (int64_t i = 0; i < count; i++, result += m * step) {
    int64_t product = origin->product + i;
    uint32_t stream = stream_of(how->seed + product, 2);
    struct factors its[2];
    for (int side = 0; factors && side < 2; side++) {
      its[side] = factors[side];
      if (its[side].values) its[side].values += product * its[side].product_step;
    }
    for (int64_t pass = 0; pass < passes; pass++)
      for (int64_t k = 0; k < inner; k += block) {
        int64_t some = least_of(block, inner - k);
        int later = pass || k, last = pass == passes - 1;
        kernel_pack(a->words + i * a->product_step + k * a->k_step, a->step, a->k_step, m, some, BAND, block,
                    parts[pass][0], &how->operand, how->flush, &left);
        for (int64_t first = 0; first < n; first += TOGETHER * PANEL) {
          int64_t columns = least_of(TOGETHER * PANEL, n - first);
          struct place place = { origin->m, origin->n + first, origin->columns, k, stream };
          kernel_pack(b->words + i * b->product_step + first * b->step + k * b->k_step, b->step, b->k_step, columns,
                      some, PANEL, block, parts[pass][1], &how->weight, how->flush, &right);
          multiply(how, &place, factors ? its : 0, &left, &right, m, some, columns, rows, block, later,
                   pass && last && !k, result + first, step, last && k + block >= inner ? target : 0);
        }
      }
  }
  free(memory);
  return 0;
}

int32_t kernel_products(const struct arithmetic *how, const struct format *target, const struct stack *a,
                        const struct stack *b, int64_t count, int64_t m, int64_t inner, int64_t n, int64_t rows,
                        int64_t block, const int32_t (*parts)[2], int64_t passes, float *result) {
  struct origin origin = { .columns = n };
  return kernel_part(how, target, a, b, count, m, inner, n, rows, block, parts, passes, result, n, &origin, 0);
}

/* Products whose operands lie anywhere, as those of convolutions do.
 *
 * An operand is at values[at[i] + k_at[k]] for row or column i, and so is a result. Patches of images are packed from
 * the images: each part is as large as a cache, and nothing is copied before. */

/* Where operands are, in increasing order; along_k: numbers next to each other in memory belong to one row. */
struct places {
  const int64_t *at, *k_at;
  int32_t along_k;
};

/* Convert a part of `count` numbers. */
void kernel_convert(const uint32_t *source, int64_t count, int32_t part, const struct format *format, int32_t flush,
                    float *to) {
  struct format f = *format;
  if (part == WHOLE && is_bf16(format) && flush)
    for (int64_t i = 0; i < count; i += LANES)
      store(to + i, converted_to_bf16(load(source + i, count - i)), count - i);
  else
    for (int64_t i = 0; i < count; i += LANES)
      store(to + i, converted(part_of(load(source + i, count - i), part), &f, flush), count - i);
}

static inline int is_run(const int64_t *at, int64_t n) { return at[n - 1] - at[0] == n - 1; }

/* The numbers at n places, which are in increasing order, and zeros. */
static inline words load_at(const float *from, const int64_t *at, int64_t n) {
  if (is_run(at, n)) return load(from + at[0], n);
#if defined __AVX512F__
  if (n == LANES && is_run(at, 4) && is_run(at + 4, 4) && is_run(at + 8, 4) && is_run(at + 12, 4)) {
    __m512 some = _mm512_castps128_ps512(_mm_loadu_ps(from + at[0]));
    some = _mm512_insertf32x4(some, _mm_loadu_ps(from + at[4]), 1);
    some = _mm512_insertf32x4(some, _mm_loadu_ps(from + at[8]), 2);
    return (words)_mm512_insertf32x4(some, _mm_loadu_ps(from + at[12]), 3);
  }
#endif
  union { words vector; float each[LANES]; } some = { { 0 } };
  for (int64_t i = 0; i < n; i++) some.each[i] = from[at[i]];
  return some.vector;
}

/* One group's part of one block, as pack_block. */
static struct extent pack_places(const float *from, const int64_t *at, const int64_t *k_at, int64_t count,
                                 int64_t length, int64_t size, int along_k, float *values) {
  struct limits limits = { ~(words){ 0 }, { 0 } };
  if (count < size) memset(values, 0, length * size * sizeof *values);
  if (along_k)
    for (int64_t line = 0; line < count; line += LANES)
      for (int64_t k = 0; k < length; k += LANES) {
        int64_t n = least_of(LANES, length - k), lines = least_of(LANES, count - line);
        words some[LANES];
        for (int64_t i = 0; i < lines; i++) {
          some[i] = load_at(from + at[line + i], k_at + k, n);
          include(&limits, some[i] & MAGNITUDE);
        }
        store_turned(values + k * size + line, size, (const uint32_t *)some, lines, n);
      }
  else
    for (int64_t first = 0; first < count; first += LANES)
      for (int64_t k = 0; k < length; k++) {
        int64_t n = least_of(LANES, count - first);
        words some = load_at(from + k_at[k], at + first, n);
        include(&limits, some & MAGNITUDE);
        store(values + k * size + first, some, n);
      }
  return extent_of(&limits, values, length * size);
}

/* A block of so many rows or columns, in groups of `size`. */
static void pack_groups(const float *values, const struct places *places, int64_t first, int64_t last, int64_t k,
                        int64_t length, int64_t size, struct packed *packed) {
  for (int64_t i = first; i < last; i += size)
    packed->extents[(i - first) / size] =
      pack_places(values, places->at + i, places->k_at + k, least_of(size, last - i), length, size, places->along_k,
                  packed->values + (i - first) * length);
}

/* Put a row of results where they belong, or add it to what is there. */
static void place_row(const float *row, const int64_t *at, int64_t count, int add, float *to) {
  for (int64_t j = 0; j < count; j += LANES) {
    int64_t n = least_of(LANES, count - j);
    if (is_run(at + j, n)) {
      floats some = (floats)load(row + j, n);
      if (add) some = (floats)load(to + at[j], n) + some;
      store(to + at[j], (words)some, n);
    } else if (add) for (int64_t i = j; i < j + n; i++) to[at[i]] = to[at[i]] + row[i];
    else for (int64_t i = j; i < j + n; i++) to[at[i]] = row[i];
  }
}

/* Numbers at from + rows[i] + columns[j], as a matrix. */
void kernel_gather(const float *from, const int64_t *rows, int64_t m, const int64_t *columns, int64_t n, float *to) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j += LANES) {
      int64_t some = least_of(LANES, n - j);
      store(to + i * n + j, load_at(from + rows[i], columns + j, some), some);
    }
}

/* Put a matrix there, or add it to what is there, one row after the other. */
void kernel_scatter(const float *from, const int64_t *rows, int64_t m, const int64_t *columns, int64_t n, int32_t add,
                    float *to) {
  for (int64_t i = 0; i < m; i++) place_row(from + i * n, columns, n, add, to + rows[i]);
}

/* Products of some groups: from the first one to one before the last one, and so of rows and columns; steps: how far
 * groups of both sides and of results are apart. values: of both sides, for each pass. The results are put at
 * out + row_at + column_at, or added, one row after the other. Gives 0, or 1 where there is no memory. */
int32_t kernel_places(const struct arithmetic *how, const struct format *target, const struct places *a,
                      const struct places *b, const float *const (*values)[2], int64_t passes, const int64_t *groups,
                      const int64_t *rows, const int64_t *columns, const int64_t *steps, int64_t inner,
                      int64_t tile_rows, int64_t block, const int64_t *row_at, const int64_t *column_at, int32_t add,
                      float *out) {
  int64_t m = rows[1] - rows[0], bands = (m + BAND - 1) / BAND, panels = (columns[1] - columns[0] + PANEL - 1) / PANEL;
  int64_t n = panels * PANEL, length = least_of(block, inner);
  int64_t floats_of_both = m * n + (bands * BAND + TOGETHER * PANEL) * length;
  int64_t size = floats_of_both * sizeof(float) + (bands + TOGETHER) * sizeof(struct extent);
  char *memory = aligned_alloc(WIDTH, (size + WIDTH - 1) / WIDTH * WIDTH);
  if (!memory) return 1;
  float *sums = (float *)memory;
  struct packed right = { sums + m * n, (struct extent *)(sums + floats_of_both) };
  struct packed left = { right.values + TOGETHER * PANEL * length, right.extents + TOGETHER };
  for (int64_t group = groups[0]; group < groups[1]; group++) {
    for (int64_t pass = 0; pass < passes; pass++)
      for (int64_t k = 0; k < inner; k += block) {
        int64_t some = least_of(block, inner - k);
        int last = pass == passes - 1;
        pack_groups(values[pass][0] + group * steps[0], a, rows[0], rows[1], k, some, BAND, &left);
        for (int64_t panel = 0; panel < panels; panel += TOGETHER) {
          int64_t first = columns[0] + panel * PANEL, count = least_of(TOGETHER, panels - panel);
          pack_groups(values[pass][1] + group * steps[1], b, first, least_of(columns[1], first + count * PANEL), k,
                      some, PANEL, &right);
          struct place place = { .k = k, .columns = n };
          multiply(how, &place, 0, &left, &right, m, some, count * PANEL, tile_rows, block, pass || k,
                   pass && last && !k, sums + panel * PANEL, n, last && k + block >= inner ? target : 0);
        }
      }
    for (int64_t i = 0; i < m; i++)
      place_row(sums + i * n, column_at + columns[0], columns[1] - columns[0], add,
                out + group * steps[2] + row_at[rows[0] + i]);
  }
  free(memory);
  return 0;
}
