/* Processing elements and accumulator columns of an accelerator, as many at a time as a vector has lanes.

   Before this: vectors.c, the functions of both, and of the accelerator without them: what they give is among its
   inputs, what they take among its outputs. Nothing in them passes from an input to an output within a cycle, so that
   they show what they hold, the accelerator goes on, and then they do.

   TERMS: rows that an element stands for; ARRAY(port), COLUMN(port, column): the ports' names outside. */

enum {
  COLUMN_BLOCKS = (SIZE + LANES - 1) / LANES,
  ELEMENT_ROWS = SIZE / TERMS,
  ACTIVATION_LIMBS = (TERMS * WIDTH + 31) / 32,
};

struct parts {
  struct pe_state cells[ELEMENT_ROWS][COLUMN_BLOCKS];
  struct column_state bank[COLUMN_BLOCKS];
  struct column_in bank_in[COLUMN_BLOCKS];
};

/* A word's bits from `low` on. */
static inline uint32_t bits_of(const uint32_t *limbs, int low, int width) {
  uint64_t both = limbs[low / 32];
  if (low % 32 + width > 32) both |= (uint64_t)limbs[low / 32 + 1] << 32;
  return (uint32_t)(both >> low % 32) & ((1u << width) - 1);
}

static void parts_begin(struct parts *p) {
  for (int j = 0; j < COLUMN_BLOCKS; j++) {
    for (int r = 0; r < ELEMENT_ROWS; r++) pe_begin(&p->cells[r][j]);
    column_begin(&p->bank[j]);
  }
}

/* What they hold becomes inputs of the accelerator. */
static void parts_show(const struct parts *p, struct accelerator_in *in) {
  for (int j = 0; j < COLUMN_BLOCKS; j++) {
    struct pe_out last;
    pe_look((struct pe_state *)&p->cells[ELEMENT_ROWS - 1][j], 0, &last);
    int count = SIZE - j * LANES < LANES ? SIZE - j * LANES : LANES;
    memcpy(in->ARRAY(o_psums) + j * LANES, last.o_psum, count * sizeof(uint32_t));
  }
  columns_show(p, in);
}

/* A row of the array, from the right, so that what a cell takes from its neighbour is still there. */
static inline __attribute__((always_inline)) void row_step(struct pe_state *row, const struct pe_state *above,
                                                           const struct pe_out *edge, const word *weights,
                                                           uint32_t reset) {
  for (int j = COLUMN_BLOCKS; j--;) {
    struct pe_out here, left = *edge, top;
    struct pe_in in;
    pe_look(&row[j], 0, &here);
    if (j) pe_look(&row[j - 1], 0, &left);
    for (int l = 0; l < ACTIVATION_LIMBS; l++) in.i_activation[l] = shifted(left.o_activation[l], here.o_activation[l]);
    in.i_swap[0] = shifted(left.o_swap[0], here.o_swap[0]);
    in.i_load[0] = shifted(left.o_load[0], here.o_load[0]);
    if (above) {
      pe_look((struct pe_state *)&above[j], 0, &top);
      in.i_weight[0] = top.o_weight[0], in.i_psum[0] = top.o_psum[0];
    } else in.i_weight[0] = weights[j], in.i_psum[0] = everywhere(0);
    in.rst[0] = everywhere(reset);
    pe_step(&row[j], &in, 0);
  }
}

static inline __attribute__((always_inline)) void step_parts(struct parts *p, const struct accelerator_out *out,
                                                             uint32_t reset) {
  union { word words[COLUMN_BLOCKS]; uint32_t lanes[COLUMN_BLOCKS * LANES]; } weights;
  memset(&weights, 0, sizeof weights);
  for (int c = 0; c < SIZE; c++) weights.lanes[c] = bits_of(out->ARRAY(i_weights), c * WIDTH, WIDTH);
  for (int r = ELEMENT_ROWS; r--;) {  /* from below, for the same reason */
    struct pe_out edge;
    for (int l = 0; l < ACTIVATION_LIMBS; l++) {
      int low = r * TERMS * WIDTH + 32 * l, rest = TERMS * WIDTH - 32 * l;
      edge.o_activation[l] = everywhere(bits_of(out->ARRAY(i_activations), low, rest < 32 ? rest : 31) |
                                        (rest < 32 ? 0 : bits_of(out->ARRAY(i_activations), low + 31, 1) << 31));
    }
    edge.o_swap[0] = everywhere(-(out->ARRAY(i_swaps)[r / 32] >> r % 32 & 1));
    edge.o_load[0] = everywhere(-(out->ARRAY(i_loads)[r / 32] >> r % 32 & 1));
    row_step(p->cells[r], r ? p->cells[r - 1] : 0, &edge, weights.words, reset);
  }
  columns_take(p, out);
  for (int j = 0; j < COLUMN_BLOCKS; j++) {
    p->bank_in[j].rst[0] = everywhere(reset);
    column_step(&p->bank[j], &p->bank_in[j], 0);
  }
}

static void parts_step(struct parts *p, const struct accelerator_out *out) { step_parts(p, out, 0); }

static void parts_reset(struct parts *p, const struct accelerator_out *out) { step_parts(p, out, ~0u); }
