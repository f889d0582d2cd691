/* Beats from files into the unit, results into a file: cycle by cycle what Traffic in stimulus.py does.

   In the folder where it is run: "weights" and "activations", beats one behind the other, each in as many bytes as its
   bits need, lowest first; "stalls", a byte for each cycle of a period and each stream, not 0 where the stream's other
   side waits. It writes "results", beats likewise.

   Standard output: now and then the number of results, on a line; last the cycles from the first beat taken to the
   last result given, those that were simulated, and the seconds that they took. */

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "Vbench.h"

namespace {

using std::uint64_t;
using Clock = std::chrono::steady_clock;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

[[noreturn]] void refuse(const char* name) {
  std::fprintf(stderr, "%s: beats are wider than the port\n", name);
  std::exit(1);
}

File open(const char* name, const char* mode) {
  File file(std::fopen(name, mode));
  if (!file) fail(name);
  return file;
}

uint64_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

/* When the other side of a stream waits: 0 weights, 1 activations, 2 results. */
class Stalls {
 public:
  explicit Stalls(uint64_t period) : period_(period), pattern_(3 * period) {
    if (period && std::fread(pattern_.data(), pattern_.size(), 1, open("stalls", "rb").get()) != 1) fail("stalls");
  }
  bool waits(int stream, uint64_t cycle) const {
    return period_ && pattern_[stream * period_ + cycle % period_];
  }

 private:
  uint64_t period_;
  std::vector<unsigned char> pattern_;
};

/* What offers beats from a file. Ports of any width are integers or arrays of them, lowest first, on little-endian
   machines: their first bytes are their lowest bits. */
template <typename Payload>
class Source {
 public:
  Source(const char* name, uint64_t size, CData& valid, Payload& payload)
      : file_(open(name, "rb")), size_(size), valid_(valid), payload_(payload) {
    static_assert(std::is_trivially_copyable<Payload>::value, "a port's bytes are its value");
    if (size > sizeof payload) refuse(name);
    valid_ = 0;
    std::memset(static_cast<void*>(&payload_), 0, sizeof payload_);
  }
  void offer(bool waits) {
    if (valid_ || waits || exhausted_) return;
    valid_ = std::fread(&payload_, size_, 1, file_.get()) == 1;
    exhausted_ = !valid_;
  }
  bool offers() const { return valid_; }
  void taken() { valid_ = 0; }

 private:
  File file_;
  uint64_t size_;
  CData& valid_;
  Payload& payload_;
  bool exhausted_ = false;
};

}  // namespace

int main(int, char** arguments) {
  const uint64_t weight_size = number(arguments[1]), activation_size = number(arguments[2]);
  const uint64_t result_size = number(arguments[3]), wanted = number(arguments[4]);
  const uint64_t period = number(arguments[5]), patience = number(arguments[6]);

  VerilatedContext context;
  Vbench unit(&context);
  const auto edge = [&unit] {  // every one counts, rising or falling
    unit.clk = !unit.clk;
    unit.eval();
  };
  const Stalls stalls(period);
  Source weights("weights", weight_size, unit.weights_valid, unit.weights_payload);
  Source activations("activations", activation_size, unit.activations_valid, unit.activations_payload);
  const File results = open("results", "wb");
  if (result_size > sizeof unit.results_payload) refuse("results");

  unit.results_ready = 0;
  unit.clk = 0;
  unit.eval();
  for (const int rst : {1, 1, 0}) {  // there is a register before the unit, which sees the 0 from the first cycle on
    unit.rst = rst;
    edge();
  }

  uint64_t cycle = 0, given = 0, idle = 0, start = 0, cycles = 0;
  bool started = false;
  const auto begin = Clock::now();
  auto report = begin;
  for (; given < wanted; cycle++) {
    weights.offer(stalls.waits(0, cycle));
    activations.offer(stalls.waits(1, cycle));
    unit.results_ready = !stalls.waits(2, cycle);
    unit.eval();
    const bool weight = weights.offers() && unit.weights_ready;
    const bool activation = activations.offers() && unit.activations_ready;
    const bool result = unit.results_valid && unit.results_ready;
    if ((weight || activation) && !started) {
      started = true;
      start = cycle;
    }
    if (result) {
      if (std::fwrite(&unit.results_payload, result_size, 1, results.get()) != 1) fail("results");
      given++;
      cycles = cycle + 1 - start;
    }
    idle = weight || activation || result ? 0 : idle + 1;
    if (idle > patience) {
      std::fprintf(stderr,
                   "the unit hangs: nothing moved for %ju cycles up to cycle %ju, %ju of %ju results are there\n",
                   uintmax_t(idle), uintmax_t(cycle), uintmax_t(given), uintmax_t(wanted));
      return 1;
    }
    edge();
    if (weight) weights.taken();
    if (activation) activations.taken();
    if (cycle % 64 == 0 && Clock::now() > report) {
      std::printf("%ju\n", uintmax_t(given));
      std::fflush(stdout);
      report = Clock::now() + std::chrono::milliseconds(200);
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  unit.final();
  if (std::fflush(results.get()) != 0) fail("results");
  std::printf("%ju %ju %.9f\n", uintmax_t(cycles), uintmax_t(cycle), seconds.count());
  return 0;
}
