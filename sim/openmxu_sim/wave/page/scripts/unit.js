// The unit: machine code made of its netlists, and what it held in each cycle of a run.

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Machine code by stages and terms, and the patterns of waits. */
class Machines {
  constructor(data) {
    this.data = data;
    this.instances = new Map();
  }

  /** Whether this browser runs them. */
  async open() {
    if (!this.data.modules || typeof WebAssembly !== "object" || typeof DecompressionStream !== "function") return false;
    try {
      const all = await inflate(this.data.modules);
      this.patterns = await inflate(this.data.patterns);
      let start = 0;
      this.code = new Map();
      for (const [stages, terms, size] of this.data.sizes) {
        this.code.set(`${stages} ${terms}`, all.slice(start, start + size));
        start += size;
      }
      await this._instance([...this.code.keys()][0]);
      return true;
    } catch (error) {
      console.warn(`no machine code here: ${error}`);
      return false;
    }
  }

  async _instance(element) {
    if (!this.instances.has(element)) {
      const { instance } = await WebAssembly.instantiate(this.code.get(element), {});
      if (instance.exports._initialize) instance.exports._initialize();
      this.instances.set(element, instance.exports);
    }
    return this.instances.get(element);
  }

  /** Run a product, every cycle of it. */
  async run(given) {
    const code = await this._instance(`${given.stages} ${given.terms}`);
    const { data } = this;
    const names = Object.keys(data.passes);
    const first = names.slice(0, names.indexOf(given.precision)).reduce((sum, name) => sum + data.passes[name].length, 0);
    const memory = () => code.memory.buffer;
    new Uint32Array(memory(), code.page_matrix(0), given.m * given.k).set(given.a);
    new Uint32Array(memory(), code.page_matrix(1), given.k * given.n).set(given.b);
    if (given.stalls) {
      const size = this.patterns.length / data.seeds.length;
      const packed = this.patterns.subarray((given.stalls - 1) * size, given.stalls * size);
      const target = new Uint8Array(memory(), code.page_pattern(), 8 * size);
      for (let bit = 0; bit < target.length; bit++) target[bit] = (packed[bit >> 3] >> (7 - (bit & 7))) & 1;
    }
    const passes = data.passes[given.precision];
    const count = code.page_begin(
      given.rows, given.columns, given.m, given.k, given.n, first, passes.length, given.stalls ? 1 : 0,
    );
    if (!count) throw new Error("too little memory");
    const table = new BigInt64Array(memory(), code.page_tile(), 9 * count);
    const tiles = Array.from({ length: count }, (_, n) => Array.from(table.subarray(9 * n, 9 * n + 9), Number));
    const words = frameWords(data, given);
    let frames = new Uint32Array(words * 256);
    let cycles = 0;
    for (let state = 0; !state; cycles++) {
      if ((cycles + 1) * words > frames.length) {
        const larger = new Uint32Array(frames.length * 2);
        larger.set(frames);
        frames = larger;
      }
      state = code.page_cycle();
      frames.set(new Uint32Array(memory(), code.page_frame(), words), cycles * words);
      if (state > 1) throw new Error("the unit hangs");
    }
    return new Run(data, given, tiles, frames.slice(0, cycles * words), code.page_cycles());
  }
}

const frameWords = (data, given) => {
  const layout = data.layouts[`${given.stages} ${given.terms}`];
  return layout.cells + (given.rows / given.terms) * given.columns * layout.limbs;
};

/** Frames that were written down: each but the first is the difference to the one before. */
async function recordedRun(data) {
  const { recorded } = data;
  const bytes = await inflate(recorded.frames);
  const frames = new Uint32Array(bytes.buffer);
  const words = frameWords(data, recorded);
  for (let word = words; word < frames.length; word++) frames[word] ^= frames[word - words];
  const given = { ...recorded, a: Uint32Array.from(recorded.a), b: Uint32Array.from(recorded.b) };
  return new Run(data, given, recorded.tiles, frames, recorded.cycles);
}

/** A run, and what follows from what the unit held: which beat is where. Cycles are counted from the end of the reset. */
class Run {
  constructor(data, given, tiles, frames, cycles) {
    Object.assign(this, given);
    this.data = data;
    this.frames = frames;
    this.cycles = cycles;
    this.layout = data.layouts[`${given.stages} ${given.terms}`];
    this.elementRows = given.rows / given.terms; // rows of elements
    this.words = frameWords(data, given);
    this.count = frames.length / this.words;
    this.step = this.layout.row_step;
    this.passesOf = data.passes[given.precision];
    const innerTiles = Math.ceil(given.k / given.rows);
    this.tiles = tiles.map(([row, rows, inner, inners, , column, columns, marks], number) => ({
      number, row, rows, inner, inners, column, columns,
      pass: Math.floor(number / innerTiles) % this.passesOf.length,
      add: (marks >> 2) & 1, emit: (marks >> 4) & 1, keep: (marks >> 5) & 1,
    }));
    this.swapping = this.tiles.filter((tile) => !tile.keep);
    this._place();
    this._follow();
  }

  /** A word of the frame of a cycle. */
  at(cycle, field, index = 0) {
    return this.frames[cycle * this.words + this.layout[field] + index];
  }

  stream(cycle, name) {
    return this.at(cycle, "streams", this.data.streams.indexOf(name));
  }

  /** A register of admission. */
  admission(cycle, name) {
    const [limb, width] = this.layout.names.admission[this.rows][name];
    const word = this.at(cycle, "admission", limb);
    return width === 1 ? word & 1 : word;
  }

  /** A register of a processing element. */
  cell(cycle, row, column, name) {
    const [limb, width] = this.layout.names.unit[name];
    const word = this.at(cycle, "cells", (row * this.columns + column) * this.layout.limbs + limb);
    return width === 1 ? word & 1 : word;
  }

  /** One of the operands in a register of a processing element, which may have several. */
  operand(cycle, row, column, name, term = 0) {
    const [limb] = this.layout.names.unit[name] ?? this.layout.names.unit.shadow;
    const word = this.at(cycle, "cells", (row * this.columns + column) * this.layout.limbs + limb + (term >> 1));
    return (word >>> (16 * (term & 1))) & 0xffff;
  }

  /** All limbs of a register, the highest first, as hexadecimal digits. */
  cellText(cycle, row, column, name) {
    const [limb, width] = this.layout.names.unit[name];
    if (width === 1) return String(this.cell(cycle, row, column, name));
    const start = (row * this.columns + column) * this.layout.limbs + limb;
    let text = "";
    for (let n = Math.ceil(width / 32); n--; ) text += hex(this.at(cycle, "cells", start + n));
    return text.slice(-Math.ceil(width / 4));
  }

  /** When beats leave admission, and how long they take from there to the first cell. */
  _place() {
    this.beats = [];
    this.leaving = new Int32Array(this.count).fill(-1);
    let tile = 0;
    let beat = 0;
    for (let cycle = 0; cycle < this.count; cycle++) {
      if (!this.stream(cycle, "admission.o_go")) continue;
      this.leaving[cycle] = this.beats.length;
      this.beats.push({ cycle, tile, beat, place: this.admission(cycle, "place") });
      if (++beat === this.tiles[tile].rows) (beat = 0), tile++;
    }
    let swap = 0;
    while (swap < this.count && !this.cell(swap, 0, 0, "o_swap")) swap++;
    this.delay = swap - this.beats[0].cycle;
    this.writeDelay = this.layout.write_delay + (this.elementRows - 1) * this.step;
  }

  /** The first cycle in which the bank holds a beat's sum of a column; and that sum. */
  written(beat, column) {
    return beat.cycle + this.writeDelay + column + 1;
  }

  sum(beat, column) {
    return this.at(this.written(beat, column), "bank", column);
  }

  /** Results by place in the matrix; loads and swap marks that a cell has seen; beats taken of each stream. */
  _follow() {
    const cells = this.elementRows * this.columns;
    this.results = new Array(this.m * this.n);
    this.loads = new Uint16Array(this.count * cells);
    this.swaps = new Uint16Array(this.count * cells);
    this.taken = { weights: new Uint32Array(this.count + 1), activations: new Uint32Array(this.count + 1), results: new Uint32Array(this.count + 1) };
    const emitted = this.tiles.filter((tile) => tile.emit).flatMap((tile) => Array.from({ length: tile.rows }, (_, n) => [tile, n]));
    this.emitted = emitted;
    const [load] = this.layout.names.unit.o_load;
    const [swap] = this.layout.names.unit.o_swap;
    let given = 0;
    for (let cycle = 0; cycle < this.count; cycle++) {
      const frame = cycle * this.words + this.layout.cells;
      for (let cell = 0; cell < cells; cell++) {
        const before = cycle ? (cycle - 1) * cells + cell : -1;
        const registers = frame + cell * this.layout.limbs;
        this.loads[cycle * cells + cell] = (before < 0 ? 0 : this.loads[before]) + (this.frames[registers + load] & 1);
        this.swaps[cycle * cells + cell] = (before < 0 ? 0 : this.swaps[before]) + (this.frames[registers + swap] & 1);
      }
      for (const name of ["weights", "activations", "results"]) {
        const moves = this.stream(cycle, `${name}__valid`) && this.stream(cycle, `${name}__ready`);
        this.taken[name][cycle + 1] = this.taken[name][cycle] + (moves ? 1 : 0);
      }
      if (this.taken.results[cycle + 1] === given) continue;
      const [tile, beat] = emitted[given++];
      for (let n = 0; n < tile.columns; n++)
        this.results[(tile.row + beat) * this.n + tile.column + n] = { bits: this.at(cycle, "results", n), cycle };
    }
    // Results leave in the order of their places, which never come round: a page has at most 256 of them.
    this.lines = Math.max(...this.beats.map((beat) => beat.place + 1 - this.taken.results[beat.cycle]));
  }

  /** The beat whose activation a cell multiplies in a cycle; or null. */
  beatAt(cycle, row, column) {
    const left = cycle - this.delay - row * this.step - column;
    return left >= 0 && left < this.count && this.leaving[left] >= 0 ? this.beats[this.leaving[left]] : null;
  }

  /** The beat whose partial sum a cell shows. */
  sumAt(cycle, row, column) {
    return this.beatAt(cycle - this.stages, row, column);
  }

  /** When a cell multiplies a beat. */
  cycleOf(beat, row, column) {
    return beat.cycle + this.delay + row * this.step + column;
  }

  /** The tiles whose weights a cell has active and in its shadow register, by number; -1 where none. */
  weightsOf(cycle, row, column, term = 0) {
    const index = (cycle * this.elementRows + row) * this.columns + column;
    const loads = this.loads[index] - term; // a weight goes from term to term
    const shadow = loads > 0 ? Math.floor((loads - 1) / (this.rows - row * this.terms)) : -1;
    const number = (block) => (block >= 0 && this.swapping[block] ? this.swapping[block].number : -1);
    return { active: number(this.swaps[index] - 1), shadow: number(shadow) };
  }

  /** The tile that the weights on offer belong to, and the activations or results. */
  offered(cycle, name) {
    if (!this.stream(cycle, `${name}__valid`)) return null;
    const before = this.taken[name][cycle];
    if (name === "weights") return this.swapping[Math.floor(before / this.rows)];
    if (name === "results") return this.emitted[before] ? this.emitted[before][0] : null;
    return this.tiles[this.beats[before].tile]; // beats go in the order in which they come
  }

  /** For each line and column of the bank: the beat written there last, and whether its result has left. There are as
   *  many lines as places are in use at once; a line is every n-th place. */
  bank(cycle) {
    const found = Array.from({ length: this.lines }, () => new Array(this.columns).fill(null));
    const gone = this.taken.results[cycle];
    for (const beat of this.beats) {
      if (beat.cycle > cycle) break;
      const left = beat.place < gone;
      for (let column = 0; column < this.columns; column++)
        if (this.written(beat, column) <= cycle) found[beat.place % this.lines][column] = { beat, left };
    }
    return found;
  }

  /** Why no beat of activations leaves admission in a cycle; empty where one does. */
  reason(cycle) {
    const register = (name) => this.admission(cycle, name);
    if (this.stream(cycle, "admission.o_go")) return "";
    if (!register("activations"))
      return this.taken.activations[cycle] === this.beats.length ? "no work left" : "waits for activations";
    if (register("swap") && !register("loaded")) return "waits for the weights of the tile";
    return "waits for a sum in flight";
  }

  /** A cycle in which there is much to see: a quarter of the results or more, and several tiles in the array. */
  busiest() {
    let best = 0;
    let most = -1;
    const all = this.emitted.length;
    for (let cycle = 0; cycle < this.count; cycle++) {
      const busy = {}; // cells, by tile
      for (let row = 0; row < this.elementRows; row++)
        for (let column = 0; column < this.columns; column++) {
          const beat = this.beatAt(cycle, row, column);
          if (beat) busy[beat.tile] = (busy[beat.tile] ?? 0) + 1;
        }
      const cells = Object.values(busy);
      const there = this.taken.results[cycle];
      const score = (4 * there >= all && there < all ? 5000 : 0) + 1000 * cells.length + (cells.length && Math.min(...cells));
      if (score > most) [best, most] = [cycle, score];
    }
    return best;
  }
}
