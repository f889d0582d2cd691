/* The search, breadth first, in two passes.

   The first knows control alone, and so visits every state of it. From its graph follow what is lost or hangs,
   and which terms can still reach a result. The second carries the terms; those that cannot reach a result
   any more are poison, or else there would be many times more states that differ in nothing but these. */

struct state {
  struct unit unit;
  struct model model;
};

enum { ABSENT, REFUSED, TAKEN };

/* What happens at the streams in a cycle. A stream is offered nothing, a beat that is refused, or one that is
   taken; the tag, if any, is on one word of a beat that is taken. */
struct choice {
  uint8_t ready, weights, activations, weights_last;
  uint8_t weights_tag, activations_tag; /* word + 1, or 0 */
  struct marks marks;
};

enum { CLEAR_NAN_WORD = ROWS, LAST_WORD };

enum cover {
  WEIGHTS_REFUSED, ACTIVATIONS_REFUSED, RESULT_REFUSED, RESULT_TAKEN, WEIGHTS_DURING_TILE, ACTIVATIONS_BEFORE_WEIGHTS,
  PAUSE_IN_TILE, PAUSE_BETWEEN_TILES, TAKE, ADD, ADD_TO_SUM, STORE, EMIT, KEEP, LONGEST, SHORTER_THAN_SUM, BANK_FULL,
  ALL_STREAMS_AT_ONCE, TAGGED_RESULT, PLAIN_RESULT, WAIT_AFTER_MISTAKE, MISTAKE, COVERS = MISTAKE + MISTAKES - 1
};

struct report {
  uint64_t control_states, states, transitions, covers[COVERS];
  int32_t failure, steps;
  struct choice trace[4096];
};

struct edge {
  uint32_t next;
  struct choice choice;
};

/* What states are known by: two different ones have the same 96 bits once in 10^13 searches of 10^8 states. */
struct key {
  uint64_t low;
  uint32_t high;
};

struct slot {
  uint64_t low;
  uint32_t high, index; /* index + 1; 0: free */
};

/* States, each with the one it was found from; a hash table of their keys. States stand in blocks, so that those
   that are done with can be given back. */
enum { BLOCK = 1 << 14 };

struct graph {
  struct state **blocks;
  uint32_t *parents;
  struct slot *slots;
  struct choice *choices;
  size_t count, room, slot_count, most;
};

static struct graph control, data;
static struct edge *edges;
static size_t edge_count, edge_room, *first_edges; /* of each state of control, and behind the last */
static uint32_t *drains, *offers, *controls; /* controls: of each state of data, its state of control */
static bool *progresses;
static set *live;

static jmp_buf starved; /* where the search ends if there is not enough memory */

static void *allocate(void *old, size_t size) {
  void *new = realloc(old, size);
  if (!new) longjmp(starved, 1);
  return new;
}

static struct key key_of(const struct state *s) {
  const unsigned char *bytes = (const unsigned char *)s;
  uint64_t low = sizeof *s, high = ~low;
  for (size_t at = 0; at < sizeof *s; at += 8) {
    uint64_t part = 0;
    memcpy(&part, bytes + at, sizeof *s - at < 8 ? sizeof *s - at : 8);
    low = (low ^ part) * UINT64_C(0x9e3779b97f4a7c15), high = (high ^ part) * UINT64_C(0xd6e8feb86659fd93);
    low ^= low >> 29, high ^= high >> 32;
  }
  return (struct key){low ^ low >> 32, high ^ high >> 32};
}

/* Where a key stands, or would stand. */
static struct slot *place_of(const struct graph *g, struct key key) {
  size_t slot = key.low & (g->slot_count - 1);
  while (g->slots[slot].index && (g->slots[slot].low != key.low || g->slots[slot].high != key.high))
    slot = (slot + 1) & (g->slot_count - 1);
  return &g->slots[slot];
}

static void grow(struct graph *g) {
  struct slot *old = g->slots;
  const size_t old_count = g->slot_count;
  g->room = g->room ? 2 * g->room : BLOCK;
  g->blocks = allocate(g->blocks, g->room / BLOCK * sizeof *g->blocks);
  g->parents = allocate(g->parents, g->room * sizeof *g->parents);
  g->choices = allocate(g->choices, g->room * sizeof *g->choices);
  g->slot_count = 2 * g->room;
  g->slots = allocate(NULL, g->slot_count * sizeof *g->slots);
  memset(g->slots, 0, g->slot_count * sizeof *g->slots);
  for (size_t slot = 0; slot < old_count; slot++)
    if (old[slot].index) *place_of(g, (struct key){old[slot].low, old[slot].high}) = old[slot];
  free(old);
}

static struct state *state_of(const struct graph *g, size_t index) {
  return &g->blocks[index / BLOCK][index % BLOCK];
}

/* The states of the block before this state are not needed any more. */
static void give_back(struct graph *g, size_t index) {
  if (index && index % BLOCK == 0) {
    free(g->blocks[index / BLOCK - 1]);
    g->blocks[index / BLOCK - 1] = NULL;
  }
}

static void clean(struct graph *g) {
  for (size_t block = 0; block * BLOCK < g->count; block++) free(g->blocks[block]);
  free(g->blocks), free(g->parents), free(g->choices), free(g->slots);
  memset(g, 0, sizeof *g);
}

/* The index of a state, a new one where it is not known. */
static uint32_t find(struct graph *g, const struct state *s, uint32_t parent, const struct choice *c) {
  if (g->count == g->room) grow(g);
  const struct key key = key_of(s);
  struct slot *slot = place_of(g, key);
  if (slot->index) return slot->index - 1;
  *slot = (struct slot){key.low, key.high, g->count + 1};
  if (g->count % BLOCK == 0) g->blocks[g->count / BLOCK] = allocate(NULL, BLOCK * sizeof *s);
  memcpy(state_of(g, g->count), s, sizeof *s);
  g->parents[g->count] = parent, g->choices[g->count] = *c;
  return g->count++;
}

static struct inputs inputs(const struct choice *c) {
  /* Beats that are not taken may say anything. */
  struct inputs i = {.rst = LOW, .weights__valid = of_bool(c->weights != ABSENT),
                     .activations__valid = of_bool(c->activations != ABSENT), .results__ready = of_bool(c->ready),
                     .weights_last = EITHER, .activations_first = EITHER, .activations_last = EITHER,
                     .activations_add = EITHER, .activations_clear_nan = EITHER, .activations_emit = EITHER,
                     .activations_keep = EITHER};
  if (c->weights == TAKEN) {
    if (MOST_MISTAKES) i.weights_last = of_bool(c->weights_last);
    for (int column = 0; column < COLUMNS; column++) i.weights[column] = c->weights_tag == column + 1 ? TAGGED : PLAIN;
  }
  if (c->activations == TAKEN) {
    for (int row = 0; row < ROWS; row++) i.activations[row] = c->activations_tag == row + 1 ? TAGGED : PLAIN;
    i.activations_first = of_bool(c->marks.first), i.activations_last = of_bool(c->marks.last);
    i.activations_add = of_bool(c->marks.add), i.activations_emit = of_bool(c->marks.emit);
    i.activations_keep = of_bool(c->marks.keep);
    i.activations_clear_nan = LOW; /* to whoever looks whether it changes; to sums it may be any */
    /* Where a mark means nothing, it may say anything. */
    if (c->marks.add) i.activations_clear_nan_word = c->activations_tag == CLEAR_NAN_WORD + 1 ? TAGGED : PLAIN;
    if (c->marks.emit) i.activations_last_word = c->activations_tag == LAST_WORD + 1 ? TAGGED : PLAIN;
  }
  return i;
}

enum { MOST_MARKS = KEEPS ? 32 : 16 };

/* The marks that the next beat of activations may have, if some may be wrong. */
static int right_and_wrong(const struct model *m, struct marks *found) {
  int number = 0;
  for (int bits = 0; bits < MOST_MARKS; bits++) {
    const struct marks marks = {bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1, bits >> 4};
    const bool possible = !marks.add || m->tiles[row_of(marks, m->place)] < LONGEST_SUM;
    if (is_right(m, marks) || (possible && m->mistakes < MOST_MISTAKES)) found[number++] = marks;
  }
  return number;
}

/* The marks that the next beat of activations may have. */
static int legal(const struct model *m, struct marks *found) {
  if (MOST_MISTAKES) return right_and_wrong(m, found);
  int number = 0;
  const int row = m->sent;
  const bool longest = row + 1 >= LONGEST_TILE;
  for (int bits = 0; bits < MOST_MARKS / 4; bits++) {
    struct marks marks = {!row, 1, bits & 1, bits >> 1 & 1, bits >> 2};
    if (row ? differ(marks, m->marks) : marks.keep && !may_keep(m)) continue;
    if (marks.add && (m->tiles[row] == 0 || m->tiles[row] >= LONGEST_SUM)) continue;
    found[number++] = marks;
    if (longest || (marks.add && (m->tiles[row + 1] == 0 || m->tiles[row + 1] >= LONGEST_SUM))) continue;
    marks.last = 0;
    found[number++] = marks;
  }
  return number;
}

/* Whatever a unit held, at power-up or later, this is what it holds after a cycle of reset. */
static void reset(struct unit *u) {
  struct unit any;
  struct outputs o;
  const struct choice none = {0};
  memset(&any, 0, sizeof any);
  memset(any.control, 0xff, sizeof any.control);
  struct inputs i = inputs(&none);
  i.rst = HIGH, i.weights__valid = i.activations__valid = i.results__ready = EITHER;
  cycle(&any, &i, &o, u, NULL, NULL);
}

/* One cycle. What it leads to is in `after`. */
static enum failure step(const struct state *s, const struct choice *c, bool with_data, struct state *after,
                         struct outputs *o) {
  const struct inputs i = inputs(c);
  cycle(&s->unit, &i, o, &after->unit, NULL, NULL);
  if (o->results__valid == EITHER) return UNDEFINED;
  for (int place = 0; place < 3 && MOST_MISTAKES; place++)
    if (o->mistake[place] != of_bool(s->model.mistake >> place & 1)) return WRONG_MISTAKE;
  memcpy(&after->model, &s->model, sizeof after->model);
  struct model *m = &after->model;
  if (o->results__valid == HIGH) {
    if (!m->expected_results) return UNEXPECTED_RESULT;
    for (int lane = 0; lane <= COLUMNS && with_data; lane++)
      if (m->expected[0][lane] != o->result[lane] && (m->expected[0][lane] || !MOST_MISTAKES)) return WRONG_RESULT;
    if (c->ready) {
      give_result(m);
    } else {
      struct outputs later;
      struct unit ignored;
      cycle(&after->unit, &i, &later, &ignored, NULL, NULL);
      if (later.results__valid != HIGH) return RESULT_WITHDRAWN;
    }
  }
  if (c->weights == TAKEN && !take_weights(m, &i)) return TOO_MANY_TAKEN;
  if (c->activations == TAKEN && !take_activations(m, &i, c->marks)) return TOO_MANY_TAKEN;
  compute(m);
  if (!with_data) {
    memset(after->unit.terms, 0, sizeof after->unit.terms);
    memset(m, 0, offsetof(struct model, pending_marks));
  }
  return terms_known < MOST_TERMS ? HOLDS : OUT_OF_TERMS;
}

static void cover(const struct model *m, const struct choice *c, const struct outputs *o, uint64_t *covers) {
  const bool taken = c->activations == TAKEN, result = o->results__valid == HIGH && c->ready;
  covers[WEIGHTS_REFUSED] += c->weights == REFUSED;
  covers[ACTIVATIONS_REFUSED] += c->activations == REFUSED;
  covers[RESULT_REFUSED] += o->results__valid == HIGH && !c->ready;
  covers[RESULT_TAKEN] += result;
  covers[WEIGHTS_DURING_TILE] += c->weights == TAKEN && m->sent && !m->pending_taken;
  covers[ACTIVATIONS_BEFORE_WEIGHTS] += taken && c->marks.first && !c->marks.keep && m->beats_taken < ROWS;
  covers[PAUSE_IN_TILE] += c->activations == ABSENT && o->activations__ready == HIGH && m->sent;
  covers[PAUSE_BETWEEN_TILES] += c->activations == ABSENT && o->activations__ready == HIGH && !m->sent;
  covers[TAKE] += taken && !c->marks.add;
  covers[ADD] += taken && c->marks.add;
  covers[ADD_TO_SUM] += taken && c->marks.add && m->tiles[m->sent] > 1;
  covers[STORE] += taken && !c->marks.emit;
  covers[EMIT] += taken && c->marks.emit;
  covers[KEEP] += taken && c->marks.keep;
  covers[LONGEST] += taken && c->marks.last && m->sent == LONGEST_TILE - 1;
  covers[SHORTER_THAN_SUM] += taken && c->marks.last && m->sent < LONGEST_TILE - 1 && m->tiles[m->sent + 1];
  covers[BANK_FULL] += c->activations == REFUSED && m->expected_results >= DEPTH;
  covers[ALL_STREAMS_AT_ONCE] += taken && c->weights == TAKEN && result;
  covers[WAIT_AFTER_MISTAKE] += m->mistake && m->pending_taken && m->beats_taken < ROWS;
  if (m->mistake) covers[MISTAKE + m->mistake - 1]++;
}

static void add_edge(uint32_t next, const struct choice *c) {
  if (edge_count == edge_room) {
    edge_room = edge_room ? 2 * edge_room : 1 << 16;
    edges = allocate(edges, edge_room * sizeof *edges);
  }
  edges[edge_count++] = (struct edge){next, *c};
}

static bool same(const struct marks *a, const struct marks *b) { return !memcmp(a, b, sizeof *a); }

/* Every choice in one state of control. */
static enum failure expand_control(uint32_t index, struct report *report) {
  struct state s, after;
  memcpy(&s, state_of(&control, index), sizeof s);
  memset(&after, 0, sizeof after); /* padding is part of what states are known by */
  const struct model *m = &s.model;
  struct marks marks[MOST_MARKS];
  const int programs = legal(m, marks);
  /* To drain: end the tile that is being sent, and give it the weights that it waits for. */
  const bool wants_weights = m->pending_taken && m->beats_taken < ROWS;
  const struct marks ending = {!m->sent, 1, m->marks.add, m->marks.emit, m->marks.keep};
  const struct marks whole = m->sent ? ending : (struct marks){1, 1, 0, 1, 0};
  struct outputs o;
  for (int ready = 0; ready < 2; ready++) {
    const struct choice none = {.ready = ready};
    const struct inputs nothing = inputs(&none);
    cycle(&s.unit, &nothing, &o, &after.unit, NULL, NULL);
    report->trace[0] = none;
    if (o.weights__ready == EITHER || o.activations__ready == EITHER) return UNDEFINED;
    const bool weights_ready = o.weights__ready == HIGH, activations_ready = o.activations__ready == HIGH;
    const int activation_choices = 1 + (activations_ready ? programs : 1);
    /* Absent, the right `last`, and the wrong one. */
    const bool last = m->weights_taken == ROWS - 1;
    for (int w = 0; w < (weights_ready && m->mistakes < MOST_MISTAKES ? 3 : 2); w++)
      for (int a = 0; a < activation_choices; a++) {
        struct choice c = none;
        c.weights = !w ? ABSENT : weights_ready ? TAKEN : REFUSED;
        c.activations = !a ? ABSENT : activations_ready ? TAKEN : REFUSED;
        if (c.activations == TAKEN) c.marks = marks[a - 1];
        if (c.weights == TAKEN) c.weights_last = last ^ (w == 2);
        report->trace[0] = c;
        const enum failure failure = step(&s, &c, false, &after, &o);
        if (failure) return failure;
        cover(m, &c, &o, report->covers);
        const uint32_t next = find(&control, &after, index, &c);
        if (control.count > control.most) return OUT_OF_STATES;
        add_edge(next, &c);
        const bool taken = c.activations == TAKEN;
        if (ready && w == wants_weights && (a > 0) == (m->sent > 0) && (!taken || same(&c.marks, &ending)))
          drains[index] = next;
        if (ready && w == 1 && a && (!taken || same(&c.marks, &whole)))
          offers[index] = next, progresses[index] = o.results__valid == HIGH;
      }
  }
  return HOLDS;
}

/* A state from which `next` never leads to one where it may end; -1 if there is none. */
static int64_t endless(const uint32_t *next, bool (*ends)(size_t)) {
  uint32_t *seen = allocate(NULL, control.count * sizeof *seen);
  memset(seen, 0, control.count * sizeof *seen);
  int64_t found = -1;
  for (size_t start = 0; start < control.count && found < 0; start++) {
    size_t at = start;
    while (!seen[at] && !ends(at)) seen[at] = start + 1, at = next[at];
    if (!ends(at) && seen[at] == start + 1) found = start;
  }
  free(seen);
  return found;
}

static bool is_drained(size_t index) {
  const struct model *m = &state_of(&control, index)->model;
  return !m->sent && !m->pending_taken && !m->expected_results;
}

static bool gives_result(size_t index) { return progresses[index]; }

static enum failure search_control(struct report *report, void (*progress)(uint64_t, uint64_t), uint32_t *where) {
  struct state start;
  const struct choice none = {0};
  memset(&start, 0, sizeof start);
  reset(&start.unit);
  memset(start.unit.terms, 0, sizeof start.unit.terms);
  find(&control, &start, 0, &none);
  for (size_t index = 0; index < control.count; index++) {
    if (!(index & (index - 1)) || index % 65536 == 0) { /* room for what each state has */
      const size_t room = index < 65536 ? 2 * index + 1 : index + 65537;
      first_edges = allocate(first_edges, (room + 1) * sizeof *first_edges);
      drains = allocate(drains, room * sizeof *drains), offers = allocate(offers, room * sizeof *offers);
      progresses = allocate(progresses, room * sizeof *progresses);
      if (progress) progress(index, control.count);
    }
    first_edges[index] = edge_count;
    *where = index;
    const enum failure failure = expand_control(index, report);
    if (failure) return failure;
  }
  first_edges[control.count] = edge_count;
  int64_t found = endless(drains, is_drained);
  if (found >= 0) return *where = found, RESULTS_LOST;
  found = endless(offers, gives_result);
  if (found >= 0) return *where = found, HANGS;
  return HOLDS;
}

/* Which terms can still reach a result, for each state of control: the least solution. */
static void find_live(void) {
  set alone[UNIT_TERMS], made_of[UNIT_TERMS];
  memset(alone, 0, sizeof alone);
  for (int place = 0; place < UNIT_TERMS; place++) alone[place][place / 64] = UINT64_C(1) << place % 64;
  live = aligned_alloc(sizeof *live, control.count * sizeof *live);
  if (!live) longjmp(starved, 1);
  memset(live, 0, control.count * sizeof *live);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t index = control.count; index-- > 0;) {
      set needed = live[index];
      for (size_t edge = first_edges[index]; edge < first_edges[index + 1]; edge++) {
        const struct inputs i = inputs(&edges[edge].choice);
        const set next = live[edges[edge].next];
        struct unit ignored;
        struct outputs o;
        cycle(&state_of(&control, index)->unit, &i, &o, &ignored, alone, made_of);
        if (o.results__valid == HIGH)
          for (int lane = 0; lane <= COLUMNS; lane++) needed |= alone[result_places[lane]];
        for (int place = 0; place < UNIT_TERMS; place++)
          if (next[place / 64] >> place % 64 & 1) needed |= made_of[place];
      }
      const set more = needed ^ live[index];
      for (int word = 0; word < SET_WORDS; word++) changed |= more[word] != 0;
      live[index] = needed;
    }
  }
}

static void forget(struct unit *u, const set *kept) {
  for (int place = 0; place < UNIT_TERMS; place++)
    if (!((*kept)[place / 64] >> place % 64 & 1)) u->terms[place] = POISON;
}

static bool has_tag(const struct state *s) {
  const term *model = (const term *)&s->model;
  bool found = false;
  for (size_t place = 0; place < UNIT_TERMS; place++) found |= tagged[s->unit.terms[place]];
  for (size_t place = 0; place < offsetof(struct model, pending_marks) / sizeof(term); place++)
    found |= tagged[model[place]];
  return found;
}

/* One choice in one state of data. */
static enum failure follow(uint32_t index, const struct state *s, const struct edge *e, const struct choice *c,
                           struct report *report) {
  struct state after;
  struct outputs o;
  memset(&after, 0, sizeof after); /* padding, as above */
  report->trace[0] = *c;
  const enum failure failure = step(s, c, true, &after, &o);
  if (failure) return failure;
  if (o.results__valid == HIGH && c->ready) {
    bool tag = false;
    for (int lane = 0; lane <= COLUMNS; lane++) tag |= tagged[o.result[lane]];
    report->covers[tag ? TAGGED_RESULT : PLAIN_RESULT]++;
  }
  report->transitions++;
  forget(&after.unit, &live[e->next]);
  const size_t known_states = data.count;
  if (find(&data, &after, index, c) == known_states) {
    if (data.count > data.most) return OUT_OF_STATES;
    if (!(known_states & (known_states - 1))) controls = allocate(controls, 2 * (known_states + 1) * sizeof *controls);
    controls[known_states] = e->next;
  }
  return HOLDS;
}

static enum failure search_data(struct report *report, void (*progress)(uint64_t, uint64_t), uint32_t *where) {
  struct state s;
  const struct choice none = {0};
  memset(&s, 0, sizeof s);
  reset(&s.unit);
  forget(&s.unit, &live[0]);
  find(&data, &s, 0, &none);
  controls = allocate(NULL, sizeof *controls);
  controls[0] = 0;
  for (size_t index = 0; index < data.count; index++) {
    if (index % 65536 == 0 && progress) progress(index, data.count);
    *where = index;
    memcpy(&s, state_of(&data, index), sizeof s);
    give_back(&data, index);
    const bool may_tag = !has_tag(&s);
    const uint32_t at = controls[index];
    for (size_t edge = first_edges[at]; edge < first_edges[at + 1]; edge++) {
      const struct edge *e = &edges[edge];
      struct choice c = e->choice;
      enum failure failure = follow(index, &s, e, &c, report);
      for (int word = 0; may_tag && c.weights == TAKEN && word < TAGGED_WEIGHTS && !failure; word++) {
        c.weights_tag = word + 1;
        failure = follow(index, &s, e, &c, report);
      }
      c.weights_tag = 0;
      for (int word = 0; may_tag && c.activations == TAKEN && word < TAGGED_ACTIVATIONS && !failure; word++) {
        if ((word == CLEAR_NAN_WORD && !c.marks.add) || (word == LAST_WORD && !c.marks.emit)) continue;
        c.activations_tag = word + 1;
        failure = follow(index, &s, e, &c, report);
      }
      if (failure) return failure;
    }
  }
  return HOLDS;
}

/* The choices that lead to a state, and one more where that one failed: it stands first in the report so far. */
static void retrace(const struct graph *g, uint32_t index, bool more, struct report *report) {
  const int limit = sizeof report->trace / sizeof *report->trace;
  const struct choice last = report->trace[0];
  int steps = 0;
  for (uint32_t at = index; at; at = g->parents[at]) steps++;
  report->steps = steps + more;
  for (uint32_t at = index; at; at = g->parents[at])
    if (--steps < limit) report->trace[steps] = g->choices[at];
  if (more && report->steps <= limit) report->trace[report->steps - 1] = last;
}

static enum failure search(struct report *report, void (*progress)(uint64_t, uint64_t)) {
  uint32_t where = 0;
  enum failure failure = search_control(report, progress, &where);
  if (failure) {
    retrace(&control, where, failure <= TOO_MANY_TAKEN, report);
  } else {
    find_live();
    failure = search_data(report, progress, &where);
    if (failure) retrace(&data, where, failure <= TOO_MANY_TAKEN, report);
  }
  return failure;
}

void explore(uint64_t most, void (*progress)(uint64_t, uint64_t), struct report *report) {
  enum failure failure = OUT_OF_MEMORY;
  memset(report, 0, sizeof *report);
  memset(products, 0, sizeof products), memset(sums, 0, sizeof sums);
  memset(conversions, 0, sizeof conversions), memset(clearings, 0, sizeof clearings);
  terms_known = LEAVES, tagged[TAGGED] = true;
  control.most = data.most = most;
  if (!setjmp(starved)) failure = search(report, progress);
  report->failure = failure, report->control_states = control.count, report->states = data.count;
  clean(&control), clean(&data);
  free(edges), free(first_edges), free(drains), free(offers), free(controls), free(progresses), free(live);
  edges = NULL, first_edges = NULL, drains = offers = controls = NULL, progresses = NULL, live = NULL;
  edge_count = edge_room = 0;
}
