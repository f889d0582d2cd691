// The machine as a picture on a canvas: streams, array, accumulator bank, for one cycle of a run.

class Colours {
  constructor() {
    this.read();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.read();
      this.changed?.();
    });
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["bg", "fg", "muted", "idle", "frame", "wait", "on", "sign", "exponent", "significand", "accent"])
      this[name] = get(name);
    this.tiles = [0, 1, 2, 3].map((number) => get(`t${number}`));
  }

  tile(number) {
    return number === null || number === undefined || number < 0 ? this.idle : this.tiles[number % 4];
  }
}

const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

class Pen {
  constructor(canvas, colours) {
    this.canvas = canvas;
    this.colours = colours;
    this.context = canvas.getContext("2d");
  }

  resize(width, height) {
    const scale = Math.max(1, window.devicePixelRatio || 1);
    if (this.width === width && this.height === height && this.scale === scale) return;
    Object.assign(this, { width, height, scale });
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
  }

  begin() {
    const { context } = this;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
  }

  box(x, y, width, height, fill, alpha = 1) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = fill;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
  }

  outline(x, y, width, height, colour, line = 1) {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x, y, width, height);
  }

  text(x, y, words, { size = 11, colour = this.colours.fg, align = "left", bold = false, mono = true } = {}) {
    const { context } = this;
    context.font = `${bold ? "600 " : ""}${size}px ${mono ? MONO : "system-ui, sans-serif"}`;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillStyle = colour;
    context.fillText(words, x, y);
  }

  /** The size of type in which a text fits a width. */
  fitting(words, width) {
    return Math.min(11, width / (0.61 * words.length));
  }

  /** The bits of a pattern, highest left: strong where they are one, coloured by field. Where there is no room between
   *  two, neighbours alike are one box. */
  bits(x, y, width, height, pattern, size) {
    const { colours } = this;
    const pitch = width / size;
    const together = pitch < 4 ? size : 1;
    let bit = 0;
    for (const [field, colour] of [colours.sign, colours.exponent, colours.significand].entries()) {
      const end = bit + FIELDS[size][field];
      this.box(x + bit * pitch, y, (end - bit) * pitch - 0.7, height, colour, 0.22);
      while (bit < end) {
        const start = bit;
        while (bit < end && bit - start < together && (pattern >>> (size - 1 - bit)) & 1) bit++;
        if (bit > start) this.box(x + start * pitch, y, (bit - start) * pitch - 0.7, height, colour);
        else bit++;
      }
    }
  }
}

/** Where everything is, for a width. Cells that are `rich` show the shadow weight, and the bits of each number. */
function sceneLayout(run, width) {
  const narrow = width < 520;
  const gutter = narrow ? 56 : 96;
  const cell = Math.min(150, Math.floor((width - gutter - 2) / run.columns));
  const rich = cell >= 76;
  const line = rich ? (run.rows > 5 ? 16 : 19) : cell >= 50 ? 18 : 14;
  const group = (rich ? 3 : 2) * line; // an activation and its weights
  const high = run.terms * group + line + (rich ? 2 : 4);
  const place = Math.max(2, Math.min(rich && run.rows <= 5 ? 12 : 8, Math.floor(192 / run.lines)));
  const top = 40;
  const bank = top + run.elementRows * high + 22;
  const results = bank + run.lines * place + 24;
  const left = gutter + Math.max(0, Math.floor((width - gutter - cell * run.columns) / 2));
  const middle = (row) => top + Math.floor(row / run.terms) * high + (run.terms === 1 ? high / 2 : ((row % run.terms) + 0.5) * group);
  return { narrow, gutter, cell, rich, line, group, high, middle, place, top, bank, results, left, height: results + 20, width };
}

class Scene {
  constructor(canvas, colours) {
    this.pen = new Pen(canvas, colours);
    this.colours = colours;
  }

  /** Draw a cycle; `chosen`: {row, column} of a result in the matrix, or null; `asHex`. */
  draw(run, cycle, width, { chosen = null, asHex = false } = {}) {
    const { pen, colours } = this;
    const layout = sceneLayout(run, width);
    this.layout = layout;
    pen.resize(width, layout.height);
    pen.begin();
    const { left, top, bank, results, gutter, narrow } = layout;
    for (const [x, y, words] of [
      [left + 2, 8, "weights ↓"], [left - gutter + 2, top - 10, narrow ? "activations" : "activations →"],
      [left + 2, bank - 9, "sums in the bank"], [left + 2, results - 9, "results ↓"],
    ]) pen.text(x, y, words, { colour: colours.muted, mono: false, size: narrow ? 9 : 12 });
    this._offers(run, cycle, layout, asHex);
    for (let row = 0; row < run.rows; row++) this._skew(run, cycle, row, layout);
    for (let row = 0; row < run.elementRows; row++)
      for (let column = 0; column < run.columns; column++) this._cell(run, cycle, row, column, layout, chosen, asHex);
    this._bank(run, cycle, layout, chosen, asHex);
    this._results(run, cycle, layout, asHex);
  }

  _word(x, y, width, bits, tile, waiting, asHex, size = 32) {
    const { pen, colours } = this;
    pen.box(x, y, width, 18, tile ? colours.tile(tile.number) : colours.idle, tile && waiting ? 0.55 : 1);
    if (!tile) return;
    const digits = width < 44 ? 2 : 3;
    const text = asHex && width >= 60 ? hex(bits, size) : short(toValue(bits), digits);
    pen.text(x + width / 2, y + 9.5, text, { size: pen.fitting(text, width - 2), colour: colours.on, align: "center" });
  }

  /** Beats on offer: weights above the array, activations at its left. */
  _offers(run, cycle, layout, asHex) {
    const { pen, colours } = this;
    const { left, cell } = layout;
    const weights = run.offered(cycle, "weights");
    const activations = run.offered(cycle, "activations");
    for (let column = 0; column < run.columns; column++)
      this._word(
        left + column * cell + 1, 17, cell - 2, run.at(cycle, "weights", column), weights,
        !run.stream(cycle, "weights__ready"), asHex,
      );
    const width = layout.narrow ? 44 : 46;
    for (let row = 0; row < run.rows; row++)
      this._word(
        left - layout.gutter + 2, layout.middle(row) - 9, width, run.at(cycle, "activations", row), activations,
        !run.stream(cycle, "activations__ready"), false,
      );
  }

  /** Beats on their way from admission to a row: as many registers as there are. */
  _skew(run, cycle, row, layout) {
    const { pen, colours } = this;
    const right = layout.left - 6;
    const room = layout.narrow ? 0 : 34;
    const pitch = 6;
    const y = layout.middle(row) - 7;
    const late = run.delay + Math.floor(row / run.terms) * run.step;
    for (let distance = 1; distance < late && distance * pitch <= room; distance++) {
      const left = cycle - late + distance;
      const index = left >= 0 && left < run.count ? run.leaving[left] : -1;
      pen.box(right - distance * pitch, y, pitch - 1.5, 14, index < 0 ? colours.idle : colours.tile(run.beats[index].tile));
    }
  }

  _cell(run, cycle, row, column, layout, chosen, asHex) {
    const { pen, colours } = this;
    const { cell, high, rich, line, group } = layout;
    const x = layout.left + column * cell + 1;
    const y = layout.top + row * high + 1;
    const width = cell - 2;
    const height = high - 2;
    const beat = run.beatAt(cycle, row, column);
    const tile = beat ? run.tiles[beat.tile] : null;
    const useful = (term) => row * run.terms + term < tile.inners && column < tile.columns;
    pen.box(x, y, width, height, colours.idle);
    if (tile) pen.box(x, y, width, height, colours.tile(tile.number), useful(0) ? 0.2 : 0.1);
    const psum = run.cell(cycle, row, column, "o_psum");
    const weights = run.weightsOf(cycle, row, column);
    const sums = run.sumAt(cycle, row, column);
    const mark = tile && run.cell(cycle, row, column, "o_swap") ? "●" : "a";
    const lines = [];
    for (let term = 0; term < run.terms; term++) {
      if (tile) pen.box(x, y + term * group, width, line, colours.tile(tile.number), useful(term) ? 1 : 0.5);
      const held = (name) => run.operand(cycle, row, column, name, term);
      const name = run.terms === 1 ? "a" : `${mark}${row * run.terms + term}`;
      lines.push([name, held("o_activation"), 16, tile ? tile.number : -1, tile], ["w", held("active"), 16, weights.active]);
      if (rich) lines.push(["s", held("o_weight"), 16, run.weightsOf(cycle, row, column, term).shadow]);
    }
    if (run.terms > 1) pen.box(x, y + run.terms * group, width, 1.5, colours.muted);
    lines.push(["Σ", psum, 32, sums ? sums.tile : -1]);
    lines.forEach((each, index) => this._line(x, y + index * line, layout, each, each[4], asHex));
    this._marks(run, cycle, row, column, { x, y, width, head: line, tile, weights, rich });
    if (chosen) this._light(run, cycle, row, column, beat, chosen, { x, y, width, height });
  }

  _line(x, y, { cell, line: high, rich }, [name, bits, size, tile], onTile, asHex) {
    const { pen, colours } = this;
    const width = cell - 2;
    const named = width >= 48;
    const pale = onTile ? colours.on : colours.muted;
    const middle = y + high / 2 + (rich ? -0.5 : 1);
    if (named && !onTile) pen.box(x + 4, middle - 4, 4, 7, colours.tile(tile), tile < 0 ? 0 : 1);
    if (named) pen.text(x + (onTile ? 4 : 10), middle, name, { size: 10, colour: pale });
    const both = width >= (size === 16 ? 104 : 142);
    if (both) pen.text(x + 27, middle, hex(bits, size), { size: 10, colour: pale });
    const text = !both && asHex ? hex(bits, size) : short(toValue(size === 16 ? bits << 16 : bits), width < 96 ? 3 : 4);
    const ink = onTile ? colours.on : tile < 0 && name !== "Σ" ? colours.muted : colours.fg;
    pen.text(x + width - 4, middle, text, { size: pen.fitting(text.padEnd(6), width - (named ? 22 : 6)), colour: ink, align: "right" });
    if (!rich) return;
    if (onTile) pen.box(x + 3, y + high - 4.5, width - 6, 4.5, colours.bg);
    pen.bits(x + 4, y + high - 4, width - 8, 3.5, bits, size);
  }

  /** A dot: first activation of a tile. A triangle: the shadow register has just taken a weight over. */
  _marks(run, cycle, row, column, { x, y, width, head, tile, weights, rich }) {
    const { pen, colours } = this;
    const { context } = pen;
    if (tile && run.cell(cycle, row, column, "o_swap") && (run.terms === 1 || width < 48)) {
      context.fillStyle = colours.on;
      context.beginPath();
      if (width >= 48) context.arc(x + 18, y + head / 2, 3, 0, 7);
      else context.arc(x + 3, y + 3, 2, 0, 7);
      context.fill();
    }
    if (run.cell(cycle, row, column, "o_load")) {
      const size = width >= 48 ? 9 : 6;
      const left = rich ? x + width / 2 - size / 2 : x + (width >= 48 ? 22 : 0);
      context.fillStyle = colours.tile(weights.shadow);
      context.strokeStyle = colours.bg;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(left, y - 2);
      context.lineTo(left + size, y - 2);
      context.lineTo(left + size / 2, y - 2 + size * 0.75);
      context.closePath();
      context.fill();
      context.stroke();
    }
  }

  /** Light a cell that holds one of the products of a result. */
  _light(run, cycle, row, column, beat, chosen, { x, y, width, height }) {
    const { pen, colours } = this;
    const tile = beat ? run.tiles[beat.tile] : null;
    const ours = tile && tile.row + beat.beat === chosen.row && tile.column + column === chosen.column && row * run.terms < tile.inners;
    if (ours) {
      pen.box(x, y, width, height, colours.accent, 0.16);
      pen.outline(x + 1.5, y + 1.5, width - 3, height - 3, colours.accent, 3.5);
      return;
    }
    if (run.tiles.some((each) => each.column + column === chosen.column && row * run.terms < each.inners))
      pen.outline(x + 0.5, y + 0.5, width - 1, height - 1, colours.accent, 1.2);
  }

  _bank(run, cycle, layout, chosen, asHex) {
    const { pen, colours } = this;
    const { left, cell, place: high, bank } = layout;
    run.bank(cycle).forEach((columns, line) => {
      const y = bank + line * high;
      if (columns[0] && line % Math.ceil(10 / high) === 0)
        pen.text(left - 8, y + high / 2, String(columns[0].beat.place), { align: "right", colour: colours.muted, size: 9 });
      columns.forEach((written, column) => {
        const x = left + column * cell + 1;
        const tall = high - (high > 4 ? 1.5 : 0.5);
        pen.box(x, y, cell - 2, tall, colours.idle);
        if (!written) return;
        const tile = run.tiles[written.beat.tile];
        pen.box(x, y, cell - 2, tall, colours.tile(tile.number), written.left ? 0.16 : tile.emit ? 1 : 0.72);
        if (high >= 12 && !written.left) {
          const bits = run.sum(written.beat, column);
          const text = asHex ? hex(bits) : short(toValue(bits), 4);
          pen.text(x + cell / 2 - 1, y + high / 2, text, { size: 9, colour: colours.on, align: "center" });
        }
        if (chosen && tile.row + written.beat.beat === chosen.row && tile.column + column === chosen.column)
          pen.outline(x, y, cell - 2, tall, colours.accent, 2);
      });
    });
  }

  _results(run, cycle, layout, asHex) {
    const tile = run.offered(cycle, "results");
    for (let column = 0; column < run.columns; column++)
      this._word(
        layout.left + column * layout.cell + 1, layout.results, layout.cell - 2, run.at(cycle, "results", column), tile,
        !run.stream(cycle, "results__ready"), asHex,
      );
  }
}

/** The streams over all cycles, and where the picture is. */
class Strips {
  constructor(canvas, colours) {
    this.pen = new Pen(canvas, colours);
    this.colours = colours;
  }

  draw(run, cycle, width, marks = []) {
    const { pen, colours } = this;
    const high = 11;
    const height = 3 * (high + 4) + 6;
    pen.resize(width, height);
    pen.begin();
    const scale = width / run.count;
    ["weights", "activations", "results"].forEach((name, line) => {
      const y = line * (high + 4);
      pen.box(0, y, width, high, colours.idle);
      for (const [start, stop, tile, waits] of this._stretches(run, name)) {
        const x = start * scale;
        const size = Math.max((stop - start) * scale - (scale > 5 ? 1 : 0), 0.6);
        if (waits) pen.box(x, y + 6, size, high - 6, colours.wait);
        else pen.box(x, y, size, high, colours.tile(tile));
      }
    });
    for (const mark of marks) pen.box(mark * scale, height - 6, Math.max(scale - 1, 1.5), 5, colours.accent);
    pen.box((cycle + 0.5) * scale - 1, 0, 2, height, colours.fg);
  }

  /** What a stream does, as stretches of cycles: [from, to, tile, whether a beat waits]. */
  _stretches(run, name) {
    run.stretches ??= {};
    if (run.stretches[name]) return run.stretches[name];
    const found = [];
    for (let cycle = 0; cycle < run.count; cycle++) {
      if (!run.stream(cycle, `${name}__valid`)) continue;
      const waits = !run.stream(cycle, `${name}__ready`);
      const tile = run.offered(cycle, name).number;
      const last = found[found.length - 1];
      if (last && last[1] === cycle && last[2] === tile && last[3] === waits && run.count > 400) last[1]++;
      else found.push([cycle, cycle + 1, tile, waits]);
    }
    run.stretches[name] = found;
    return found;
  }
}
