/* The host of an accelerator: writes its memories, runs a program, reads the scratchpad. Values of one bit are all ones
   where they are high; one clock edge for each step. */

#include <stdlib.h>

struct machine {
  struct accelerator_state state;
  struct accelerator_in in;
  struct accelerator_out out;
#ifdef PARTS
  struct parts parts;
#endif
#ifdef BUS
  struct peer peer;
#endif
};

static void tick(struct machine *m) {
#ifdef BUS
  peer_drive(&m->peer, &m->in);
#endif
#ifdef PARTS
  parts_show(&m->parts, &m->in);
#endif
  accelerator_step(&m->state, &m->in, &m->out);
#ifdef PARTS
  parts_step(&m->parts, &m->out);
#endif
#ifdef BUS
  peer_see(&m->peer, &m->in, &m->out);
#endif
}

struct machine *machine_new(void) {
  struct machine *m = 0;
  if (posix_memalign((void **)&m, 64, sizeof *m)) return 0;
  memset(m, 0, sizeof *m);
  accelerator_begin(&m->state);
#ifdef PARTS
  parts_begin(&m->parts);
#endif
  return m;
}

#ifdef BUS
/* Attaches a memory of so many bytes at a base, which stays the caller's; see struct peer for the others. */
void machine_attach(struct machine *m, uint8_t *bytes, uint64_t size, uint32_t base, uint64_t seed, uint32_t stall,
                    uint32_t latency, uint32_t every, uint32_t fault, uint32_t at) {
  m->peer = (struct peer){ .bytes = bytes, .size = size, .base = base, .random = seed | 1, .stall = stall,
                           .latency = latency, .every = every, .fault = fault, .at = at };
  m->in.i_base[0] = base >> 12;
  m->in.i_window[0] = (uint32_t)(size / 2);
}

/* The rule that was broken, whether the accelerator is quiet, and bursts and beats that were read and written. */
void machine_traffic(const struct machine *m, uint64_t *seen) {
  const struct peer *p = &m->peer;
  seen[0] = p->broken, seen[1] = m->out.o_quiet[0] & 1;
  for (int way = 0; way < 2; way++) seen[2 + way] = p->bursts[way], seen[4 + way] = p->beats[way];
}

void machine_tick(struct machine *m, uint64_t cycles) {
  while (cycles--) tick(m);
}
#endif

void machine_reset(struct machine *m) {
  m->in.rst[0] = ~0u;
#ifdef PARTS
  parts_show(&m->parts, &m->in);
#endif
  accelerator_step(&m->state, &m->in, &m->out);
#ifdef PARTS
  parts_reset(&m->parts, &m->out);
#endif
  m->in.rst[0] = 0;
#ifdef BUS
  peer_forget(&m->peer);
#endif
}

#ifdef MUTANTS
/* Chooses one of the mistakes that the netlist has; 0 is none. */
void machine_choose(struct machine *m, uint32_t mutant) { m->in.mutant[0] = mutant; }
#endif

void machine_free(struct machine *m) { free(m); }

/* Writes rows of so many limbs into the memories of a mask, from row `first` on. */
void machine_write(struct machine *m, uint32_t mask, uint32_t first, size_t rows, const uint32_t *data) {
  m->in.i_write[0] = mask;
  for (size_t row = 0; row < rows; row++) {
    m->in.i_address[0] = first + (uint32_t)row;
    for (int limb = 0; limb < LIMBS; limb++) m->in.i_data[limb] = data[row * LIMBS + limb];
    tick(m);
  }
  m->in.i_write[0] = 0;
}

void machine_start(struct machine *m, uint32_t program) {
  m->in.i_program[0] = program;
  m->in.i_start[0] = ~0u;
  tick(m);
  m->in.i_start[0] = 0;
}

/* Runs until nothing does, for so many cycles at most; returns the cycles, and those at which the first commands began. */
uint64_t machine_run(struct machine *m, uint64_t most, uint32_t commands, uint64_t *begins) {
  uint64_t cycles = 0;
  uint32_t begun = 0;
  do {
    tick(m);
    if (begun < commands && m->out.o_index[0] > begun) begins[begun++] = cycles;
  } while (m->out.o_running[0] && ++cycles < most);
  return cycles;
}

#ifdef BUS
/* Runs machines on one bus until none runs, for so many cycles at most; gives the cycles of each. */
void machines_run(struct machine **machines, uint32_t count, uint64_t most, uint64_t *cycles) {
  struct peer *peers[count];
  uint32_t owners[2] = {0, 0}, running = count;
  for (uint32_t n = 0; n < count; n++) peers[n] = &machines[n]->peer;
  for (uint64_t now = 1; running && now <= most; now++) {
    arbitrate(peers, count, owners);
    running = 0;
    for (uint32_t n = 0; n < count; n++) {
      tick(machines[n]);
      if (machines[n]->out.o_running[0]) cycles[n] = now, running++;
    }
  }
  for (uint32_t n = 0; n < count; n++) peers[n]->taken[0] = peers[n]->taken[1] = 0;
}
#endif

/* Whether it runs, whether it ended, tag, why it stopped, index. */
void machine_status(const struct machine *m, uint32_t *status) {
  status[0] = m->out.o_running[0] & 1;
  status[1] = m->out.o_ended[0] & 1;
  status[2] = m->out.o_tag[0];
  status[3] = m->out.o_stop[0];
  status[4] = m->out.o_index[0];
}

void machine_read(struct machine *m, size_t rows, uint32_t *data) {
  for (size_t row = 0; row <= rows; row++) {
    m->in.i_address[0] = (uint32_t)row;
    tick(m);
    if (row)
      for (int limb = 0; limb < ROW_LIMBS; limb++) data[(row - 1) * ROW_LIMBS + limb] = m->out.o_data[limb];
  }
}
