/* Units of up to MOST_ROWS x MOST_COLUMNS of one processing element, run cycle by cycle, for a page that shows them.

   Before this: unit.c, STEPWISE and ALONE; DEPTH (places of the accumulator bank), WRITE_LATENCY (cycles from a sum's
   arrival there to its write), MOST_SIDE (rows and columns of the matrices), PERIOD (cycles after which a pattern of
   waits repeats), MOST_PASSES and `passes`; page_rows, page_columns.

   page_begin takes the matrices from `page_a` and `page_b`, and page_cycle computes one cycle; what the unit held in
   that cycle, before its clock edge, is then in the frame. */

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name)))
#else
#define EXPORT(name)
#endif

enum {
  MOST_TILES = MOST_PASSES * MOST_SIDE * MOST_SIDE,
  TILE_ADD = 1 << 2, TILE_CLEAR_NAN = 1 << 3, TILE_EMIT = 1 << 4, TILE_KEEP = 1 << KEEP_MARK,
};

/* frame_layout in layout.py says the same. */
static struct {
  uint32_t streams[STREAM_SIGNALS], counters[COUNTERS];
  uint32_t activations[MOST_ROWS], weights[MOST_COLUMNS], results[MOST_COLUMNS];
  uint32_t admission[sizeof(struct admission_state) / sizeof(uint32_t)];
  uint32_t bank[MOST_COLUMNS];  /* what was written at the last clock edge, where something was */
  uint32_t cells[MOST_ELEMENT_ROWS * MOST_COLUMNS][CELL_LIMBS];  /* those that there are, row by row */
} frame;

static struct unit *page_unit;
static uint32_t page_a[MOST_SIDE * MOST_SIDE], page_b[MOST_SIDE * MOST_SIDE];
static uint8_t page_stalls[3 * PERIOD];
static struct tile page_tiles[MOST_TILES];
static uint32_t page_out[MOST_SIDE * (MOST_SIDE + MOST_COLUMNS)];

EXPORT(page_frame) uint32_t *page_frame(void) { return (uint32_t *)&frame; }
EXPORT(page_matrix) uint32_t *page_matrix(int right) { return right ? page_b : page_a; }
EXPORT(page_pattern) uint8_t *page_pattern(void) { return page_stalls; }
EXPORT(page_tile) struct tile *page_tile(void) { return page_tiles; }

static int least(int a, int b) { return a < b ? a : b; }

/* The tiles of an (m, k) x (k, n) product in the order of tiling.py; gives how many. */
static int tile_product(int m, int k, int n, int first_pass, int pass_count) {
  int count = 0;
  for (int column = 0; column < n; column += COLUMNS)
    for (int row = 0; row < m; row += DEPTH)
      for (int pass = 0; pass < pass_count; pass++)
        for (int inner = 0; inner < k; inner += ROWS) {
          int first = inner == 0, last = pass == pass_count - 1;
          int marks = (first && !pass ? 0 : TILE_ADD) | (first && last && pass ? TILE_CLEAR_NAN : 0) |
                      (last && inner + ROWS >= k ? TILE_EMIT : 0) |
                      (k <= ROWS && pass_count == 1 && row ? TILE_KEEP : 0);
          page_tiles[count++] = (struct tile){
            .row = row, .rows = least(m - row, DEPTH), .inner = inner, .inners = least(k - inner, ROWS),
            .weight_row = inner, .column = column, .columns = least(n - column, COLUMNS),
            .marks = marks | passes[first_pass + pass][0] << ACTIVATION_PART,
            .weight_marks = passes[first_pass + pass][1] << WEIGHT_PART,
          };
        }
  return count;
}

/* A unit after reset, with the product of the two matrices to do; gives its tiles, 0 if there is no memory. */
EXPORT(page_begin) int page_begin(int rows, int columns, int m, int k, int n, int first_pass, int pass_count, int stalls) {
  if (page_unit) unit_delete(page_unit);
  page_rows = rows, page_columns = columns;
  int tiles = tile_product(m, k, n, first_pass, pass_count);
  struct window window = {
    .rows = ELEMENT_ROWS, .columns = columns, .cycles = 1, .cells = frame.cells, .streams = &frame.streams,
    .activations = frame.activations, .weights = frame.weights, .results = frame.results,
  };
  int64_t results = (int64_t)m * ((n + columns - 1) / columns);
  page_unit = unit_new(page_a, page_b, k, n, page_tiles, tiles, results, stalls ? page_stalls : 0, PERIOD, 2 * PERIOD,
                       page_out, 1, &window);
  return page_unit ? tiles : 0;
}

/* One cycle; gives whether it was the last one: 0, or 1, or 2 if the unit hangs. */
EXPORT(page_cycle) int page_cycle(void) {
  struct unit *u = page_unit;
  memcpy(frame.admission, &u->admission, sizeof frame.admission);
  _Static_assert(MOST_COLUMNS + 1 + WRITE_LATENCY < CONTROLS - MOST_CONTROL_DELAY, "marks are remembered until the write");
  for (int c = 0; c < COLUMNS; c++) {
    uint32_t control = u->controls[(u->progress.cycle - c - 2 - WRITE_LATENCY) & (CONTROLS - 1)];
    frame.bank[c] = u->bank[c / LANES].memory[control >> 1 & (DEPTH - 1)][c % LANES];
  }
  for (int n = 0; n < COUNTERS; n++) frame.counters[n] = u->progress.counters[n];
  u->window.first_cycle = u->progress.cycle;
  unit_run(u, 1);
  return u->progress.state;
}

/* From the first beat taken to the last result given, both included. */
EXPORT(page_cycles) int page_cycles(void) { return page_unit->progress.cycles; }
