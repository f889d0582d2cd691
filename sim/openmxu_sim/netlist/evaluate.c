/* Operands through the gates. Before this: lanes.c, gates(), widths[]. */

enum { PORTS = sizeof widths / sizeof *widths };

/* blocks + latency blocks of operands for each port in, one port behind the other; as many blocks of results out. */
void evaluate(const uint32_t *in, uint32_t *out, size_t blocks, size_t latency) {
  word state[REGISTERS + 1] = {{0}};  // not shared: threads may evaluate at once
  word i[32 * PORTS], o[32];
  for (size_t block = 0; block < blocks + latency; block++) {
    int wires = 0;
    for (int port = 0; port < PORTS; port++) {
      word operand[32];
      memcpy(operand, in + (port * (blocks + latency) + block) * LANES, sizeof operand);
      transpose(operand);
      for (int bit = 0; bit < widths[port]; bit++) i[wires++] = operand[bit];
    }
    gates(i, o, state);
    transpose(o);
    if (block >= latency) memcpy(out + (block - latency) * LANES, o, sizeof o);
  }
}
