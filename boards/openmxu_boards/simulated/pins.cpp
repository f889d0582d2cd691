/* A design with the pins clk, rst, rx and tx, clocked by whoever calls play: a level of rx in, a level of tx out, each
   cycle. */

#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

namespace {

struct Pins {
  VerilatedContext context;
  Vtop top{&context};

  Pins() {
    top.rx = 1;
    top.rst = 1;
    for (int cycle = 0; cycle < 4; ++cycle) clock();
    top.rst = 0;
  }
  ~Pins() { top.final(); }

  void clock() {
    top.clk = 0;
    top.eval();
    top.clk = 1;
    top.eval();
  }
};

}  // namespace

extern "C" {

void* pins_new() { return new Pins; }

void pins_delete(void* pins) { delete static_cast<Pins*>(pins); }

void pins_play(void* pins, const std::uint8_t* rx, std::uint8_t* tx, std::uint64_t cycles) {
  Pins& self = *static_cast<Pins*>(pins);
  for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
    self.top.rx = rx[cycle];
    self.clock();
    tx[cycle] = self.top.tx;
  }
}
}

double sc_time_stamp() { return 0; }
