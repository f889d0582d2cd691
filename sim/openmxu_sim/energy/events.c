// Events of a mapped netlist: what changes when, and what it takes.
//
// A net has at most one change ahead of it. A cell that wants its output as it is again takes the change back: pulses
// shorter than the delay do not get through (inertial delays). After each cycle nothing may be left to happen.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK, FLIP_FLOPS, LOGIC, CLASSES };  // where energy goes

typedef struct {
  int32_t nets, gates, instances, clock, input_count, output_count;
  // By instance: its pins, the lowest bit of its state first, and its outputs.
  const int32_t *first_pin, *first_output;
  // By pin of an instance, and by output.
  const int32_t *pin_net, *output_net;
  const uint64_t *table;       // by output: of its function over the state
  const uint64_t *next_state;  // by instance: of a flip-flop
  const int32_t *clock_pin;    // by instance; -1: a gate
  // By pin: input energies, by edge and state. By output: where its delays and energies begin.
  const int64_t *pin_energy, *output_delay, *output_energy;
  const float *delays, *energies, *charges;
  // By net: pins that read it, as pairs of instance and pin.
  const int32_t *first_reader, *reader_instance, *reader_pin;
  const int32_t *input_net, *output_port_net;
  double period, hold;
} Netlist;

typedef struct { double time; int32_t net; uint32_t version; } Event;

typedef struct {
  const Netlist *n;
  uint8_t *value, *wanted, *source;  // source: the class of a net
  uint32_t *version;
  float *cost;                       // of the change ahead, within the cell
  uint8_t *ahead;
  uint32_t *state;
  Event *heap;
  size_t size, room;
  double now;
  double energy[CLASSES];
  uint64_t toggles;
  int failed;
} Run;

static void push(Run *r, double time, int32_t net) {
  if (r->size == r->room) {
    Event *more = realloc(r->heap, 2 * r->room * sizeof *more);
    if (!more) { r->failed = 1; return; }
    r->heap = more;
    r->room *= 2;
  }
  size_t at = r->size++;
  Event event = {time, net, r->version[net]};
  while (at && r->heap[(at - 1) / 2].time > time) {
    r->heap[at] = r->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  r->heap[at] = event;
}

static Event pop(Run *r) {
  Event top = r->heap[0], last = r->heap[--r->size];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= r->size) break;
    if (child + 1 < r->size && r->heap[child + 1].time < r->heap[child].time) child++;
    if (r->heap[child].time >= last.time) break;
    r->heap[at] = r->heap[child];
    at = child;
  }
  r->heap[at] = last;
  return top;
}

static int pins(const Netlist *n, int32_t i) { return n->first_pin[i + 1] - n->first_pin[i]; }

static int state_bits(const Netlist *n, int32_t i) { return pins(n, i) + (n->clock_pin[i] >= 0); }

// What an output shall become, because of an edge at an input.
static void want(Run *r, int32_t instance, int32_t output, int pin, int edge) {
  const Netlist *n = r->n;
  int32_t net = n->output_net[output];
  uint8_t level = n->table[output] >> r->state[instance] & 1;
  if (level == (r->ahead[net] ? r->wanted[net] : r->value[net])) return;
  r->version[net]++;
  if (r->ahead[net]) {
    r->ahead[net] = 0;
    return;
  }
  float delay = n->delays[n->output_delay[output] + 4 * pin + 2 * edge + level];
  if (isnan(delay)) { r->failed = 2; return; }
  r->ahead[net] = 1;
  r->wanted[net] = level;
  r->cost[net] = n->energies[n->output_energy[output] +
                             (((int64_t)(2 * pin + level)) << state_bits(n, instance)) + r->state[instance]];
  push(r, r->now + delay, net);
}

static float input_energy(const Run *r, int32_t instance, int pin, int edge) {
  const Netlist *n = r->n;
  int64_t start = n->pin_energy[n->first_pin[instance] + pin];
  return n->energies[start + ((int64_t)edge << state_bits(n, instance)) + r->state[instance]];
}

static void change(Run *r, int32_t net, uint8_t level, float cost) {
  const Netlist *n = r->n;
  r->value[net] = level;
  r->toggles += net != n->clock;
  r->energy[r->source[net]] += n->charges[net] + cost;
  for (int32_t k = n->first_reader[net]; k < n->first_reader[net + 1]; k++) {
    int32_t i = n->reader_instance[k];
    int pin = n->reader_pin[k];
    int stores = n->clock_pin[i] >= 0;
    r->state[i] = (r->state[i] & ~(1u << pin)) | (uint32_t)level << pin;
    r->energy[net == n->clock ? CLOCK : stores ? FLIP_FLOPS : LOGIC] += input_energy(r, i, pin, level);
    if (!stores)
      for (int32_t o = n->first_output[i]; o < n->first_output[i + 1]; o++) want(r, i, o, pin, level);
  }
  // After all of them have seen the clock: no flip-flop sees another's new bit.
  if (net != n->clock || !level) return;
  for (int32_t i = n->gates; i < n->instances; i++) {
    uint32_t stored = 1u << pins(n, i);
    uint8_t next = n->next_state[i] >> r->state[i] & 1;
    r->state[i] = (r->state[i] & ~stored) | (next ? stored : 0);
    for (int32_t o = n->first_output[i]; o < n->first_output[i + 1]; o++) want(r, i, o, n->clock_pin[i], 1);
  }
}

static void play(Run *r, double until) {
  while (r->size && r->heap[0].time <= until && !r->failed) {
    Event event = pop(r);
    if (event.version != r->version[event.net] || !r->ahead[event.net]) continue;
    r->now = event.time;
    r->ahead[event.net] = 0;
    change(r, event.net, r->wanted[event.net], r->cost[event.net]);
  }
  r->now = until;
}

// What one change of each net takes that is another at the end of the cycle, as if there were no delays.
static double at_once(const Run *r, const uint8_t *before) {
  const Netlist *n = r->n;
  double energy = 0;
  for (int32_t net = 2; net < n->nets; net++)
    if (net != n->clock && before[net] != r->value[net]) energy += n->charges[net];
  for (int32_t i = 0; i < n->instances; i++) {
    int cause = -1;
    for (int pin = 0; pin < pins(n, i); pin++) {
      int32_t net = n->pin_net[n->first_pin[i] + pin];
      if (net == n->clock || before[net] == r->value[net]) continue;
      cause = pin;
      energy += input_energy(r, i, pin, r->value[net]);
    }
    if (n->clock_pin[i] >= 0) cause = n->clock_pin[i];
    if (cause < 0) continue;
    for (int32_t o = n->first_output[i]; o < n->first_output[i + 1]; o++) {
      int32_t net = n->output_net[o];
      if (before[net] != r->value[net])
        energy += n->energies[n->output_energy[o] + ((int64_t)(2 * cause + r->value[net]) << state_bits(n, i)) +
                              r->state[i]];
    }
  }
  return energy;
}

// Levels before the first cycle: flip-flops hold 0, inputs are 0, gates follow.
static void begin(Run *r) {
  const Netlist *n = r->n;
  r->value[1] = 1;
  for (int pass = 0; pass < 2; pass++) {  // flip-flops' inverted outputs first, then gates in their order
    for (int32_t k = 0; k < n->instances; k++) {
      int32_t i = pass ? k : n->instances - 1 - k;
      if (!pass && i < n->gates) break;
      uint32_t state = 0;
      for (int pin = 0; pin < pins(n, i); pin++)
        state |= (uint32_t)r->value[n->pin_net[n->first_pin[i] + pin]] << pin;
      r->state[i] = state;
      for (int32_t o = n->first_output[i]; o < n->first_output[i + 1]; o++)
        r->value[n->output_net[o]] = n->table[o] >> state & 1;
    }
  }
}

// Plays cycles. inputs: a byte for each cycle and input bit. outputs: likewise, what they are at the end of the cycle.
// energies: by cycle pJ of the clock, of flip-flops, of logic, and of each net's change at once; toggles: by cycle.
// Returns 0; 1: no memory; 2: a transition for which there is no delay; 3: something was left to happen.
int simulate_events(const Netlist *n, int64_t cycles, const uint8_t *inputs, uint8_t *outputs, double *energies,
                    uint64_t *toggles) {
  Run run = {.n = n, .room = 1024}, *r = &run;
  uint8_t *before = malloc(n->nets);
  r->value = calloc(n->nets, 1);
  r->wanted = calloc(n->nets, 1);
  r->source = calloc(n->nets, 1);
  r->ahead = calloc(n->nets, 1);
  r->version = calloc(n->nets, sizeof *r->version);
  r->cost = calloc(n->nets, sizeof *r->cost);
  r->state = calloc(n->instances + 1, sizeof *r->state);
  r->heap = malloc(r->room * sizeof *r->heap);
  int ready = before && r->value && r->wanted && r->source && r->ahead && r->version && r->cost && r->state && r->heap;
  if (ready) {
    memset(r->source, LOGIC, n->nets);
    for (int32_t i = n->gates; i < n->instances; i++)
      for (int32_t o = n->first_output[i]; o < n->first_output[i + 1]; o++) r->source[n->output_net[o]] = FLIP_FLOPS;
    if (n->clock >= 0) r->source[n->clock] = CLOCK;
    begin(r);
  }
  for (int64_t cycle = 0; ready && cycle < cycles && !r->failed; cycle++) {
    double start = (double)cycle * n->period;
    memcpy(before, r->value, n->nets);
    memset(r->energy, 0, sizeof r->energy);
    r->toggles = 0;
    r->now = start;
    if (n->clock >= 0) change(r, n->clock, 1, 0);
    play(r, start + n->hold);
    for (int32_t k = 0; k < n->input_count; k++) {
      uint8_t level = inputs[cycle * n->input_count + k];
      int32_t net = n->input_net[k];
      if (level != r->value[net]) change(r, net, level, 0);
    }
    if (n->clock >= 0) {
      play(r, start + n->period / 2);
      change(r, n->clock, 0, 0);
    }
    play(r, start + n->period);
    for (size_t k = 0; k < r->size; k++)
      if (r->heap[k].version == r->version[r->heap[k].net] && r->ahead[r->heap[k].net]) r->failed = 3;
    for (int32_t k = 0; k < n->output_count; k++)
      outputs[cycle * n->output_count + k] = r->value[n->output_port_net[k]];
    for (int k = 0; k < CLASSES; k++) energies[cycle * 4 + k] = r->energy[k];
    energies[cycle * 4 + 3] = at_once(r, before);
    toggles[cycle] = r->toggles;
  }
  int failed = ready ? r->failed : 1;
  free(before); free(r->value); free(r->wanted); free(r->source); free(r->ahead);
  free(r->version); free(r->cost); free(r->state); free(r->heap);
  return failed;
}
