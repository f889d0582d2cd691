/* The other side of an accelerator's AXI4: a memory that keeps it waiting at random, answers with errors where it is
   told to, and holds against it every rule that it breaks. What is read is what the memory has when it is asked, and
   what is written is there when it is answered: no later, no earlier order is promised. */

enum { QUEUE = 64, BEAT_LIMBS = BUS / 32, BYTES = BUS / 8, STROBES = (BYTES + 31) / 32 };

enum broken { NOTHING, UNSTABLE, BURST, PAGE, WINDOW, LAST, UNASKED, STROBE, QUIET };

enum fault {
  NONE, READ_ERROR, WRITE_ERROR, SILENT, UNEXPECTED, WRONG_MARK, TOO_MANY, UNASKED_ANSWER, UNANSWERED, EARLY_ANSWER
};

struct beat { uint32_t data[BEAT_LIMBS], strobe[STROBES]; uint64_t at, due; };

struct peer {
  uint8_t *bytes;
  uint64_t size, base, random;
  uint32_t stall;                      /* of 256 cycles, those in which a channel waits */
  uint32_t latency, every;             /* cycles more from a request to its beats or answer; from beat to beat */
  uint64_t now, next[2];               /* cycles so far; the first in which a beat may be read, or written */
  uint32_t fault, at;                  /* what goes wrong with which burst, or its beats */
  enum broken broken;
  uint64_t bursts[2], beats[2];        /* read, written */
  uint32_t taken[2], ended[2];         /* another peer has the channel; the burst that had it has ended */
  struct beat read[QUEUE * 16];
  uint8_t wrong[QUEUE * 16], ends[QUEUE * 16];
  uint32_t read_head, read_count, answered;
  struct { uint64_t at; uint32_t left; } write;
  struct beat written[QUEUE * 16];     /* beats that are not answered */
  uint8_t last[QUEUE * 16];
  uint64_t due[QUEUE * 16];            /* when answers come, from the one behind those that have */
  uint32_t written_head, written_count, answers, early; /* early: the burst that is written has its answer */
  uint32_t before[2], payload[2][3], beat_before, beat_payload[BEAT_LIMBS + STROBES + 1];
};

/* As after a reset of the whole system: nothing is under way. */
static void peer_forget(struct peer *p) {
  p->read_count = p->written_count = p->answers = p->early = p->write.left = 0;
  p->before[0] = p->before[1] = p->beat_before = 0;
}

static uint32_t draw(struct peer *p) {
  p->random ^= p->random << 13;
  p->random ^= p->random >> 7;
  p->random ^= p->random << 17;
  return (uint32_t)(p->random >> 32);
}

static uint32_t waits(struct peer *p) { return (draw(p) & 255) < p->stall; }

static void hold(struct peer *p, enum broken rule, int broken) {
  if (broken && !p->broken) p->broken = rule;
}

static int silent(const struct peer *p) { return p->fault == SILENT && p->bursts[0] + p->bursts[1] >= p->at; }

/* What the memory drives in the cycle to come. */
static void peer_drive(struct peer *p, struct accelerator_in *in) {
  int quiet = silent(p);
  in->arready[0] = -(!quiet && p->read_count < QUEUE && !waits(p));
  in->awready[0] = -(!quiet && !p->write.left && p->written_count < QUEUE && !waits(p));
  /* No last beat is taken before the answer that comes too early, which may come in the cycle in which it is taken. */
  int early = p->fault == EARLY_ANSWER && p->write.left && !p->early && p->bursts[1] >= p->at;
  in->wready[0] = -(!quiet && !(early && p->write.left == 1) && !p->taken[1] && p->now >= p->next[1] && !waits(p));
  const struct beat *next = &p->read[p->read_head];
  int unexpected = p->fault == UNEXPECTED && !p->read_count && p->bursts[0] >= p->at;
  int due = p->read_count && p->now >= next->due && p->now >= p->next[0];
  int reads = unexpected || (!quiet && !p->taken[0] && due && !waits(p));
  in->rvalid[0] = -reads;
  for (int limb = 0; limb < BEAT_LIMBS; limb++) in->rdata[limb] = reads ? next->data[limb] : draw(p);
  in->rresp[0] = reads && !unexpected ? 2u * p->wrong[p->read_head] : 0;
  in->rlast[0] = -(!reads ? draw(p) & 1 : !unexpected && p->ends[p->read_head]);
  int unasked = p->fault == UNASKED_ANSWER && !p->written_count && !p->write.left && p->bursts[1] >= p->at;
  int mute = quiet || (p->fault == UNANSWERED && p->answered + 1 >= p->at);
  early &= !p->answers;
  int answers = p->answers && p->now >= p->due[p->answered % (QUEUE * 16)];
  in->bvalid[0] = -(unasked || early || (!mute && answers && !waits(p)));
  in->bresp[0] = 2u * (p->fault == WRITE_ERROR && p->answered + 1 == p->at);
}

static uint64_t window(struct peer *p, uint32_t address, uint32_t length) {
  uint64_t at = (uint64_t)address - p->base, bytes = (uint64_t)BYTES * (length + 1);
  hold(p, WINDOW, address < p->base || at + bytes > p->size || address % BYTES);
  hold(p, PAGE, address >> 12 != (address + bytes - 1) >> 12);
  return address < p->base || at + bytes > p->size ? 0 : at;
}

/* A request that was offered and not taken stays as it is. */
static void stays(struct peer *p, int channel, uint32_t valid, uint32_t ready, uint32_t address, uint32_t length) {
  uint32_t *payload = p->payload[channel];
  hold(p, UNSTABLE, p->before[channel] && (!valid || payload[0] != address || payload[1] != length));
  p->before[channel] = valid && !ready;
  payload[0] = address, payload[1] = length;
}

static void peer_read(struct peer *p, const struct accelerator_in *in, const struct accelerator_out *out) {
  uint32_t valid = out->arvalid[0] & 1, ready = in->arready[0] & 1, length = out->arlen[0];
  if (in->rvalid[0] && p->read_count) {
    p->ended[0] = p->ends[p->read_head];
    p->read_head = (p->read_head + 1) % (QUEUE * 16), p->read_count--, p->beats[0]++;
    p->next[0] = p->now + p->every;
  }
  hold(p, UNASKED, !(out->rready[0] & 1) || !(out->bready[0] & 1));
  stays(p, 0, valid, ready, out->araddr[0], length);
  if (!valid || !ready) return;
  hold(p, BURST, length > 15 || out->arburst[0] != 1 || 1u << out->arsize[0] != BYTES);
  uint64_t at = window(p, out->araddr[0], length);
  p->bursts[0]++;
  uint32_t fault = p->bursts[0] == p->at ? p->fault : NONE, bad = p->at * 7 % (length + 1);
  for (uint32_t n = 0; n < length + 1 + (fault == TOO_MANY); n++) {
    uint32_t place = (p->read_head + p->read_count++) % (QUEUE * 16);
    p->read[place].due = p->now + 1 + p->latency;
    memcpy(p->read[place].data, p->bytes + at + BYTES * (n < length ? n : length), BYTES);
    p->wrong[place] = fault == READ_ERROR && n == bad;
    p->ends[place] = (n == length + (fault == TOO_MANY)) != (fault == WRONG_MARK && n == bad);
  }
}

static void peer_write(struct peer *p, const struct accelerator_in *in, const struct accelerator_out *out) {
  uint32_t valid = out->awvalid[0] & 1, ready = in->awready[0] & 1, length = out->awlen[0];
  p->early |= in->bvalid[0] && p->write.left && !p->answers;
  if ((in->bvalid[0] || p->early) && p->answers) {
    p->early = 0;
    int wrong = in->bresp[0] != 0;
    for (int last = 0; !last; p->written_head = (p->written_head + 1) % (QUEUE * 16), p->written_count--) {
      struct beat *beat = &p->written[p->written_head];
      last = p->last[p->written_head];
      for (int byte = 0; byte < BYTES && !wrong; byte++)
        if (beat->strobe[byte / 32] >> byte % 32 & 1) p->bytes[beat->at + (uint64_t)byte] = (uint8_t)(beat->data[byte / 4] >> byte % 4 * 8);
    }
    p->answers--, p->answered++;
  }
  uint32_t offers = out->wvalid[0] & 1, takes = in->wready[0] & 1, now[BEAT_LIMBS + STROBES + 1];
  memcpy(now, out->wdata, sizeof out->wdata);
  memcpy(now + BEAT_LIMBS, out->wstrb, STROBES * sizeof *now);
  now[BEAT_LIMBS + STROBES] = out->wlast[0] & 1;
  hold(p, UNSTABLE, p->beat_before && (!offers || memcmp(now, p->beat_payload, sizeof now)));
  memcpy(p->beat_payload, now, sizeof now);
  p->beat_before = offers && !takes;
  hold(p, UNASKED, offers && !p->write.left);
  if (offers && takes && p->write.left) {
    uint32_t place = (p->written_head + p->written_count++) % (QUEUE * 16);
    struct beat *beat = &p->written[place];
    memcpy(beat->data, out->wdata, BYTES);
    memcpy(beat->strobe, out->wstrb, sizeof beat->strobe);
    beat->at = p->write.at;
    p->write.at += BYTES, p->beats[1]++;
    p->last[place] = --p->write.left == 0;
    p->next[1] = p->now + p->every;
    p->due[(p->answered + p->answers) % (QUEUE * 16)] = p->now + 1 + p->latency;
    p->answers += p->last[place];
    p->ended[1] = p->last[place];
    hold(p, LAST, p->last[place] != (out->wlast[0] & 1));
    uint32_t any = 0;
    for (int limb = 0; limb < STROBES; limb++) any |= beat->strobe[limb];
    hold(p, STROBE, !any);
  }
  stays(p, 1, valid, ready, out->awaddr[0], length);
  if (!valid || !ready) return;
  hold(p, BURST, length > 15 || out->awburst[0] != 1 || 1u << out->awsize[0] != BYTES);
  p->write.at = window(p, out->awaddr[0], length), p->write.left = length + 1, p->bursts[1]++;
}

static void peer_see(struct peer *p, const struct accelerator_in *in, const struct accelerator_out *out) {
  peer_read(p, in, out);
  peer_write(p, in, out);
  p->now++;
  hold(p, QUIET, out->o_quiet[0] && (p->written_count || p->write.left || (p->read_count && p->fault != TOO_MANY)));
}

static int wants(const struct peer *p, int way) { return !silent(p) && (way ? p->write.left : p->read_count); }

/* Peers of one memory: a channel of data, read or written, belongs to one of them for a burst, then to the next in the
   round whose burst waits for it. */
static void arbitrate(struct peer **peers, uint32_t count, uint32_t *owners) {
  for (int way = 0; way < 2; way++) {
    uint32_t owner = owners[way], next = owner;
    if (!wants(peers[owner], way) || peers[owner]->ended[way])
      do next = (next + 1) % count; while (next != owner && !wants(peers[next], way));
    owners[way] = next;
    peers[next]->ended[way] = 0;
    for (uint32_t n = 0; n < count; n++) peers[n]->taken[way] = n != next;
  }
}
