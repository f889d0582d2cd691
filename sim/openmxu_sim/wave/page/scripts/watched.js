// The accelerator in a page: its commands, its scratchpad and its array, cycle by cycle.

/** A run of the program on a picture. */
class WatchedRun {
  constructor(data, words, frames, before, defined) {
    Object.assign(this, { data, words, frames, before, defined, ...data.machine });
    this.count = frames.length / words;
    this.cycles = Array.from({ length: this.count }, (_, cycle) => cycle);
    const moves = (name) => this.cycles.filter((cycle) => this.stream(cycle, `${name}__valid`) && this.stream(cycle, `${name}__ready`));
    this.found = { weights: moves("weights"), activations: moves("activations"), results: moves("results") };
    // The n-th row of a stream is the n-th that was read for it, or will be written; so its command is known.
    const commands = (event, begin) => this.when(event).map((cycle) => this.when("fetch_o_begin", this.when(begin, cycle).at(-1)).length);
    const multiplies = (number) => data.commands[number].text.startsWith("matmul");
    this.order = {
      weights: commands("weights_loop_i_next", "fetch_o_begin_weights"),
      activations: commands("feeder_o_read", "fetch_o_begin").filter(multiplies),
      results: data.commands.flatMap(({ writes }, number) => Array(multiplies(number) ? writes : 0).fill(number)),
    };
  }

  /** The value of a wire in a cycle; words of one bit are all ones where it is high. */
  at(cycle, name, limb = 0) {
    return this.frames[cycle * this.words + this.data.frame[name] + limb];
  }

  stream(cycle, name) {
    return this.at(cycle, `mxu_${name}`) & 1;
  }

  /** The cycles before one in which a wire is high, or a stream moves. */
  when(name, before = Infinity) {
    this.found[name] ??= this.cycles.filter((cycle) => this.at(cycle, name) & 1);
    const end = this.found[name].findIndex((cycle) => cycle >= before);
    return this.found[name].slice(0, end < 0 ? undefined : end);
  }

  /** The command of the row that a stream offers. */
  offered(cycle, name) {
    return { number: this.order[name][this.when(name, cycle).length] };
  }

  /** The command whose activation an element multiplies: its sum arrives below so many cycles later. */
  busy(cycle, row, column) {
    const [name, arrives] = [`mxu_bank_column_${column}_o_control`, cycle + this.stages + (this.size - 1 - row) * this.step];
    return arrives < this.count && this.at(arrives, name) & 1 ? this.order.activations[this.when(name, arrives).length] : -1;
  }

  /** The scratchpad as a cycle begins, and the words of it that were written. */
  scratchpad(cycle) {
    const [words, written] = [this.before.slice(), new Set()];
    for (const at of this.when("writer_o_write", cycle)) {
      const row = this.at(at, "writer_o_row");
      for (let lane = 0; lane < this.size; lane++) {
        if (!((this.at(at, "writer_o_lanes") >> lane) & 1)) continue;
        words[row * this.size + lane] = this.at(at, "writer_o_data", lane >> 1) >>> (16 * (lane & 1));
        written.add(row * this.size + lane);
      }
    }
    return [words, written];
  }

  /** What a command does, in a word and in words. */
  state(cycle, number) {
    const [begun, done] = ["fetch_o_begin", "writer_o_done"].map((name) => this.when(name, cycle).length);
    const [state, ends] = [this.at(cycle, "fetch_state"), number === this.data.commands.length - 1];
    if (number < done || (ends && state === 0)) return ["done", "done"];
    if (number !== begun) return number < begun ? ["runs", "runs"] : ["", "not fetched yet"];
    if (state < 3) return ["fetched", state === 1 ? `is fetched: word ${this.at(cycle, "fetch_word")}` : "is checked"];
    const allowed = ends ? 0 : this.data.commands[number].computes; // commands that may be unfinished; 15: any
    if (allowed < 15 && begun - done > allowed) return ["waits", `waits until command ${number - allowed - 1} is done`];
    if (this.at(cycle, "feeder_o_busy")) return ["waits", `waits until command ${number - 1} has read its rows`];
    if (!this.at(cycle, "writer_o_ready")) return ["waits", "waits for the writer"];
    return ["waits", this.at(cycle, "fetch_o_begin") ? "begins" : ends ? "ends" : "waits for the reader of weights"];
  }
}

class WatchedPage extends Page {
  async open() {
    const halves = async (name) => new Uint16Array((await inflate(this.data[name])).buffer);
    const { instance } = await WebAssembly.instantiate(await inflate(this.data.module), {});
    instance.exports._initialize?.();
    Object.assign(this, { words: await halves("words"), weights: await halves("weights"), code: instance.exports });
    [this.scratchpad, this.array] = ["scene", "array"].map((id) => new Pen($(id), this.colours));
    this.strips = new Strips($("strips"), this.colours);
    this.transport = new Transport((cycle) => this.show(cycle));
    $("kind").textContent = "live";
    $("speed").value = "30";
    $("digits").append(...Array.from({ length: 10 }, (_, digit) => make("button", { type: "button", onclick: () => this.choose(digit) }, String(digit))));
    this.choose(3);
    new ResizeObserver(() => this.redraw()).observe($("stage"));
    this.transport.pose(Math.floor(this.run.count / 5));
    document.body.dataset.state = "ready";
  }

  /** Run the program on a digit, every cycle of it. */
  choose(digit) {
    const { code, data } = this;
    const { size } = data.machine;
    const scratchpad = (at) => this.words.subarray((at * this.words.length) / 20, ((at + 1) * this.words.length) / 20);
    const [before, defined] = [scratchpad(2 * digit), scratchpad(2 * digit + 1)];
    const program = data.commands.flatMap(({ words }) => words.flatMap((word) => [word & 0xffff, word >>> 16, ...Array(size - 2).fill(0)]));
    code.page_new();
    for (const [memory, words] of [program, this.weights, before].entries()) {
      new Uint16Array(code.memory.buffer, code.page_data(), words.length).set(words);
      code.page_write(1 << memory, words.length / size);
    }
    code.page_start();
    const [frames, words] = [[], code.page_words()];
    do {
      code.page_cycle();
      frames.push(...new Uint32Array(code.memory.buffer, code.page_frame(), words));
    } while (frames.at(data.frame.o_running - words));
    this.run = new WatchedRun(data, words, frames, before, defined);
    [...$("digits").children].forEach((button, each) => button.setAttribute("aria-pressed", String(each === digit)));
    this.transport.length(this.run.count);
    this.transport.refresh();
  }

  show(cycle) {
    const { run } = this;
    $("cycle").textContent = String(cycle);
    this.strips.draw(run, cycle, $("strips").clientWidth);
    showStreams(run, cycle);
    $("commands").replaceChildren(...this.data.commands.map(({ text, layer }, number) => {
      const [state, why] = run.state(cycle, number);
      return make("li", { class: state, style: `border-color:var(--${layer ? `t${number % 4}` : "frame"})` },
        make("b", {}, `${number} ${text.split(" ")[0]} ${layer}`), make("span", {}, why), make("code", {}, text));
    }));
    const [words, written] = run.scratchpad(cycle);
    this._scratchpad(cycle, words);
    this._result(words, written);
    this._array(cycle);
  }

  _scratchpad(cycle, words) {
    const { run, colours, scratchpad: pen } = this;
    const width = $("stage").clientWidth;
    const word = Math.max(3, Math.min(9, Math.floor(((width - 24) / 16 - 2) / run.size)));
    const [across, high] = [run.size * word + 2, 2.4 * word + 4];
    const at = (wire, row) => (run.at(cycle, wire) ? run.at(cycle, row) : "–");
    const reader = run.at(cycle, "fetch_o_exchanged") ? "weights" : "feeder";
    const [read, write] = [at(`${reader}_o_read`, `${reader}_o_address`), at("writer_o_write", "writer_o_row")];
    [$("reads").textContent, $("writes").textContent] = [read, write];
    pen.resize(width, 14 * high + 52);
    pen.begin();
    this.data.pictures.forEach(({ name, base, plane, pitch }, index, pictures) => {
      const [left, top] = [(index % 2) * (8 * across + 24), index < 2 ? 18 : 10 * high + 48];
      const end = pictures[index + 1]?.base ?? words.length / run.size;
      pen.text(left, top - 9, `${name}: rows ${base}–${end - 1}`, { colour: colours.muted, mono: false, size: 12 });
      for (let row = base; row < end; row++) {
        const x = left + (((row - base) % pitch) + pitch * Math.floor((row - base) / plane)) * across;
        const y = top + Math.floor(((row - base) % plane) / pitch) * high;
        words.subarray(row * run.size, (row + 1) * run.size).forEach((bits, lane) => {
          const value = toValue(bits << 16);
          const box = (colour, strength) => pen.box(x + lane * word, y, word - 0.5, high - 2, colour, strength);
          box(colours.idle, 1);
          box(value < 0 ? colours.exponent : colours.significand, Math.abs(value) / (Math.abs(value) + 0.5));
        });
        if (row === read || row === write) pen.outline(x, y, across - 2.5, high - 2, row === read ? colours.fg : colours.accent, 2.5);
      }
    });
  }

  /** Words that are there, beside the definition's; and the scores. */
  _result(words, written) {
    const { size, defined } = this.run;
    const [, first, , last] = this.data.pictures.map(({ base }) => base * size);
    const there = Array.from(words.keys()).filter((index) => index < first || written.has(index));
    const wrong = there.filter((index) => words[index] !== defined[index]).length;
    $("verdict").textContent = wrong ? `${wrong} of ${there.length} words differ from the definition` : `${there.length} of ${words.length} words as defined`;
    $("verdict").className = wrong ? "bad" : there.length === words.length ? "good" : "";
    const scores = Array.from({ length: 10 }, (_, digit) => (there.includes(last + digit) ? toValue(words[last + digit] << 16) : "·"));
    $("scores").replaceChildren(...scores.map((score) => make("li", { class: score === Math.max(...scores) ? "good" : "" }, score === "·" ? score : short(score))));
  }

  _array(cycle) {
    const { run, colours, array: pen } = this;
    const [across, high, elements] = [$("busy").clientWidth / run.size, 40, run.size ** 2];
    let busy = 0;
    pen.resize(across * run.size, high * run.size);
    pen.begin();
    for (let element = 0; element < elements; element++) {
      const [row, column] = [Math.floor(element / run.size), element % run.size];
      const [x, y, owner] = [column * across, row * high, run.busy(cycle, row, column)];
      const held = (name) => short(toValue(run.at(cycle, `mxu_array_row_${row}_pe_${column}_${name}`) << 16), 3);
      busy += owner < 0 ? 0 : 1;
      pen.box(x, y, across - 2, high - 2, colours.idle);
      if (owner >= 0) pen.box(x, y, across - 2, high - 2, colours.tile(owner), 0.45);
      pen.text(x + 5, y + 12, `a ${held("o_activation")}`);
      pen.text(x + 5, y + 27, `w ${held("active")}`);
    }
    const share = (100 * run.when("activations", cycle).length) / Math.max(1, cycle);
    $("busy").textContent = `${busy} of ${elements} elements busy; ${share.toFixed(1)} % of the array so far`;
  }
}
