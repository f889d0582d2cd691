// The page: controls, the run they make, and what is shown of it.

const $ = (id) => document.getElementById(id);

/** Time: a cycle, and how it moves. */
class Transport {
  constructor(show) {
    this.show = show;
    this.cycle = 0;
    this.count = 1;
    this.playing = false;
    $("time").addEventListener("input", () => this.set(Number($("time").value)));
    $("first").addEventListener("click", () => this.set(0));
    $("last").addEventListener("click", () => this.set(this.count - 1));
    $("back").addEventListener("click", () => this.set(this.cycle - 1));
    $("forward").addEventListener("click", () => this.set(this.cycle + 1));
    $("play").addEventListener("click", () => this.play(!this.playing));
    const jump = (event) => {
      const box = $("strips").getBoundingClientRect();
      this.set(Math.floor(((event.clientX - box.left) / box.width) * this.count));
    };
    $("strips").addEventListener("pointerdown", (event) => {
      $("strips").setPointerCapture(event.pointerId);
      jump(event);
    });
    $("strips").addEventListener("pointermove", (event) => event.buttons && jump(event));
    document.addEventListener("keydown", (event) => this._key(event));
    // A button that was clicked by mouse gives up the focus, so that Space plays; Space presses one that Tab has reached.
    document.addEventListener("click", ({ target, detail }) => {
      if (detail && !target.closest(".grid, #cells")) target.closest("button")?.blur();
    });
  }

  _key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input:not(#time), select, textarea")) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ",": -1, ".": 1, PageUp: -10, PageDown: 10 };
    if (event.key in steps) this.set(this.cycle + steps[event.key] * (event.shiftKey ? 10 : 1));
    else if (event.key === "Home") this.set(0);
    else if (event.key === "End") this.set(this.count - 1);
    else if (event.key === " " && !target.matches("button")) this.play(!this.playing);
    else return;
    event.preventDefault();
  }

  /** A run of so many cycles. */
  length(count) {
    this.count = count;
    $("time").max = String(count - 1);
    this.cycle = Math.min(this.cycle, count - 1);
  }

  /** A cycle to look at before anything is played, which then begins with the first. */
  pose(cycle) {
    this.set(cycle);
    this.still = true;
  }

  set(cycle, playing = false) {
    this.still = false;
    if (!playing) this.play(false);
    this.cycle = Math.max(0, Math.min(this.count - 1, cycle));
    this.refresh();
  }

  refresh() {
    $("time").value = String(this.cycle);
    $("time").setAttribute("aria-valuetext", `cycle ${this.cycle} of ${this.count - 1}`);
    $("clock").textContent = `cycle ${this.cycle} of ${this.count - 1}`;
    this.show(this.cycle, this.playing);
  }

  play(on) {
    if (on === this.playing) return;
    this.playing = on;
    $("play").textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return this.show(this.cycle, false);
    if (this.still || this.cycle === this.count - 1) this.set(0, true);
    let before = null;
    let owed = 0;
    const tick = (now) => {
      if (!this.playing) return;
      owed += before === null ? 0 : ((now - before) / 1000) * Number($("speed").value);
      before = now;
      const steps = Math.floor(owed);
      owed -= steps;
      if (steps) this.set(this.cycle + steps, true);
      if (this.cycle >= this.count - 1) return this.play(false);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
}

/** Arrow keys move between the buttons or fields of a grid, of which one can be reached by Tab. */
function rove(grid, columns) {
  const all = () => [...grid.querySelectorAll("button, input")];
  grid.addEventListener("focusin", ({ target }) => all().forEach((each) => (each.tabIndex = each === target ? 0 : -1)));
  grid.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns(), Home: -Infinity, End: Infinity };
    if (!(key in moves) || event.shiftKey || staysInText(target, key)) return;
    const cells = all();
    const next = cells[Math.max(0, Math.min(cells.length - 1, cells.indexOf(target) + moves[key]))];
    next.focus();
    next.select?.();
    event.preventDefault();
    event.stopPropagation();
  });
}

/** Whether a key moves within the text of a field: there is text on that side, and not all of it is selected. */
function staysInText({ selectionStart: start, selectionEnd: end, value }, key) {
  if (start === undefined || key === "ArrowUp" || key === "ArrowDown") return false;
  if (key === "Home" || key === "End") return true;
  const all = start === 0 && end === value.length;
  return !all && (key === "ArrowLeft" ? end > 0 : start < value.length);
}

/** Both ends of each stream in a cycle, beside what the streams do over time. */
function showStreams(run, cycle) {
  $("streams").replaceChildren(...["weights", "activations", "results"].map((name) => make("li", {}, name,
    ...["valid", "ready"].map((end) => {
      const high = run.stream(cycle, `${name}__${end}`);
      return make("span", { class: `lamp${high ? " high" : ""}`, "data-lamp": `${name}-${end}`, "aria-label": `${end} ${high ? "high" : "low"}` }, end);
    }))));
}

/** Columns of a grid, of which each has room for the longest text. */
function fitColumns(grid, columns, texts) {
  const most = Math.max(3, ...texts.map((text) => text.length));
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(calc(${most}ch + 3px), 1fr))`;
}

class Page {
  constructor(data) {
    this.data = data;
    this.colours = new Colours();
    this.colours.changed = () => this.redraw();
    this.machines = new Machines(data);
    this.seed = 1;
    this.chosen = null;
    this.opened = null;
    this.turn = 0;
    this.note = "";
  }

  async open() {
    this.live = await this.machines.open();
    this.scene = new Scene($("scene"), this.colours);
    this.strips = new Strips($("strips"), this.colours);
    this.transport = new Transport((cycle, playing) => this.show(cycle, playing));
    this._controls();
    const { recorded } = this.data;
    Object.assign(this, {
      a: { rows: recorded.m, columns: recorded.k, bits: Uint32Array.from(recorded.a) },
      b: { rows: recorded.k, columns: recorded.n, bits: Uint32Array.from(recorded.b) },
    });
    new ResizeObserver(() => this.redraw()).observe($("stage"));
    if (this.live) {
      $("kind").textContent = "live";
      $("about").textContent = "The netlist of an open bf16 matrix unit multiplies your matrices in this page, bit for bit and clock by clock.";
    } else {
      $("notice").hidden = false;
      $("notice").textContent = this.data.modules
        ? "This browser runs no WebAssembly here: you see a recorded run."
        : "A recorded run: this file was made without the machine code of the unit.";
      for (const control of $("setup").querySelectorAll("button[data-preset], select:not(#view), input, textarea")) control.disabled = true;
    }
    this._editors();
    await this.compute(true);
    this.transport.pose(this.run.busiest());
  }

  /** Fill the controls and listen to them. */
  _controls() {
    const { data } = this;
    const fill = (id, values, chosen) => {
      $(id).append(...values.map(([value, label]) => make("option", { value }, label)));
      $(id).value = String(chosen);
    };
    const sizes = this.live ? data.sides : [...new Set([data.recorded.rows, data.recorded.columns])].sort((a, b) => a - b);
    const [stages, terms] = ["stages", "terms"].map((each, at) => [...new Set(this.live ? data.sizes.map((size) => size[at]) : [data.recorded[each]])]);
    fill("rows", sizes.map((each) => [each, each]), data.recorded.rows);
    fill("columns", sizes.map((each) => [each, each]), data.recorded.columns);
    fill("stages", stages.map((each) => [each, each]), data.recorded.stages);
    fill("terms", terms.map((each) => [each, each]), data.recorded.terms);
    fill("precision", Object.keys(data.passes).map((name) => [name, name]), data.recorded.precision);
    fill("stalls", [[0, "none"], ...data.seeds.map((seed, at) => [at + 1, `seed ${seed}`])], data.recorded.stalls);
    for (const id of ["rows", "columns", "stages", "terms", "precision", "stalls"]) $(id).addEventListener("change", () => this.compute());
    $("view").addEventListener("change", () => (this._editors(), this._resultGrid(), this.redraw()));
    for (const id of ["m", "k", "n"]) {
      $(id).max = String(data.most_side);
      $(id).addEventListener("change", () => this._resize());
    }
    for (const button of document.querySelectorAll("[data-preset]"))
      button.addEventListener("click", () => this._preset(button.dataset.preset));
    for (const button of document.querySelectorAll("[data-text]")) this._textButton(button);
    rove($("cells"), () => this.run.columns);
    rove($("c"), () => this.run.n);
    for (const name of ["a", "b"]) rove($(name), () => this[name].columns);
  }

  get asHex() {
    return $("view").value === "hex";
  }

  _textButton(button) {
    const name = button.dataset.text;
    const area = $(`${name}-text`);
    button.addEventListener("click", () => {
      area.hidden = !area.hidden;
      button.setAttribute("aria-expanded", String(!area.hidden));
      this._texts();
    });
    area.addEventListener("input", () => {
      // Text that is pasted comes line by line.
      document.body.dataset.state = "reading";
      clearTimeout(this.reading);
      this.reading = setTimeout(() => this._readTexts(), 30);
    });
  }

  /** The matrices as text, where that is shown and nobody writes there. */
  _texts() {
    for (const name of ["a", "b"]) {
      const area = $(`${name}-text`);
      if (area.hidden || area === document.activeElement) continue;
      const { rows, columns, bits } = this[name];
      area.value = Array.from({ length: rows }, (_, row) =>
        Array.from(bits.subarray(row * columns, (row + 1) * columns), (each) => typed(each, this.asHex)).join(" ")).join("\n");
    }
  }

  _readTexts() {
    for (const name of ["a", "b"]) if (!$(`${name}-text`).hidden && !this._readText(name, $(`${name}-text`))) return undefined;
    this._editors();
    return this.compute();
  }

  _readText(name, area) {
    const lines = area.value.trim().split(/\n+/).map((line) => line.trim().split(/[\s,;]+/).map((word) => this._read(word)));
    const columns = lines[0].length;
    const most = this.data.most_side;
    if (lines.some((line) => line.length !== columns || line.includes(null)))
      return this._mistake(`Lines of ${name.toUpperCase()} must have equally many numbers, or patterns such as 0x3F800000`);
    if (lines.length > most || columns > most) return this._mistake(`${name.toUpperCase()} must have at most ${most} rows and columns`);
    this[name] = { rows: lines.length, columns, bits: Uint32Array.from(lines.flat()) };
    return true;
  }

  /** The pattern of a text, or null; what becomes of a number that fp32 does not have is told with the next run. */
  _read(text) {
    const bits = parse(text);
    if (bits !== null) this.note ||= changed(text, bits);
    return bits;
  }

  /** Say what is wrong; gives false. */
  _mistake(words) {
    this._tell(words, true);
    document.body.dataset.state = "mistaken";
    return false;
  }

  _tell(words, wrong = false) {
    $("mistake").textContent = words;
    $("mistake").hidden = !words;
    $("mistake").className = wrong ? "bad" : "";
    this.note = "";
  }

  _preset(name) {
    const [a, b] = preset(name, { m: this.a.rows, k: this.a.columns, n: this.b.columns }, this.seed++);
    Object.assign(this, { a, b });
    this._editors();
    this._texts();
    return this.compute();
  }

  _resize() {
    const most = this.data.most_side;
    const size = (id) => {
      const { value } = $(id);
      const taken = Math.max(1, Math.min(most, Math.round(Number(value)) || 1));
      if (value !== String(taken)) this.note = `${id.toUpperCase()} must be an integer from 1 to ${most}: ${value || "nothing"} becomes ${taken}`;
      return taken;
    };
    const fit = ({ rows, columns, bits }, newRows, newColumns, seed) => {
      const [, fresh] = preset("random", { m: 1, k: newRows, n: newColumns }, seed);
      for (let row = 0; row < Math.min(rows, newRows); row++)
        for (let column = 0; column < Math.min(columns, newColumns); column++)
          fresh.bits[row * newColumns + column] = bits[row * columns + column];
      return fresh;
    };
    this.a = fit(this.a, size("m"), size("k"), this.seed++);
    this.b = fit(this.b, size("k"), size("n"), this.seed++);
    this._editors();
    this._texts();
    return this.compute();
  }

  /** The two matrices as fields. */
  _editors() {
    for (const name of ["a", "b"]) {
      const { rows, columns, bits } = this[name];
      $(name).replaceChildren(...Array.from({ length: rows }, (_, row) => make("div", {},
        ...Array.from({ length: columns }, (__, column) => this._field(name, row, column, bits[row * columns + column])))));
    }
    $("m").value = String(this.a.rows);
    $("k").value = String(this.a.columns);
    $("n").value = String(this.b.columns);
    this._heat();
  }

  _field(name, row, column, bits) {
    const field = make("input", {
      "aria-label": `${name.toUpperCase()} row ${row} column ${column}`, value: typed(bits, this.asHex),
      autocomplete: "off", size: 1, tabindex: row || column ? "-1" : "0", title: `0x${hex(bits)} = ${long(toValue(bits))}`, disabled: this.live ? null : "",
    });
    field.addEventListener("change", () => {
      const read = this._read(field.value);
      field.setAttribute("aria-invalid", String(read === null));
      if (read === null) return void this._mistake(`Enter a number, or a pattern such as 0x3F80 or 0x3F800000, not "${field.value}"`);
      this[name].bits[row * this[name].columns + column] = read;
      field.value = typed(read, this.asHex);
      this._texts();
      this._heat();
      this.compute();
    });
    return field;
  }

  /** Numbers of a matrix, the larger the darker; columns as wide as the longest. */
  _heat() {
    for (const name of ["a", "b"]) {
      fitColumns($(name), this[name].columns, [...$(name).querySelectorAll("input")].map((field) => field.value));
      const sizes = Array.from(this[name].bits, (each) => Math.abs(toValue(each)));
      const most = Math.max(...sizes.filter(Number.isFinite), 1e-37);
      [...$(name).querySelectorAll("input")].forEach((field, index) => {
        const share = Number.isFinite(sizes[index]) ? Math.min(1, sizes[index] / most) : 1;
        field.style.background = `color-mix(in srgb, var(--significand) ${Math.round(share * 42)}%, var(--idle))`;
      });
    }
  }

  /** Run what the controls say. */
  async compute(first = false) {
    if (this.a.columns !== this.b.rows)
      return this._mistake(`A has ${this.a.columns} columns and B ${this.b.rows} rows: both must be K`);
    const [rows, terms] = [Number($("rows").value), Number($("terms").value)];
    if (rows % terms) return this._mistake(`Rows must be a multiple of terms=${terms}, not ${rows}`);
    this._tell(this.note);
    const given = {
      rows, columns: Number($("columns").value), stages: Number($("stages").value), terms,
      precision: $("precision").value, stalls: Number($("stalls").value),
      m: this.a.rows, k: this.a.columns, n: this.b.columns, a: this.a.bits.slice(), b: this.b.bits.slice(),
    };
    const turn = ++this.turn;
    document.body.dataset.state = "running";
    const run = this.live ? await this.machines.run(given) : await recordedRun(this.data);
    if (turn !== this.turn) return undefined; // something newer was asked for
    const atEnd = this.run && this.transport.cycle === this.run.count - 1;
    this.run = run;
    this.golden = !this.live ? Uint32Array.from(this.data.recorded.golden)
      : Model.multiply({ ...run, inner: run.k, columns: run.n, passes: run.passesOf });
    this.largest = Math.max(0, ...run.results.map((each) => Math.abs(toValue(each.bits))).filter(Number.isFinite));
    if (this.chosen && (this.chosen.row >= run.m || this.chosen.column >= run.n)) this.chosen = null;
    if (this.opened && (this.opened.row >= run.elementRows || this.opened.column >= run.columns)) this.opened = null;
    this._resultGrid();
    this._cellGrid();
    this._legend();
    $("total").textContent = String(run.cycles);
    $("element").textContent = run.terms === 1 ? "" : `A cell is an element of ${run.terms} rows: it takes ${run.terms} activations (a), ` +
      `as many weights (w) and one sum from above, adds ${run.terms} products to it, and rounds once.`;
    this.transport.length(run.count);
    if (atEnd) this.transport.cycle = run.count - 1;
    if (!first) this.transport.refresh();
    document.body.dataset.state = "ready";
    return undefined;
  }

  _resultGrid() {
    const { run } = this;
    fitColumns($("c"), run.n, run.results.map((each) => this._word(each.bits)));
    this.resultButtons = [];
    $("c").replaceChildren(...Array.from({ length: run.m }, (_, row) => make("div", {},
      ...Array.from({ length: run.n }, (__, column) => {
        const button = make("button", {
          type: "button", tabindex: row || column ? "-1" : "0",
          onclick: () => this.choose(this.chosen && this.chosen.row === row && this.chosen.column === column ? null : { row, column }),
        });
        this.resultButtons.push(button);
        return button;
      }))));
    $("bar").replaceChildren(...Array.from({ length: run.m * run.n }, () => make("i")));
    $("bar").style.gap = run.m * run.n > 96 ? "0" : "";
    this.shown = new Int8Array(run.m * run.n).fill(-1);
  }

  _cellGrid() {
    const { run } = this;
    $("cells").replaceChildren(...Array.from({ length: run.elementRows }, (_, row) => make("div", {},
      ...Array.from({ length: run.columns }, (__, column) => make("button", {
        type: "button", tabindex: row || column ? "-1" : "0",
        onclick: () => this.openCell(this.opened && this.opened.row === row && this.opened.column === column ? null : { row, column }),
      })))));
  }

  /** What a result's button shows. */
  _word(bits) {
    return this.asHex ? hex(bits) : short(toValue(bits), 3);
  }

  choose(place) {
    this.chosen = place;
    if (place) this.opened = null;
    this.redraw();
  }

  openCell(place) {
    this.opened = place;
    if (place) this.chosen = null;
    this.redraw();
  }

  redraw() {
    if (this.run) this.show(this.transport.cycle, this.transport.playing);
  }

  /** Show a cycle. */
  show(cycle, playing) {
    const { run } = this;
    if (!run) return;
    $("cycle").textContent = String(cycle);
    this.scene.draw(run, cycle, $("stage").clientWidth, { chosen: this.chosen, asHex: this.asHex });
    this.strips.draw(run, cycle, $("strips").clientWidth, this._marks());
    showStreams(run, cycle);
    this._counts(cycle);
    this._results(cycle);
    if (!playing) {
      this._mark();
      this._describeCells(cycle);
    }
    this._inspect(cycle, playing);
  }

  /** Cycles in which products of the chosen result are made. */
  _marks() {
    if (!this.chosen) return [];
    const { run, chosen } = this;
    const marks = [];
    for (const beat of run.beats) {
      const tile = run.tiles[beat.tile];
      const column = chosen.column - tile.column;
      if (tile.row + beat.beat === chosen.row && column >= 0 && column < tile.columns)
        for (let row = 0; row < tile.inners; row += run.terms) marks.push(run.cycleOf(beat, row / run.terms, column));
    }
    return marks;
  }

  _counts(cycle) {
    const { run } = this;
    const [, busy, input, output] = [0, 1, 2, 3].map((counter) => run.at(cycle, "counters", counter));
    $("counts").replaceChildren(
      make("li", {}, "admission: ", make("b", { id: "why" }, run.reason(cycle) || "a beat enters")),
      make("li", {}, `results in the bank: ${run.admission(cycle, "held")} of ${run.data.depth}`),
      make("li", { id: "counters", title: "The unit's own counters" }, `busy cycles: ${busy}; stall cycles: input ${input}, output ${output}`));
  }

  _results(cycle) {
    const { run, golden } = this;
    let there = 0;
    let same = 0;
    const bars = $("bar").children;
    run.results.forEach((result, index) => {
      const finished = result.cycle <= cycle;
      const equal = result.bits === golden[index];
      there += finished ? 1 : 0;
      same += finished && equal ? 1 : 0;
      const state = !finished ? 0 : equal ? 1 : 2;
      if (this.shown[index] === state) return;
      this.shown[index] = state;
      bars[index].className = ["", "same", "differs"][state];
      const button = this.resultButtons[index];
      const row = Math.floor(index / run.n);
      const column = index % run.n;
      const text = this._word(result.bits);
      button.textContent = finished ? text : "·";
      button.className = finished ? `there${equal ? "" : " differs"}` : "";
      const tile = run.tiles.find((each) => each.emit && column >= each.column && column < each.column + each.columns && row >= each.row && row < each.row + each.rows);
      const share = this.largest ? Math.abs(toValue(result.bits)) / this.largest : 0;
      const strength = share >= 0.02 || !Number.isFinite(toValue(result.bits)) ? 76 + 24 * Math.min(1, share || 1) : 22;
      button.style.background = finished ? `color-mix(in srgb, var(--t${tile.number % 4}) ${strength}%, var(--bg))` : "";
      if (finished && strength < 50) button.classList.add("pale");
      button.title = finished ? `${hex(result.bits)} = ${long(toValue(result.bits))}` : "";
      button.setAttribute("aria-label", `C row ${row} column ${column}: ` + (finished ? `${text}, ${equal ? "bit-identical to" : "differs from"} the golden model` : "not there yet"));
    });
    const verdict = there === 0 ? `none of ${run.m * run.n} yet` : `${there} of ${run.m * run.n}`;
    const words = there === 0 ? "" : same === there ? "bit-identical to the golden model" : `${there - same} differ from the golden model`;
    $("verdict").replaceChildren(verdict, ...(words ? [": ", make("span", { class: same === there ? "good" : "bad" }, words)] : []));
  }

  /** Mark the chosen result, and the row and the column that went into it. */
  _mark() {
    const { run } = this;
    this.resultButtons.forEach((button, index) => button.setAttribute("aria-pressed",
      String(Boolean(this.chosen && this.chosen.row * run.n + this.chosen.column === index))));
    for (const [name, line, each] of [["a", this.chosen?.row, "row"], ["b", this.chosen?.column, "column"]])
      [...$(name).querySelectorAll("input")].forEach((field, index) => {
        const { columns } = this[name];
        field.classList.toggle("lit", line !== undefined && (each === "row" ? Math.floor(index / columns) : index % columns) === line);
      });
  }

  /** Buttons over the cells, for hands and screen readers. */
  _describeCells(cycle) {
    const { run } = this;
    const { left, top, cell, high } = this.scene.layout;
    [...$("cells").querySelectorAll("button")].forEach((button, index) => {
      const row = Math.floor(index / run.columns);
      const column = index % run.columns;
      Object.assign(button.style, { left: `${left + column * cell + 1}px`, top: `${top + row * high + 1}px`, width: `${cell - 2}px`, height: `${high - 2}px` });
      const numbers = (name) => Array.from({ length: run.terms }, (_, term) =>
        short(toValue((run.operand(cycle, row, column, name, term) << 16) >>> 0))).join(" ");
      const several = run.terms > 1 ? "s" : "";
      const beat = run.beatAt(cycle, row, column);
      button.setAttribute("aria-label", `${rowWords(row, run.terms).toLowerCase()} column ${column}: activation${several} ${numbers("o_activation")}, ` +
        `weight${several} ${numbers("active")}, shadow weight${several} ${numbers("o_weight")}, partial sum ${short(toValue(run.cell(cycle, row, column, "o_psum")))}, ${beat ? `tile ${beat.tile}` : "idle"}`);
      button.setAttribute("aria-pressed", String(Boolean(this.opened && this.opened.row === row && this.opened.column === column)));
    });
  }

  _inspect(cycle, playing) {
    $("hint").hidden = Boolean(this.chosen || this.opened);
    $("inspector").setAttribute("aria-live", playing ? "off" : "polite");
    if (this.chosen) {
      const old = $("inspector").querySelector(".lists");
      const scroll = old ? old.scrollTop : 0;
      $("inspector").replaceChildren(resultPanel(this.run, this.golden, this.chosen, cycle, (to) => this.transport.set(to)));
      $("inspector").querySelector(".lists").scrollTop = scroll;
    } else if (this.opened) $("inspector").replaceChildren(cellPanel(this.run, this.opened, cycle));
    else $("inspector").replaceChildren();
  }

  _legend() {
    const { run } = this;
    const item = (style, words, mark = "") => make("li", {}, make("i", { style }, mark), words);
    const tiles = run.tiles.slice(0, 4).map((tile) => {
      const alike = run.tiles.filter((each) => each.number % 4 === tile.number).map((each) => each.number);
      return item(`background:var(--t${tile.number})`, `tile ${alike.slice(0, 3).join(", ")}${alike.length > 3 ? ", …" : ""}`);
    });
    $("legend").replaceChildren(...tiles,
      item("background:var(--t0);color:var(--on)", "first activation of a tile", "●"),
      item("color:var(--t1)", "a weight moves down", "▼"),
      item("background:var(--sign)", "sign"), item("background:var(--exponent)", "exponent"), item("background:var(--significand)", "significand"),
      make("li", {}, "a activation, w active weight, s shadow weight, Σ partial sum"));
  }
}
