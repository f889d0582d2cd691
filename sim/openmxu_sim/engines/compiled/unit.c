/* A unit, cycle by cycle: the functions of its parts, wired as the unit is.

   Before this: vectors.c, the functions of the parts, and these constants:
   ROWS, COLUMNS, TERMS (rows that an element stands for), ROW_STEP (cycles from a row of elements to the next), SKEW_BASE (cycles before row 0), CONTROL_DELAY (cycles from
   admission to the accumulator bank), SOURCE_WIDTH, OPERAND_WIDTH (bits of a word before and behind the edge).

   A text for units of several sizes defines MOST_ROWS, MOST_COLUMNS and MOST_CONTROL_DELAY, too; ROWS, COLUMNS and
   CONTROL_DELAY may then vary from run to run. STEPWISE: blocks of one cycle, so that after each block all parts have
   come as far. ALONE: there are no threads, and what they would need is defined.

   Nothing in a unit decides anything upon data. So admission, edges and emission run first, for a block of cycles;
   then the array, row after row, each for the whole block, so that what it works on stays near the processor; then
   the accumulator bank. Several threads take a part of the rows each and hand blocks on. */

#ifndef ALONE
#include <pthread.h>
#endif

#ifndef TWO_FORMATS  /* the words of both streams pass the same edges */
#define weight_edge_state edge_state
#define weight_edge_in edge_in
#define weight_edge_out edge_out
#define weight_edge_begin edge_begin
#define weight_edge_look edge_look
#define weight_edge_step edge_step
#endif

#ifndef MOST_ROWS
#define MOST_ROWS ROWS
#define MOST_COLUMNS COLUMNS
#define MOST_CONTROL_DELAY CONTROL_DELAY
#endif

enum {
  ROW_BLOCKS = (MOST_ROWS + LANES - 1) / LANES,
  COLUMN_BLOCKS = (MOST_COLUMNS + LANES - 1) / LANES,
  MOST_ELEMENT_ROWS = MOST_ROWS / TERMS,
  MARK_LIMBS = (MOST_ELEMENT_ROWS + 31) / 32,
  ACTIVATION_LIMBS = (TERMS * OPERAND_WIDTH + 31) / 32,
  MARKS = 6, LAST_MARK = 1, KEEP_MARK = 5,
  WEIGHT_PART = 1, ACTIVATION_PART = MARKS,  /* the lowest bit of the part among the marks of a beat */
  CELL_LIMBS = sizeof(struct pe_state) / sizeof(word),
  MOST_THREADS = 16,
  /* Cycles of a block: sums and weights between two rows should fit the nearest cache. */
  FITTING = 24576 / (COLUMN_BLOCKS * 2 * sizeof(word)),
#ifdef STEPWISE
  BLOCK = 1,
#else
  BLOCK = FITTING < 8 ? 8 : FITTING > 64 ? 64 : FITTING,
#endif
};

#define ELEMENT_ROWS (ROWS / TERMS)

/* The next power of two. */
#define UP1(n) ((n) | (n) >> 1)
#define UP2(n) (UP1(n) | UP1(n) >> 2)
#define UP4(n) (UP2(n) | UP2(n) >> 4)
#define UP8(n) (UP4(n) | UP4(n) >> 8)
#define POWER(n) ((UP8((uint32_t)(n) - 1) | UP8((uint32_t)(n) - 1) >> 16) + 1)

enum {
  /* Cycles that are remembered: those that some thread has not done yet, and those that are known ahead. */
  RECENT = POWER((MOST_THREADS + 2) * BLOCK),
  WEIGHTS = POWER(MOST_COLUMNS + 2 * BLOCK),
  ACTIVATIONS = POWER(SKEW_BASE + (MOST_ELEMENT_ROWS - 1) * ROW_STEP + 1 + (MOST_THREADS + 2) * BLOCK),
  CONTROLS = POWER(MOST_CONTROL_DELAY + 1 + (MOST_THREADS + 2) * BLOCK),
};

/* Signals of the streams, and the beats that leave the edges; STREAMS in trace.py has their names. */
enum {
  WEIGHTS_VALID, WEIGHTS_READY, WEIGHTS_MARKS, ACTIVATIONS_VALID, ACTIVATIONS_READY, ACTIVATIONS_MARKS,
  RESULTS_VALID, RESULTS_READY, RESULTS_LAST, ADMISSION_SHIFT, ADMISSION_GO, STREAM_SIGNALS
};

/* Rows and columns of a tile in the matrices of activations and of weights, and its marks on both streams. */
struct tile { int64_t row, rows, inner, inners, weight_row, column, columns, marks, weight_marks; };

/* What is known of a cycle when it is over for admission and emission. */
struct cycle {
  uint32_t loads[MARK_LIMBS], swaps[MARK_LIMBS];
  uint32_t fetch, row, taken;
};

/* What is written down of a run: some cells, and what stands on the streams, for some cycles. */
struct window {
  int64_t first_row, rows, first_column, columns, first_cycle, cycles;
  uint32_t (*cells)[CELL_LIMBS];  /* registers of the cells, row by row, cycle after cycle */
  uint32_t (*streams)[STREAM_SIGNALS];
  uint32_t *activations, *weights, *results;  /* words offered to those rows and columns, and by these columns */
};

struct between { word sums[BLOCK][COLUMN_BLOCKS], weights[BLOCK][COLUMN_BLOCKS]; };

enum state { RUNNING, DONE, HANGS };

/* With the counters of the unit itself, if it has any; see Counters in protocol.py. */
struct progress { int64_t state, cycle, cycles, results, counters[COUNTERS]; };

struct source { int64_t tile, beat; int offered; };

struct unit {
  struct progress progress;
  const uint32_t *a, *b;
  int64_t inner, columns;  /* of the matrices: columns of a, columns of b */
  const struct tile *tiles;
  int64_t tile_count, results;
  const uint8_t *waits;  /* of weights, activations, results; or none */
  int64_t period, patience;
  uint32_t *out;
  int threads;
  struct window window;

  struct source weight_source, activation_source;
  word weight_beat[COLUMN_BLOCKS], activation_beat[ROW_BLOCKS];
  uint32_t weight_marks, activation_marks;
  int64_t start, idle;

  struct admission_state admission;
  struct weight_edge_state weight_edge[COLUMN_BLOCKS];
  struct edge_state activation_edge[ROW_BLOCKS];
  struct emission_state emission;
#ifdef STATUS
  struct status_state status;
#endif
  struct column_marks_state column_marks[COLUMN_BLOCKS];

  uint32_t weights[WEIGHTS][COLUMN_BLOCKS * LANES];  /* by cycle of arrival at row 0 */
  uint32_t activations[MOST_ELEMENT_ROWS][ACTIVATIONS][ACTIVATION_LIMBS];  /* by cycle of arrival at column 0 */
  uint32_t controls[CONTROLS];  /* by cycle of arrival at the bank */
  struct cycle recent[RECENT];

  struct pe_state cells[MOST_ELEMENT_ROWS][COLUMN_BLOCKS];
  struct column_state bank[COLUMN_BLOCKS];
  int64_t given;  /* results */

  struct between between[MOST_THREADS + 1];
  struct { int64_t first; int length; } blocks[MOST_THREADS + 1];
  int64_t block_count;
  pthread_mutex_t mutex;
  pthread_cond_t all_there;
  int there;
  int64_t meeting;
};

/* A row of `count` words into lanes, and `rest` behind them. */
static void fill(word *lanes, int blocks, const uint32_t *row, int64_t count, uint32_t rest) {
  for (int j = 0; j < blocks; j++) lanes[j] = everywhere(rest);
  if (count) memcpy(lanes, row, count * sizeof *row);
}

static int waits(const struct unit *u, int stream) {
  return u->waits && u->waits[stream * u->period + u->progress.cycle % u->period];
}

/* Whether a cycle is written down. */
static int watched(const struct unit *u, int64_t t) {
  return t >= u->window.first_cycle && t < u->window.first_cycle + u->window.cycles;
}

/* A source that has nothing on offer offers its next beat, unless it waits. */
static void offer_weights(struct unit *u) {
  struct source *s = &u->weight_source;
  if (s->offered) return;
  fill(u->weight_beat, COLUMN_BLOCKS, 0, 0, 0);
  u->weight_marks = 0;
  while (s->tile < u->tile_count && u->tiles[s->tile].marks >> KEEP_MARK & 1) s->tile++;
  if (s->tile == u->tile_count || waits(u, 0)) return;
  const struct tile *tile = &u->tiles[s->tile];
  int64_t k = ROWS - 1 - s->beat;  /* the last row first; rows that are missing multiply +0 with -0 */
  uint32_t negative_zero = 1u << (SOURCE_WIDTH - 1);
  fill(u->weight_beat, COLUMN_BLOCKS, u->b + (tile->weight_row + k) * u->columns + tile->column,
       k < tile->inners ? tile->columns : 0, negative_zero);
  s->offered = 1;
  u->weight_marks = tile->weight_marks | (++s->beat == ROWS);
  if (s->beat == ROWS) s->beat = 0, s->tile++;
}

static void offer_activations(struct unit *u) {
  struct source *s = &u->activation_source;
  if (s->offered) return;
  fill(u->activation_beat, ROW_BLOCKS, 0, 0, 0);
  u->activation_marks = 0;
  if (s->tile == u->tile_count || waits(u, 1)) return;
  const struct tile *tile = &u->tiles[s->tile];
  fill(u->activation_beat, ROW_BLOCKS, u->a + (tile->row + s->beat) * u->inner + tile->inner, tile->inners, 0);
  s->offered = 1;
  u->activation_marks = tile->marks | (s->beat == 0);
  if (++s->beat == tile->rows) u->activation_marks |= 1u << LAST_MARK, s->beat = 0, s->tile++;
}

/* The words of a beat, whether it is taken, and which part of them is multiplied. */
#ifdef SPLITTER
#define PART(part) , .i_part = { everywhere(part) }
#else
#define PART(part)
#endif
#define STEP_EDGE(edge, state, words, taken, part) do { \
    struct edge##_in in = { .i_words = { words }, .i_take = { everywhere(taken) } PART(part) }; \
    edge##_step(state, &in, 0); \
  } while (0)

/* An activation's bits, from `low` on, in an element's limbs; the lowest bits come first. */
static inline void place_bits(uint32_t *limbs, int low, uint32_t bits) {
  int over = low % 32;
  limbs += low / 32;
  *limbs = over ? *limbs | bits << over : bits;
  if (over + OPERAND_WIDTH > 32) limbs[1] = bits >> (32 - over);
}

/* Everything that decides, for one cycle. */
static void decide(struct unit *u) {
  int64_t t = u->progress.cycle;
  offer_weights(u);
  offer_activations(u);
  int ready = !waits(u, 2);
  struct cycle *now = &u->recent[t % RECENT];

  /* Emission. */
  struct emission_in emission_in;
  struct emission_out emission_out;
  struct column_marks_out last_column;
  column_marks_look(&u->column_marks[(COLUMNS - 1) / LANES], 0, &last_column);
  emission_in.i_control[0] = last_column.o_control[0][(COLUMNS - 1) % LANES];
  emission_in.i_ready[0] = -(uint32_t)ready;
  emission_step(&u->emission, &emission_in, &emission_out);
  now->fetch = emission_out.o_fetch[0];
  now->row = emission_out.o_row[0];
  now->taken = ready && emission_out.o_valid[0];

  /* What the edges hold goes to the array, each lane in its time. */
  struct weight_edge_out weight_shown;
  struct edge_out shown;
  uint32_t lanes[LANES];
  for (int j = COLUMN_BLOCKS; j--;) {
    weight_edge_look(&u->weight_edge[j], 0, &weight_shown);
    memcpy(lanes, weight_shown.o_words, sizeof lanes);
    for (int l = 0; l < LANES; l++) u->weights[(t + j * LANES + l) % WEIGHTS][j * LANES + l] = lanes[l];
  }
  for (int j = ROW_BLOCKS; j--;) {
    edge_look(&u->activation_edge[j], 0, &shown);
    memcpy(lanes, shown.o_words, sizeof lanes);
    int count = ROWS - j * LANES < LANES ? ROWS - j * LANES : LANES;
    for (int l = 0; l < count; l++) {
      int row = (j * LANES + l) / TERMS, low = (j * LANES + l) % TERMS * OPERAND_WIDTH;
      place_bits(u->activations[row][(t + SKEW_BASE + row * ROW_STEP) % ACTIVATIONS], low, lanes[l]);
    }
  }

  /* Admission. */
  struct admission_in in;
  struct admission_out out;
  uint32_t *places[MARKS] = { in.i_first, in.i_last, in.i_add, in.i_clear_nan, in.i_emit, in.i_keep };
  for (int mark = 0; mark < MARKS; mark++) *places[mark] = -(u->activation_marks >> mark & 1);
  in.i_weights[0] = -(uint32_t)u->weight_source.offered;
  in.i_activations[0] = -(uint32_t)u->activation_source.offered;
  in.i_freed[0] = emission_out.o_fetch[0];
  admission_step(&u->admission, &in, &out);
  memcpy(now->loads, out.o_loads, sizeof now->loads);
  memcpy(now->swaps, out.o_swaps, sizeof now->swaps);
  u->controls[(t + CONTROL_DELAY) % CONTROLS] = out.o_control[0];
  int took_weights = out.o_weights_taken[0] != 0, took_activations = out.o_activations_taken[0] != 0;

  /* The clock edge of the edges. */
  for (int j = 0; j < COLUMN_BLOCKS; j++)
    STEP_EDGE(weight_edge, &u->weight_edge[j], u->weight_beat[j], out.o_weights_taken[0], u->weight_marks >> WEIGHT_PART);
  for (int j = 0; j < ROW_BLOCKS; j++)
    STEP_EDGE(edge, &u->activation_edge[j], u->activation_beat[j], out.o_activations_taken[0], u->activation_marks >> ACTIVATION_PART);
#ifdef STATUS
  struct status_out status_out;
  struct status_in status = {
    .i_weights_valid = { -(uint32_t)u->weight_source.offered }, .i_weights_ready = { out.o_weights_ready[0] },
    .i_activations_valid = { -(uint32_t)u->activation_source.offered },
    .i_activations_ready = { out.o_activations_ready[0] },
    .i_results_valid = { emission_out.o_valid[0] }, .i_results_ready = { -(uint32_t)ready },
    .i_weights_last = { -(u->weight_marks & 1) }, .i_go = { out.o_go[0] },
    .i_waits_input = { out.o_waits_input[0] }, .i_waits_output = { out.o_waits_output[0] }, .i_clear = { 0 },
  };
  uint32_t *seen[MARKS] = { status.i_first, status.i_last, status.i_add, status.i_clear_nan, status.i_emit,
                            status.i_keep };
  for (int mark = 0; mark < MARKS; mark++) *seen[mark] = -(u->activation_marks >> mark & 1);
  status_step(&u->status, &status, &status_out);
#endif
  if (watched(u, t)) {
    uint32_t signals[STREAM_SIGNALS] = {
      u->weight_source.offered, -out.o_weights_ready[0], u->weight_marks, u->activation_source.offered,
      -out.o_activations_ready[0], u->activation_marks, -emission_out.o_valid[0], ready, -emission_out.o_last[0],
      -out.o_shift[0], -out.o_go[0],
    };
    int64_t n = t - u->window.first_cycle;
    memcpy(u->window.streams[n], signals, sizeof signals);
    memcpy(u->window.activations + n * u->window.rows * TERMS,
           (uint32_t *)u->activation_beat + u->window.first_row * TERMS, u->window.rows * TERMS * sizeof(uint32_t));
    memcpy(u->window.weights + n * u->window.columns, (uint32_t *)u->weight_beat + u->window.first_column,
           u->window.columns * sizeof(uint32_t));
  }
  if (took_weights) u->weight_source.offered = 0;
  if (took_activations) u->activation_source.offered = 0;
  if ((took_weights || took_activations) && u->start < 0) u->start = t;

  /* Marks move along the bank. */
  for (int j = COLUMN_BLOCKS; j--;) {
    struct column_marks_out here, before = { .o_control = { everywhere(u->controls[t % CONTROLS]) } };
    struct column_marks_in column;
    column_marks_look(&u->column_marks[j], 0, &here);
    if (j) column_marks_look(&u->column_marks[j - 1], 0, &before);
    column.i_control[0] = shifted(before.o_control[0], here.o_control[0]);
    column_marks_step(&u->column_marks[j], &column, &here);
  }

  u->progress.results += now->taken;
  if (now->taken) u->progress.cycles = t + 1 - u->start;
  u->idle = took_weights || took_activations || now->taken ? 0 : u->idle + 1;
  u->progress.cycle = t + 1;
  if (u->progress.results == u->results) u->progress.state = DONE;
  else if (u->idle > u->patience) u->progress.state = HANGS;
}

/* What goes from cell to cell: block j of a row in cycle n takes from its neighbours and shows what it holds. */
static inline __attribute__((always_inline)) void move(struct pe_state *row, const struct pe_out *edge,
                                                       struct between *between, int n, int j, struct pe_in *in) {
  struct pe_out here, before = *edge;
  pe_look(&row[j], 0, &here);
  if (j) pe_look(&row[j - 1], 0, &before);
  for (int l = 0; l < ACTIVATION_LIMBS; l++)
    in->i_activation[l] = shifted(before.o_activation[l], here.o_activation[l]);
  in->i_swap[0] = shifted(before.o_swap[0], here.o_swap[0]);
  in->i_load[0] = shifted(before.o_load[0], here.o_load[0]);
  in->i_weight[0] = between->weights[n][j];
  in->i_psum[0] = between->sums[n][j];
  between->weights[n][j] = here.o_weight[0];
  between->sums[n][j] = here.o_psum[0];
}

/* Write down what the cells of a row hold in a cycle. */
static void watch(struct unit *u, int r, int64_t t) {
  const struct window *window = &u->window;
  int64_t row = (t - window->first_cycle) * window->rows + r - window->first_row;
  for (int64_t c = 0; c < window->columns; c++) {
    const uint32_t *lanes = (const uint32_t *)&u->cells[r][(window->first_column + c) / LANES];
    for (int limb = 0; limb < CELL_LIMBS; limb++)
      window->cells[row * window->columns + c][limb] = lanes[limb * LANES + (window->first_column + c) % LANES];
  }
}

/* Rows of the array for a block of cycles: sums and weights that come from above become those that go below. */
static void compute(struct unit *u, int from, int to, int64_t first, int length, struct between *between) {
  for (int r = from; r < to; r++) {
    struct pe_state *row = u->cells[r];
    for (int n = 0; n < length; n++) {
      const struct cycle *now = &u->recent[(first + n) % RECENT];
      struct pe_out edge;
      if (watched(u, first + n) && r >= u->window.first_row && r < u->window.first_row + u->window.rows)
        watch(u, r, first + n);
      for (int l = 0; l < ACTIVATION_LIMBS; l++)
        edge.o_activation[l] = everywhere(u->activations[r][(first + n) % ACTIVATIONS][l]);
      edge.o_swap[0] = everywhere(-(now->swaps[r / 32] >> r % 32 & 1));
      edge.o_load[0] = everywhere(-(now->loads[r / 32] >> r % 32 & 1));
      /* From the right, so that what a cell takes from its neighbour is still there. */
      int j = COLUMN_BLOCKS;
      for (; j % COPIES; j--) {
        struct pe_in in;
        move(row, &edge, between, n, j - 1, &in);
        pe_step(&row[j - 1], &in, 0);
      }
      for (; (int)COLUMN_BLOCKS >= (int)COPIES && j; j -= COPIES) {
        struct pe_in in[COPIES];
        for (int k = COPIES; k--;) move(row, &edge, between, n, j - COPIES + k, &in[k]);
        pe_steps(&row[j - COPIES], in, 0);
      }
    }
  }
}

/* The accumulator bank for a block of cycles. */
static void accumulate(struct unit *u, int64_t first, int length, const struct between *between) {
  for (int n = 0; n < length; n++) {
    const struct cycle *now = &u->recent[(first + n) % RECENT];
    for (int j = COLUMN_BLOCKS; j--;) {
      struct column_out here, before = { .o_control = { everywhere(u->controls[(first + n) % CONTROLS]) } };
      struct column_in in;
      column_look(&u->bank[j], 0, &here);
      if (j) column_look(&u->bank[j - 1], 0, &before);
      if (now->taken && j <= (COLUMNS - 1) / LANES) {
        int count = COLUMNS - j * LANES < LANES ? COLUMNS - j * LANES : LANES;
        memcpy(u->out + u->given * COLUMNS + j * LANES, &here.o_data[0], count * sizeof *u->out);
      }
      if (watched(u, first + n))
        for (int l = 0; l < LANES; l++) {
          int64_t c = j * LANES + l - u->window.first_column;
          if (c >= 0 && c < u->window.columns)
            u->window.results[(first + n - u->window.first_cycle) * u->window.columns + c] = here.o_data[0][l];
        }
      in.i_psum[0] = between->sums[n][j];
      in.i_control[0] = shifted(before.o_control[0], here.o_control[0]);
      in.i_fetch[0] = everywhere(now->fetch);
      in.i_row[0] = everywhere(now->row);
      column_step(&u->bank[j], &in, &here);
    }
    u->given += now->taken;
  }
}

/* One thread's share of a block. */
static void work(struct unit *u, int thread, int64_t block) {
  int slot = block % (MOST_THREADS + 1);
  struct between *between = &u->between[slot];
  if (thread == 0) {
    int64_t first = u->blocks[slot].first = u->progress.cycle;
    while (u->progress.state == RUNNING && u->progress.cycle < first + BLOCK) decide(u);
    int length = u->blocks[slot].length = u->progress.cycle - first;
    for (int n = 0; n < length; n++) memcpy(between->weights[n], u->weights[(first + n) % WEIGHTS], sizeof *between->weights);
    memset(between->sums, 0, sizeof between->sums);
  }
  int64_t first = u->blocks[slot].first;
  int length = u->blocks[slot].length;
  compute(u, ELEMENT_ROWS * thread / u->threads, ELEMENT_ROWS * (thread + 1) / u->threads, first, length, between);
  if (thread == u->threads - 1) accumulate(u, first, length, between);
}

/* Wait until all threads are here. */
static void meet(struct unit *u) {
  pthread_mutex_lock(&u->mutex);
  int64_t meeting = u->meeting;
  if (++u->there == u->threads) {
    u->there = 0;
    u->meeting++;
    pthread_cond_broadcast(&u->all_there);
  }
  while (meeting == u->meeting) pthread_cond_wait(&u->all_there, &u->mutex);
  pthread_mutex_unlock(&u->mutex);
}

struct worker { struct unit *unit; int thread; };

static void *run_worker(void *argument) {
  struct worker *worker = argument;
  struct unit *u = worker->unit;
  pthread_mutex_lock(&u->mutex);  /* held until it is known how many threads there are */
  pthread_mutex_unlock(&u->mutex);
  for (int64_t step = 0; step < u->block_count + u->threads - 1; step++) {
    int64_t block = step - worker->thread;
    if (block >= 0 && block < u->block_count) work(u, worker->thread, block);
    if (u->threads > 1) meet(u);
  }
  return 0;
}

/* Run for at most `blocks` blocks of cycles, in fewer threads than wanted if the system gives no more. */
void unit_run(struct unit *u, int64_t blocks) {
  pthread_t threads[MOST_THREADS];
  struct worker workers[MOST_THREADS];
  int wanted = u->threads, started = 1;
  u->block_count = blocks;
  pthread_mutex_lock(&u->mutex);
  for (int n = 0; n < wanted; n++) workers[n] = (struct worker){ u, n };
  while (started < wanted && !pthread_create(&threads[started], 0, run_worker, &workers[started])) started++;
  u->threads = started;
  pthread_mutex_unlock(&u->mutex);
  run_worker(&workers[0]);
  while (started-- > 1) pthread_join(threads[started], 0);
#ifdef STATUS
  struct status_out out;
  status_look(&u->status, 0, &out);
  const uint32_t counters[] = { out.o_cycles[0], out.o_busy[0], out.o_input_stalls[0], out.o_output_stalls[0],
                                out.o_error[0] };
  for (int n = 0; n < COUNTERS; n++) u->progress.counters[n] = counters[n];
#endif
}

/* A unit after reset, with work to do; null if there is no memory. */
struct unit *unit_new(const uint32_t *a, const uint32_t *b, int64_t inner, int64_t columns, const struct tile *tiles,
                      int64_t tile_count, int64_t results, const uint8_t *waits, int64_t period, int64_t patience,
                      uint32_t *out, int threads, const struct window *window) {
  struct unit *u = 0;
  if (posix_memalign((void **)&u, sizeof(word), sizeof *u)) return 0;
  memset(u, 0, sizeof *u);
  u->a = a, u->b = b, u->inner = inner, u->columns = columns, u->tiles = tiles, u->tile_count = tile_count;
  u->results = results, u->waits = waits, u->period = period, u->patience = patience, u->out = out;
  u->threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads > ELEMENT_ROWS ? ELEMENT_ROWS : threads;
  u->start = -1;
  if (window) u->window = *window;
  for (int j = 0; j < COLUMN_BLOCKS; j++) {
    weight_edge_begin(&u->weight_edge[j]);
    column_marks_begin(&u->column_marks[j]);
    column_begin(&u->bank[j]);
    for (int r = 0; r < MOST_ELEMENT_ROWS; r++) pe_begin(&u->cells[r][j]);
  }
  for (int j = 0; j < ROW_BLOCKS; j++) edge_begin(&u->activation_edge[j]);
  admission_begin(&u->admission);
  emission_begin(&u->emission);
#ifdef STATUS
  status_begin(&u->status);
#endif
  pthread_mutex_init(&u->mutex, 0);
  pthread_cond_init(&u->all_there, 0);
  return u;
}

const struct progress *unit_progress(const struct unit *u) { return &u->progress; }

void unit_delete(struct unit *u) {
  pthread_cond_destroy(&u->all_there);
  pthread_mutex_destroy(&u->mutex);
  free(u);
}
