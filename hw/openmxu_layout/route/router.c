/* A router: nets become wires on tracks, by negotiated congestion (L. McMurchie and C. Ebeling, PathFinder, 1995).

   Even levels are vertical tracks, odd ones horizontal. A node is where tracks cross, on one level; nodes of a track have
   consecutive numbers. Between node n and its successor is gap n, and behind the last node of each track a number is left
   out. What nets compete for are gaps: a net needs those on both sides of each of its nodes,

       track    ──●━━━━━●━━━━━●─────○─────●━━━━━●──         ● nodes of nets A and B, ○ a free one
       gaps     A    A     A     A     B     B     B

   so that where each gap has one net, no node has two, and a free one lies between two nets on a track. Ends and pads
   keep their distance by that.

   A piece of wire has the least area if it is a step long. So a search enters a node by a step alone: a via is taken
   together with the step after it, and the first via on a pin is followed by a step. All nodes of a net on a track that
   follow one another are one piece of wire.

           level l+1      ━━━●━━━━━▶●           from n: a step on its track, to n-1 or n+1;
                             ┃ via             or a via to `across`, above or below, and a step there
           level l      ●━━━━●
                        n-1  n

   Passes: each takes up the nets that share a gap, and routes them again by A*. A gap costs more for each other net that
   has it now (`present`), and for each pass in which it was shared (`history`). All numbers are integers, and ties are
   broken by the number of the node, so that a result depends on nothing else. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FREE, TREE, PIN, STEP, BELOW = 5, ABOVE = 7 }; /* how a search came to a node; STEP and later: +1 to the right */
enum { SEEN = 0x2000, TARGET = 0x4000, BLOCKED = 0x8000, COUNT = 0x1FFF };

typedef struct {
  int32_t level, x, y;
} place;

typedef struct {
  uint32_t *items, length, room;
} list;

typedef struct {
  list nodes, vias; /* some of them twice; a via is known by its lower node */
  int failed;
} route;

typedef struct {
  int32_t columns, rows, levels, via;
  int32_t step[2]; /* costs: of a step on a vertical and a horizontal track */
  uint32_t plane, size;
  uint16_t *use;     /* nets that need the gap, and whether it is counted; whether the node is blocked, or a target */
  uint16_t *history; /* of the gap */
  uint32_t *cost;    /* of the path to the node */
  uint8_t *came;
  list touched; /* nodes with a cost */
  uint64_t *heap;
  uint32_t length, room;
  uint32_t nets;
  const uint32_t *terminals, *accesses, *nodes; /* first terminal of a net, first access of a terminal, nodes */
  uint32_t *chosen;                             /* the node at which a terminal is reached, or 0 */
  route *routes;
  uint32_t present;
  int starved; /* there was no memory for something: what was found since is incomplete */
  place window[2], box[2]; /* lower left and upper right corner of a search, and of its target on the target's level */
} router;

static void append(router *r, list *l, uint32_t item) {
  if (l->length == l->room) {
    uint32_t room = l->room * 2 + 8, *more = realloc(l->items, sizeof *more * room);
    if (!more) {
      r->starved = 1;
      return;
    }
    l->items = more, l->room = room;
  }
  l->items[l->length++] = item;
}

static int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }

static int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }

static place place_of(const router *r, uint32_t n) {
  int level = (n - 1) / r->plane, stride = (level & 1 ? r->columns : r->rows) + 1;
  uint32_t within = (n - 1) % r->plane, along = within % stride, track = within / stride;
  return level & 1 ? (place){level, along, track} : (place){level, track, along};
}

static uint32_t node_at(const router *r, place at) {
  return 1 + at.level * r->plane + (at.level & 1 ? at.y * (r->columns + 1) + at.x : at.x * (r->rows + 1) + at.y);
}

void router_free(router *r) {
  for (uint32_t i = 0; r->routes && i < r->nets; i++) free(r->routes[i].nodes.items), free(r->routes[i].vias.items);
  free(r->use), free(r->history), free(r->cost), free(r->came), free(r->touched.items), free(r->heap);
  free(r->routes), free(r->chosen), free(r);
}

/* Returns NULL if there is not enough memory. */
router *router_new(const int32_t *sizes, const uint32_t *terminals, const uint32_t *accesses, const uint32_t *nodes,
                   const uint32_t *blocked) {
  router *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->columns = sizes[0], r->rows = sizes[1], r->levels = sizes[2];
  r->step[0] = sizes[3], r->step[1] = sizes[4], r->via = sizes[5], r->nets = sizes[6];
  r->plane = (r->columns + 1) * (r->rows + 1), r->size = r->plane * r->levels + 1;
  r->use = calloc(r->size, sizeof *r->use), r->history = calloc(r->size, sizeof *r->history);
  r->cost = malloc(r->size * sizeof *r->cost), r->came = calloc(r->size, 1);
  r->routes = calloc(r->nets + 1, sizeof *r->routes), r->chosen = calloc(terminals[r->nets] + 1, sizeof *r->chosen);
  if (!r->use || !r->history || !r->cost || !r->came || !r->routes || !r->chosen) {
    router_free(r);
    return NULL;
  }
  for (uint32_t n = 0; n < r->size; n++) r->cost[n] = UINT32_MAX;
  for (int32_t i = 0; i < sizes[7]; i++) r->use[blocked[i]] |= BLOCKED;
  r->terminals = terminals, r->accesses = accesses, r->nodes = nodes;
  return r;
}

/* The heap's least item is the least estimate in the upper half, then the least node. */
static void push(router *r, uint64_t item) {
  if (r->length == r->room) {
    uint32_t room = r->room * 2 + 1024;
    uint64_t *more = realloc(r->heap, sizeof *more * room);
    if (!more) {
      r->starved = 1;
      return;
    }
    r->heap = more, r->room = room;
  }
  uint32_t i = r->length++;
  for (; i && r->heap[(i - 1) / 2] > item; i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
  r->heap[i] = item;
}

static uint64_t pop(router *r) {
  uint64_t least = r->heap[0], item = r->heap[--r->length];
  uint32_t i = 0;
  for (uint32_t child; (child = 2 * i + 1) < r->length; i = child) {
    if (child + 1 < r->length && r->heap[child + 1] < r->heap[child]) child++;
    if (r->heap[child] >= item) break;
    r->heap[i] = r->heap[child];
  }
  r->heap[i] = item;
  return least;
}

/* How far a number is from a range. */
static int32_t outside(int32_t v, int32_t least, int32_t most) { return max(0, max(least - v, v - most)); }

static int contains(const place *window, place at) {
  return !outside(at.x, window[0].x, window[1].x) && !outside(at.y, window[0].y, window[1].y);
}

/* The least cost from a node to the target: steps and vias on free gaps, hence never more than the true one, and what A*
   finds first is the cheapest. */
static uint32_t estimate(const router *r, uint32_t n) {
  place at = place_of(r, n);
  return outside(at.x, r->box[0].x, r->box[1].x) * r->step[1] + outside(at.y, r->box[0].y, r->box[1].y) * r->step[0] +
         abs(at.level - r->box[0].level) * r->via;
}

/* A free gap costs nothing. `present` grows from pass to pass, so that sharing is cheap first and impossible last;
   `history` stays, so that two nets that take turns at a gap both see it become dear, and one finds a way around. */
static uint32_t penalty(const router *r, uint32_t gap) { return (r->use[gap] & COUNT) * r->present + r->history[gap]; }

static void reach(router *r, uint32_t n, uint32_t cost, uint8_t came) {
  if (cost >= r->cost[n]) return;
  if (r->cost[n] == UINT32_MAX) append(r, &r->touched, n);
  r->cost[n] = cost, r->came[n] = came;
  push(r, (uint64_t)(cost + estimate(r, n)) << 32 | n);
}

/* The steps from node n, at a place, in both directions. */
static void take_steps(router *r, uint32_t n, place at, uint32_t cost, uint8_t came) {
  for (int right = 0; right < 2; right++) {
    int by = right ? 1 : -1;
    uint32_t next = n + by;
    place to = at.level & 1 ? (place){at.level, at.x + by, at.y} : (place){at.level, at.x, at.y + by};
    if (!contains(r->window, to) || r->use[next] & BLOCKED) continue;
    reach(r, next, cost + r->step[at.level & 1] + penalty(r, right ? next : next - 1), came + right);
  }
}

/* The target's node that costs least, or 0. It may be one of the net's already. */
static uint32_t search(router *r) {
  while (r->length) {
    uint64_t item = pop(r);
    uint32_t n = (uint32_t)item, cost = r->cost[n];
    if (item >> 32 != cost + estimate(r, n)) continue; /* a cheaper path was found since */
    if (r->use[n] & TARGET) return n;
    place at = place_of(r, n);
    take_steps(r, n, at, cost, STEP);
    /* The first via on a pin is followed by a step. */
    if (r->came[n] == PIN) continue;
    for (int up = 0; up < 2; up++) {
      place to = {at.level + (up ? 1 : -1), at.x, at.y};
      if (to.level < 0 || to.level >= r->levels) continue;
      uint32_t across = node_at(r, to);
      if (r->use[across] & BLOCKED) continue;
      /* A node needs the gaps on both sides; one of them, which the step passes, is paid for twice, alike for all. */
      take_steps(r, across, to, cost + r->via + penalty(r, across) + penalty(r, across - 1), up ? BELOW : ABOVE);
    }
  }
  return 0;
}

/* Add the path to node n to a net; returns the node at which it begins. */
static uint32_t trace(router *r, route *net, uint32_t n) {
  while (r->came[n] >= STEP) {
    int kind = r->came[n] < BELOW ? STEP : r->came[n] < ABOVE ? BELOW : ABOVE;
    append(r, &net->nodes, n);
    n = r->came[n] > kind ? n - 1 : n + 1;
    if (kind == STEP) continue;
    append(r, &net->nodes, n);
    place at = place_of(r, n);
    at.level += kind == BELOW ? -1 : 1;
    uint32_t before = node_at(r, at);
    append(r, &net->vias, kind == BELOW ? before : n);
    n = before;
  }
  if (r->came[n] == PIN) append(r, &net->nodes, n);
  return n;
}

/* Add a number to the nets of each gap that a net needs; a gap is counted once. */
static void claim(router *r, const route *net, int by) {
  for (uint32_t i = 0; i < net->nodes.length; i++)
    for (uint32_t gap = net->nodes.items[i] - 1; gap <= net->nodes.items[i]; gap++)
      if (!(r->use[gap] & SEEN)) r->use[gap] = (r->use[gap] + by) | SEEN;
  for (uint32_t i = 0; i < net->nodes.length; i++)
    r->use[net->nodes.items[i] - 1] &= ~SEEN, r->use[net->nodes.items[i]] &= ~SEEN;
}

/* Connect a terminal to the net's nodes, or to the first terminal where it has none yet; returns whether it is. */
static int connect(router *r, uint32_t first, uint32_t terminal, route *net) {
  r->box[0] = r->box[1] = place_of(r, r->nodes[r->accesses[terminal]]);
  r->length = 0;
  for (uint32_t i = r->accesses[terminal]; i < r->accesses[terminal + 1]; i++) {
    place at = place_of(r, r->nodes[i]);
    r->box[0].x = min(r->box[0].x, at.x), r->box[0].y = min(r->box[0].y, at.y);
    r->box[1].x = max(r->box[1].x, at.x), r->box[1].y = max(r->box[1].y, at.y);
    r->use[r->nodes[i]] |= TARGET;
  }
  for (uint32_t i = 0; i < net->nodes.length; i++)
    if (contains(r->window, place_of(r, net->nodes.items[i]))) reach(r, net->nodes.items[i], 0, TREE);
  if (!r->chosen[first])
    for (uint32_t i = r->accesses[first]; i < r->accesses[first + 1]; i++) {
      uint32_t n = r->nodes[i];
      if (!(r->use[n] & BLOCKED)) reach(r, n, penalty(r, n) + penalty(r, n - 1), PIN);
    }
  uint32_t end = search(r);
  if (end) {
    uint32_t begin = trace(r, net, end);
    if (!r->chosen[first]) r->chosen[first] = begin;
    r->chosen[terminal] = end;
  }
  for (uint32_t i = r->accesses[terminal]; i < r->accesses[terminal + 1]; i++) r->use[r->nodes[i]] &= ~TARGET;
  for (uint32_t i = 0; i < r->touched.length; i++) r->cost[r->touched.items[i]] = UINT32_MAX;
  r->touched.length = 0;
  return end != 0;
}

typedef struct {
  uint32_t terminal;
  place at, to; /* its place, and the nearest one of the net */
  int32_t distance;
} candidate;

static void draw_near(candidate *c, place to) {
  int32_t distance = abs(c->at.x - to.x) + abs(c->at.y - to.y);
  if (distance < c->distance) c->distance = distance, c->to = to;
}

static void set_window(router *r, const candidate *c, int32_t margin) {
  r->window[0].x = max(min(c->at.x, c->to.x) - margin, 0);
  r->window[0].y = max(min(c->at.y, c->to.y) - margin, 0);
  r->window[1].x = min(max(c->at.x, c->to.x) + margin, r->columns - 1);
  r->window[1].y = min(max(c->at.y, c->to.y) + margin, r->rows - 1);
}

/* Route a net: its terminals join in the order of their distance from what is connected. */
static void route_net(router *r, uint32_t index, int32_t margin) {
  route *net = &r->routes[index];
  uint32_t first = r->terminals[index], count = r->terminals[index + 1] - first, seen = 0;
  candidate *waiting = malloc(sizeof *waiting * (count + 1));
  net->nodes.length = net->vias.length = net->failed = 0;
  if (!waiting) {
    r->starved = 1;
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    r->chosen[first + i] = 0;
    waiting[i] = (candidate){first + i, place_of(r, r->nodes[r->accesses[first + i]]), {0, 0, 0}, INT32_MAX};
    draw_near(&waiting[i], waiting[0].at);
  }
  while (count > 1 && !net->failed) {
    uint32_t best = 1;
    for (uint32_t i = 2; i < count; i++)
      if (waiting[i].distance < waiting[best].distance) best = i;
    candidate next = waiting[best];
    waiting[best] = waiting[--count];
    set_window(r, &next, margin);
    if (!connect(r, first, next.terminal, net)) {
      set_window(r, &next, r->columns + r->rows);
      net->failed = !connect(r, first, next.terminal, net);
    }
    for (; seen < net->nodes.length; seen++) {
      place at = place_of(r, net->nodes.items[seen]);
      for (uint32_t i = 1; i < count; i++) draw_near(&waiting[i], at);
    }
  }
  free(waiting);
}

static int shares(const router *r, const route *net) {
  for (uint32_t i = 0; i < net->nodes.length; i++) {
    uint32_t n = net->nodes.items[i];
    if ((r->use[n] & COUNT) > 1 || (r->use[n - 1] & COUNT) > 1) return 1;
  }
  return 0;
}

/* One pass over the nets, in an order, each with those that it shares a gap with; returns the gaps shared after it, and
   how many nets are not routed; or -1 if there is not enough memory, after which there is no other pass. */
int32_t router_pass(router *r, const uint32_t *order, uint32_t present, uint32_t history, int32_t margin,
                     uint32_t *failed) {
  int32_t conflicts = 0;
  r->present = present, *failed = 0;
  for (uint32_t i = 0; i < r->nets; i++) {
    route *net = &r->routes[order[i]];
    if (!net->nodes.length || net->failed || shares(r, net)) {
      claim(r, net, -1);
      route_net(r, order[i], margin);
      claim(r, net, 1);
      if (r->starved) return -1;
    }
    *failed += net->failed;
  }
  for (uint32_t n = 0; n < r->size; n++)
    if ((r->use[n] & COUNT) > 1) {
      r->history[n] = min(r->history[n] + history, UINT16_MAX);
      conflicts++;
    }
  return conflicts;
}

/* Once no gap is shared: the net of each node, from 1, or 0; whether a via leads up from it; and the node of each
   terminal. */
void router_result(const router *r, uint32_t *owners, uint32_t *vias, uint32_t *chosen) {
  for (uint32_t i = 0; i < r->nets; i++) {
    for (uint32_t k = 0; k < r->routes[i].nodes.length; k++) owners[r->routes[i].nodes.items[k]] = i + 1;
    for (uint32_t k = 0; k < r->routes[i].vias.length; k++) vias[r->routes[i].vias.items[k]] = 1;
  }
  memcpy(chosen, r->chosen, r->terminals[r->nets] * sizeof *chosen);
}
