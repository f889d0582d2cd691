// The UART pins of the simulated SoC on standard input and output: 8N1, one byte after the other. Ends with the input.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "Vsoc.h"

namespace {

// Cycles without a byte in either direction after which the simulation waits for the host; it ends after others if told.
constexpr unsigned kIdle = 10000;

Vsoc top;
unsigned long long cycles;

void cycle() {
  top.sys_clk = 1;
  top.eval();
  top.sys_clk = 0;
  top.eval();
  ++cycles;
}

// Bytes from the host to the pin serial_rx.
class Sender {
 public:
  explicit Sender(unsigned cycles_per_bit) : period_(cycles_per_bit) {}

  // False at the end of the input.
  bool step(bool may_wait) {
    if (bits_ == 0 && next_ == size_ && !fill(may_wait)) return false;
    if (bits_ == 0 && next_ < size_) {
      frame_ = 1u << 9 | static_cast<unsigned>(buffer_[next_++]) << 1;  // stop bit, data, start bit
      bits_ = 10;
      left_ = period_;
    }
    top.serial_rx = bits_ == 0 || (frame_ & 1);
    if (bits_ != 0 && --left_ == 0) {
      frame_ >>= 1;
      --bits_;
      left_ = period_;
    }
    return true;
  }

  bool busy() const { return bits_ != 0; }

 private:
  bool fill(bool may_wait) {
    if (!may_wait && ++unasked_ % 64 != 0) return true;  // a system call for each cycle would take most of the time
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, may_wait ? -1 : 0) <= 0) return true;
    const ssize_t count = read(STDIN_FILENO, buffer_, sizeof buffer_);
    next_ = 0;
    size_ = count > 0 ? static_cast<size_t>(count) : 0;
    return count > 0;
  }

  const unsigned period_;
  unsigned char buffer_[4096];
  size_t next_ = 0, size_ = 0;
  unsigned frame_ = 0, bits_ = 0, left_ = 0, unasked_ = 0;
};

// Bytes from the pin serial_tx to the host.
class Receiver {
 public:
  explicit Receiver(unsigned cycles_per_bit) : period_(cycles_per_bit) {}

  // False when the host is gone.
  bool step() {
    if (bits_ == 0) {
      if (!top.serial_tx) {
        bits_ = 10;
        left_ = period_ / 2;  // to the middle of the start bit
      }
      return true;
    }
    if (--left_ != 0) return true;
    left_ = period_;
    if (bits_ == 10 && top.serial_tx) {
      bits_ = 0;  // no start bit: the pin is low for a cycle at power-on
      return true;
    }
    frame_ = frame_ >> 1 | static_cast<unsigned>(top.serial_tx) << 9;
    if (--bits_ != 0) return true;
    if (!(frame_ >> 9)) {
      std::fprintf(stderr, "serial_tx is low in place of a stop bit in cycle %llu\n", cycles);
      std::exit(1);
    }
    const unsigned char byte = frame_ >> 1 & 0xFF;
    return write(STDOUT_FILENO, &byte, 1) == 1;
  }

  bool busy() const { return bits_ != 0; }

 private:
  const unsigned period_;
  unsigned frame_ = 0, bits_ = 0, left_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) return 2;
  std::signal(SIGPIPE, SIG_IGN);
  const unsigned cycles_per_bit = static_cast<unsigned>(std::atoi(argv[1]));
  const unsigned most = argc == 3 ? static_cast<unsigned>(std::atoi(argv[2])) : kIdle;
  Sender sender(cycles_per_bit);
  Receiver receiver(cycles_per_bit);
  top.serial_rx = 1;
  for (unsigned idle = 0; sender.step(argc == 2 && idle > most); idle = sender.busy() || receiver.busy() ? 0 : idle + 1) {
    cycle();
    if (!receiver.step() || (argc == 3 && idle > most)) break;
  }
  std::fprintf(stderr, "%llu cycles\n", cycles);
  return 0;
}
