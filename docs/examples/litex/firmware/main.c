/* Runs a network that lies in the ROM behind this program, for each of its pictures, and prints the scores' bits.

   What run_network.py writes there, in words: how many words of commands, of the memory, and of a picture; the picture's first
   word in the memory; pictures; scores and the word of the first; words from a block of scores to the next; scores of a
   block; then commands, memory, pictures. */

#include <stdint.h>

#include "addresses.h"

enum { ID = 0x00, CONTROL = 0x20, STOP = 0x2C, INTERRUPT = 0x34, ENABLE = 0x38, WINDOW = 0x3C, LENGTH = 0x40,
       ADDRESS = 0x44, DATA = 0x48, CYCLES = 0x4C };

static volatile uint32_t *const registers = (volatile uint32_t *)REGISTERS;
static volatile uint32_t *const memory = (volatile uint32_t *)MAIN_RAM;
static volatile uint32_t interrupted;

#define HERE(address) (*(volatile uint32_t *)(address))

static uint32_t get(int at) { return registers[at / 4]; }
static void set(int at, uint32_t word) { registers[at / 4] = word; }

static void put(char letter) {
  while (HERE(CSR_UART_TXFULL_ADDR)) {}
  HERE(CSR_UART_RXTX_ADDR) = (uint32_t)letter;
}

static void print(const char *text) {
  while (*text) put(*text++);
}

static void print_hex(uint32_t word, int digits) {
  while (digits--) put("0123456789ABCDEF"[word >> 4 * digits & 15]);
}

static void copy(volatile uint32_t *to, const uint32_t *from, uint32_t words) {
  while (words--) *to++ = *from++;
}

/* The processor comes here when the accelerator has ended or stopped. */
void trap(void) {
  interrupted = get(INTERRUPT);
  set(INTERRUPT, 3);
}

static void run(void) {
  interrupted = 0;
  set(CONTROL, 1);
  while (!interrupted) {}
  if (interrupted == 1) return;
  print("stopped: ");
  print_hex(get(STOP), 8);
  print("\n");
  for (;;) {}
}

int main(void) {
  const uint32_t *network = (const uint32_t *)NETWORK;
  const uint32_t commands = network[0], words = network[1], picture = network[2], place = network[3], pictures = network[4];
  const uint32_t scores = network[5], first = network[6], pitch = network[7], block = network[8];
  const uint32_t *program = network + 9, *image = program + commands, *given = image + words;
  print("OpenMXU ");
  print_hex(get(ID), 8);
  print("\n");
  HERE(CSR_ACCELERATOR_EV_ENABLE_ADDR) = 1;
  asm volatile("csrw 0xBC0, %0" ::"r"(1u << ACCELERATOR_INTERRUPT));
  asm volatile("csrs mie, %0" ::"r"(1u << 11));
  asm volatile("csrsi mstatus, 8");
  set(WINDOW, MAIN_RAM);
  set(LENGTH, MAIN_RAM_BYTES);
  set(ENABLE, 3);
  set(ADDRESS, 0);
  for (uint32_t n = 0; n < commands; n++) set(DATA, program[n]);
  copy(memory, image, words);
  for (uint32_t n = 0; n < pictures; n++, given += picture) {
    copy(memory + place, given, picture);
    run();
    for (uint32_t score = 0; score < scores; score++) {
      const uint32_t at = first + score / block * pitch + score % block;
      print_hex(memory[at / 2] >> 16 * (at % 2), 4);
      put(' ');
    }
    print_hex(get(CYCLES), 8);
    print("\n");
  }
  print("done\n");
  for (;;) {}
}
