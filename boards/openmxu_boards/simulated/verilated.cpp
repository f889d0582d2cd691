// A simulation as functions of C: pins are bits of words, and time is counted in cycles of the one clock.
#include <cstdint>
#include <stdexcept>
#include <string>

#include "Vtop.h"
#include "verilated.h"

namespace {

struct Simulation {
    VerilatedContext context;
    Vtop top{&context};
    std::string error;

    void clock(int level) {
        top.clk = level;
        top.eval();
    }
};

Simulation* of(void* simulation) { return static_cast<Simulation*>(simulation); }

}  // namespace

// Verilator's own would end the process.
void vl_fatal(const char*, int, const char*, const char* message) { throw std::runtime_error(message); }

extern "C" {

void* simulation_new() {
    auto* made = new Simulation;
    made->top.i = 0;
    try {
        made->clock(0);
    } catch (const std::runtime_error& error) {
        made->error = error.what();
    }
    return made;
}

void simulation_delete(void* simulation) { delete of(simulation); }

// What the circuit drives its pins with, and which it drives; and why it cannot be simulated, if so.
std::uint64_t simulation_outputs(void* simulation) { return of(simulation)->top.o; }
std::uint64_t simulation_enables(void* simulation) { return of(simulation)->top.oe; }
const char* simulation_error(void* simulation) { return of(simulation)->error.c_str(); }

// Set the input pins and let cycles pass, up to and with the first one that changes a watched output pin; how many have.
std::uint64_t simulation_run(void* simulation, std::uint64_t pins, std::uint64_t cycles, std::uint64_t watched) {
    Simulation& it = *of(simulation);
    Vtop& top = it.top;
    try {
        top.i = pins;
        top.eval();
        for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
            const std::uint64_t outputs = top.o, enables = top.oe;
            it.clock(1);
            it.clock(0);
            if (((outputs ^ top.o) | (enables ^ top.oe)) & watched) return cycle + 1;
        }
    } catch (const std::runtime_error& error) {
        it.error = error.what();
    }
    return cycles;
}

// Give one input pin a level for each cycle, and note those of one output pin; what nobody drives is high.
void simulation_play(void* simulation, std::uint64_t pins, std::uint64_t driven, std::uint64_t watched,
                     const std::uint8_t* levels, std::uint8_t* seen, std::uint64_t cycles) {
    Simulation& it = *of(simulation);
    Vtop& top = it.top;
    try {
        for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
            top.i = levels[cycle] ? pins | driven : pins;
            it.clock(0);
            it.clock(1);
            it.clock(0);
            seen[cycle] = (top.o | ~top.oe) & watched ? 1 : 0;
        }
    } catch (const std::runtime_error& error) {
        it.error = error.what();
    }
}
}
