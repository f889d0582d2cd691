/* Terms, and what the contract of numbers makes of the beats that a unit has taken. */

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint16_t term;

/* Leaves: PLAIN is every word that was taken but one, TAGGED that one. POISON is any word that means nothing,
   and every function of it. */
enum { POISON, ZERO, NEGATIVE_ZERO, PLAIN, TAGGED, LEAVES };
enum { MOST_TERMS = 1024, BEATS = 2 * ROWS + 2, PENDING = 2, EXPECTED = DEPTH + 4 };
enum { PLACES = MOST_MISTAKES ? DEPTH : LONGEST_TILE };

enum failure {
  HOLDS, UNDEFINED, WRONG_RESULT, UNEXPECTED_RESULT, RESULT_WITHDRAWN, TOO_MANY_TAKEN, RESULTS_LOST, HANGS,
  WRONG_MISTAKE, OUT_OF_TERMS, OUT_OF_STATES, OUT_OF_MEMORY
};

/* What a unit says of its senders; see the reference of streams. */
enum mistake {
  NONE, WEIGHTS_SHORT, WEIGHTS_LONG, TILE_CUT, TILE_UNBEGUN, TILE_LONG, MARKS_CHANGED, WEIGHTS_NONE, MISTAKES
};

static term products[MOST_TERMS][MOST_TERMS], blocks[MOST_TERMS][MOST_TERMS], sums[MOST_TERMS][MOST_TERMS];
static term conversions[MOST_TERMS], clearings[MOST_TERMS][MOST_TERMS];
static bool is_sum[MOST_TERMS], tagged[MOST_TERMS];
static int terms_known;

/* Control: a bit that may be high, low, or either, where it was never set to anything. */
typedef uint8_t bit;
enum { HIGH = 1, LOW = 2, EITHER = 3 };

static inline bit not(bit a) { return (a & HIGH) << 1 | a >> 1; }
static inline bit and(bit a, bit b) { return (a & b & HIGH) | ((a | b) & LOW); }
static inline bit or(bit a, bit b) { return ((a | b) & HIGH) | (a & b & LOW); }
static inline bit choose(bit s, bit a, bit b) { return (s & HIGH ? a : 0) | (s & LOW ? b : 0); }
static inline bit xor(bit a, bit b) { return choose(a, not(b), b); }
static inline bit of_bool(bool a) { return a ? HIGH : LOW; }

/* Addresses; negative where a bit is not defined. */
static inline int append(int number, bit a) {
  return number < 0 || a == EITHER ? -1 : 2 * number + (a == HIGH);
}
static inline bool collide(bit write, int there, int here) {
  return write != LOW && (there == here || there < 0 || here < 0);
}

/* What a cycle does with terms. Whatever depends on control that is not defined is poison. */

/* The term of a function of terms, a new one where it is not known; 0 in a table stands for that. */
static term known(term *place, bool sum, bool has_tag) {
  if (!*place) {
    if (terms_known >= MOST_TERMS) return POISON;
    is_sum[terms_known] = sum, tagged[terms_known] = has_tag;
    *place = terms_known++;
  }
  return *place;
}

static inline term term_constant(term a) { return a; }

static term term_multiply(term a, term b) {
  return a && b ? known(&products[a][b], false, tagged[a] | tagged[b]) : POISON;
}

/* Products that are added at once: their order is that of the rows. */
static term term_join(term a, term b) {
  return a && b ? known(&blocks[a][b], false, tagged[a] | tagged[b]) : POISON;
}

/* -0 is neutral to every sum. */
static term term_add(term a, term b) {
  if (a == NEGATIVE_ZERO && is_sum[b]) return b;
  return a && b ? known(&sums[a][b], true, tagged[a] | tagged[b]) : POISON;
}

static term term_convert(term a) { return a ? known(&conversions[a], false, tagged[a]) : POISON; }

static term term_clear(term a, term mark) {
  return a && mark ? known(&clearings[a][mark], false, tagged[a] | tagged[mark]) : POISON;
}

static inline term term_choose(bit s, term a, term b) {
  return s == HIGH || a == b ? a : s == LOW ? b : POISON;
}

static inline void term_write(term *memory, int depth, bit enable, int at, term value) {
  for (int place = 0; place < depth; place++)
    if (place == at || at < 0) memory[place] = term_choose(enable, at < 0 ? POISON : value, memory[place]);
}

static inline term term_read(const term *memory, int depth, bit enable, int at, bool collides, term kept) {
  return term_choose(enable, collides || at < 0 ? POISON : memory[at], kept);
}

struct unit {
  uint64_t control[CONTROL_WORDS];
  term terms[UNIT_TERMS];
};

struct marks {
  uint8_t first, last, add, emit, keep;
};

struct inputs {
  bit rst, weights__valid, activations__valid, results__ready, weights_last;
  bit activations_first, activations_last, activations_add, activations_clear_nan, activations_emit, activations_keep;
  term weights[COLUMNS], activations[ROWS], weights_last_word, activations_last_word, activations_clear_nan_word;
};

struct outputs {
  bit weights__ready, activations__ready, results__valid, mistake[3];
  term result[COLUMNS + 1];
};

/* What a cycle does with sets of places of terms: which ones a term is made of. */

typedef uint64_t set __attribute__((vector_size(32)));
enum { SET_WORDS = sizeof(set) / sizeof(uint64_t) };
_Static_assert(UNIT_TERMS <= 64 * SET_WORDS, "a unit with more terms needs larger sets");

static inline set set_constant(term a) { (void)a; return (set){0}; }
static inline set set_multiply(set a, set b) { return a | b; }
static inline set set_join(set a, set b) { return a | b; }
static inline set set_add(set a, set b) { return a | b; }
static inline set set_convert(set a) { return a; }
static inline set set_clear(set a, set mark) { return a | mark; }
static inline set set_choose(bit s, set a, set b) { return s == HIGH ? a : s == LOW ? b : a | b; }

static inline void set_write(set *memory, int depth, bit enable, int at, set value) {
  for (int place = 0; place < depth; place++)
    if (place == at) memory[place] = set_choose(enable, value, memory[place]);
}

static inline set set_read(const set *memory, int depth, bit enable, int at, bool collides, set kept) {
  return set_choose(enable, collides || at < 0 ? (set){0} : memory[at], kept);
}

/* What has been taken and not yet been given back. Whatever means nothing any more is zero. */
struct model {
  term beats[BEATS][COLUMNS]; /* weights of tiles that have not begun */
  term active[ROWS][COLUMNS];
  term pending[PENDING][ROWS + 2]; /* activations that wait for their weights, and their marks clear_nan and last */
  term bank[PLACES][COLUMNS]; /* with mistakes a ring, and place 0 where the next result goes */
  term expected[EXPECTED + PENDING][COLUMNS + 1];  // units with bugs give more than there may be
  struct marks pending_marks[PENDING];
  uint8_t beats_taken, weights_taken, pending_taken, row, expected_results;
  /* The sender: beats of the tile that is being sent, its marks, for each row how many tiles its sum has, and whether
     a tile has taken weights. */
  uint8_t sent, supplied;
  struct marks marks;
  uint8_t tiles[PLACES];
  /* With mistakes: where the next beat goes that is not emitted; mistakes so far, and the first one. */
  uint8_t place, mistakes, mistake;
};

/* With mistakes. Where a beat goes that comes when `next` is the place of one that is not emitted; and what is next. */
static int row_of(struct marks marks, int next) { return marks.first || marks.emit ? 0 : next; }
static int row_behind(struct marks marks, int place) { return marks.last ? 0 : (place + 1) % DEPTH; }

/* A result goes: the places move on by one. Behind the last one of a tile the others mean nothing, too. */
static void move_on(void *places, size_t size, bool last) {
  char *bytes = places;
  memmove(bytes, bytes + size, (DEPTH - 1) * size);
  memset(last ? bytes : bytes + (DEPTH - 1) * size, 0, last ? DEPTH * size : size);
}

/* Zero latency: everything that can be computed is. */
static void compute(struct model *m) {
  while (m->pending_taken) {
    const struct marks marks = m->pending_marks[0];
    if (marks.first && !marks.keep) {
      if (m->beats_taken < ROWS) return;
      /* Row R-1 comes first. */
      for (int row = 0; row < ROWS; row++) memcpy(m->active[row], m->beats[ROWS - 1 - row], sizeof m->active[row]);
      m->beats_taken -= ROWS;
      memmove(m->beats, m->beats[ROWS], sizeof m->beats[0] * (BEATS - ROWS));
      memset(m->beats[BEATS - ROWS], 0, sizeof m->beats[0] * ROWS);
    }
    if (marks.first) m->row = 0;
    if (MOST_MISTAKES) m->row = row_of(marks, m->row);
    for (int column = 0; column < COLUMNS; column++) {
      term sum = ZERO;
      term block = POISON;
      for (int row = 0; row < ROWS; row++) {
        term a = m->pending[0][row], w = m->active[row][column];
        if (CONVERTS) a = term_convert(a), w = term_convert(w);
        const term product = term_multiply(a, w);
        block = row % TERMS ? term_join(block, product) : product;
        if (row % TERMS == TERMS - 1) sum = term_add(sum, block);
      }
      if (marks.add) {
        const term old = m->bank[m->row][column];
        sum = term_add(term_clear(old, m->pending[0][ROWS]), sum);
      }
      m->bank[m->row][column] = sum;
      if (marks.emit) m->expected[m->expected_results][column] = sum;
    }
    if (marks.emit) m->expected[m->expected_results++][COLUMNS] = m->pending[0][ROWS + 1];
    if (MOST_MISTAKES) {
      if (marks.emit) move_on(m->bank, sizeof m->bank[0], marks.last);
      m->row = row_behind(marks, m->row);
    } else {
      m->row++;
    }
    if (MOST_MISTAKES) {
      /* A wrong beat may use these weights, too. */
      if (!KEEPS && marks.last && m->mistakes >= MOST_MISTAKES && m->pending_taken == 1)
        memset(m->active, 0, sizeof m->active);
    } else if (marks.last) {
      if (!KEEPS) memset(m->active, 0, sizeof m->active);
      m->row = 0;
      if (marks.emit) memset(m->bank, 0, sizeof m->bank);
    }
    m->pending_taken--;
    for (int beat = 0; beat < PENDING; beat++) {
      if (beat + 1 < PENDING) {
        memcpy(m->pending[beat], m->pending[beat + 1], sizeof m->pending[beat]);
        m->pending_marks[beat] = m->pending_marks[beat + 1];
      } else {
        memset(m->pending[beat], 0, sizeof m->pending[beat]);
        memset(&m->pending_marks[beat], 0, sizeof m->pending_marks[beat]);
      }
    }
  }
}

static bool take_weights(struct model *m, const struct inputs *i) {
  if (m->beats_taken == BEATS) return false;
  memcpy(m->beats[m->beats_taken++], i->weights, sizeof i->weights);
  const bool complete = m->weights_taken == ROWS - 1;
  m->mistakes += MOST_MISTAKES && complete != (i->weights_last == HIGH);
  if (MOST_MISTAKES && !m->mistake && complete != (i->weights_last == HIGH))
    m->mistake = complete ? WEIGHTS_LONG : WEIGHTS_SHORT;
  m->weights_taken = (m->weights_taken + 1) % ROWS;
  return true;
}

/* Whether a tile may keep the weights of the one before it. */
static bool may_keep(const struct model *m) { return KEEPS && m->supplied; }

static bool may_add(const struct model *m, int place) { return m->tiles[place] && m->tiles[place] < LONGEST_SUM; }

/* Whether marks differ that are constant within a tile. */
static bool differ(struct marks a, struct marks b) { return a.add != b.add || a.emit != b.emit || a.keep != b.keep; }

/* Whether a beat is right: its marks go with those before, and there are sums to add to. A tile may always end. */
static bool is_right(const struct model *m, struct marks marks) {
  const int place = row_of(marks, m->place);
  if (marks.first != !m->sent || (marks.first && marks.keep && !may_keep(m))) return false;
  if (m->sent && differ(marks, m->marks)) return false;
  if (m->sent && marks.last) return true;
  if (marks.add && !may_add(m, place)) return false;
  return marks.last || (m->sent + 1 < LONGEST_TILE && (!marks.add || may_add(m, (place + 1) % DEPTH)));
}

static enum mistake mistake_of(const struct model *m, struct marks marks) {
  if (m->sent && marks.first) return TILE_CUT;
  if (!m->sent && !marks.first) return TILE_UNBEGUN;
  if (marks.first && marks.keep && !m->supplied) return WEIGHTS_NONE;
  if (m->sent == DEPTH) return TILE_LONG;
  return m->sent && differ(marks, m->marks) ? MARKS_CHANGED : NONE;
}

static void follow_sender(struct model *m, struct marks marks) {
  m->mistakes += !is_right(m, marks);
  if (!m->mistake) m->mistake = mistake_of(m, marks);
  if (marks.first || !m->sent) m->marks = marks, m->sent = 0;
  if (m->sent < DEPTH) m->sent++;
  const int place = row_of(marks, m->place);
  m->tiles[place] = marks.add ? m->tiles[place] + 1 : 1;
  if (marks.emit) move_on(m->tiles, sizeof m->tiles[0], marks.last);
  m->place = row_behind(marks, place);
  if (marks.last) m->sent = 0, memset(&m->marks, 0, sizeof m->marks);
}

static bool take_activations(struct model *m, const struct inputs *i, struct marks marks) {
  if (m->pending_taken == PENDING || m->expected_results == EXPECTED) return false;
  memcpy(m->pending[m->pending_taken], i->activations, sizeof i->activations);
  m->pending[m->pending_taken][ROWS] = i->activations_clear_nan_word;
  m->pending[m->pending_taken][ROWS + 1] = i->activations_last_word;
  m->pending_marks[m->pending_taken++] = marks;
  const bool supplies = KEEPS && marks.first && !marks.keep;
  if (MOST_MISTAKES) {
    follow_sender(m, marks);
    m->supplied |= supplies;
    return true;
  }
  m->tiles[m->sent] = marks.add ? m->tiles[m->sent] + 1 : 1;
  m->sent++, m->marks = marks, m->supplied |= supplies;
  if (marks.last) {
    if (marks.emit) memset(m->tiles, 0, sizeof m->tiles);
    m->sent = 0;
    memset(&m->marks, 0, sizeof m->marks);
  }
  return true;
}

static void give_result(struct model *m) {
  m->expected_results--;
  memmove(m->expected, m->expected[1], sizeof m->expected[0] * (EXPECTED + PENDING - 1));
  memset(m->expected[EXPECTED + PENDING - 1], 0, sizeof m->expected[0]);
}
