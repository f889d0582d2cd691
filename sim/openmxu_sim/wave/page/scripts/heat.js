// A recorded run of a large unit: which processing element multiplies which tile, as a heat map.

class HeatRun {
  constructor(data, bytes) {
    const { heat } = data;
    Object.assign(this, heat);
    this.elementRows = heat.rows / heat.terms;
    this.cells = this.elementRows * heat.columns;
    const words = new Int16Array(bytes.buffer, 0, heat.tiles.length * this.cells);
    // Along a row, what is stored is by how much a cell is later than the one before.
    for (let at = 0; at < words.length; at++) if (at % heat.columns) words[at] += words[at - 1];
    this.starts = heat.tiles.map((_, tile) => words.subarray(tile * this.cells, (tile + 1) * this.cells));
    this.flags = bytes.subarray(words.byteLength);
    this.count = this.flags.length;
    this.done = heat.beats.map((beats) => {
      const length = beats[beats.length - 1] + 2;
      const sums = new Int32Array(length);
      const busy = new Uint8Array(length);
      for (const beat of beats) busy[beat] = 1;
      for (let n = 1; n < length; n++) sums[n] = sums[n - 1] + busy[n - 1];
      return { sums, busy };
    });
    this.taken = {};
    for (const name of ["weights", "activations", "results"]) {
      const sums = new Uint32Array(this.count + 1);
      for (let cycle = 0; cycle < this.count; cycle++)
        sums[cycle + 1] = sums[cycle] + (this.stream(cycle, `${name}__valid`) && this.stream(cycle, `${name}__ready`) ? 1 : 0);
      this.taken[name] = sums;
    }
    const owner = (beats) => heat.tiles.flatMap((tile, number) => new Array(beats(tile)).fill(number));
    this.owners = {
      weights: owner((tile) => (tile.keep ? 0 : heat.rows)),
      activations: owner((tile) => tile.rows),
      results: owner((tile) => (tile.emit ? tile.rows : 0)),
    };
  }

  stream(cycle, name) {
    const bit = ["weights", "activations", "results"].findIndex((each) => name.startsWith(each)) * 2 + (name.endsWith("ready") ? 1 : 0);
    return (this.flags[cycle] >> bit) & 1;
  }

  offered(cycle, name) {
    const number = this.owners[name][this.taken[name][cycle]];
    return this.stream(cycle, `${name}__valid`) && number !== undefined ? { number } : null;
  }

  /** The tile that each cell multiplies; -1 where none. */
  tilesAt(cycle) {
    const found = new Int16Array(this.cells).fill(-1);
    this.starts.forEach((starts, tile) => {
      const { busy } = this.done[tile];
      for (let cell = 0; cell < this.cells; cell++) {
        const since = cycle - starts[cell];
        if (since >= 0 && since < busy.length && busy[since]) found[cell] = tile;
      }
    });
    return found;
  }

  /** How many activations each cell has multiplied before a cycle ends. */
  workAt(cycle) {
    const found = new Int32Array(this.cells);
    this.starts.forEach((starts, tile) => {
      const { sums } = this.done[tile];
      for (let cell = 0; cell < this.cells; cell++) {
        const since = cycle - starts[cell] + 1;
        if (since > 0) found[cell] += sums[Math.min(since, sums.length - 1)];
      }
    });
    return found;
  }

  /** The share of a cell's products that is no padding. */
  useful(tile, cell) {
    const inners = this.tiles[tile].inners / this.terms - Math.floor(cell / this.columns);
    return cell % this.columns < this.tiles[tile].columns ? Math.max(0, Math.min(1, inners)) : 0;
  }
}

class HeatPage {
  constructor(data) {
    this.data = data;
    this.colours = new Colours();
    this.colours.changed = () => this.run && this.show(this.transport.cycle);
    this.share = false;
    this.pointed = null;
  }

  async open() {
    const bytes = await inflate(this.data.heat.record);
    this.run = new HeatRun(this.data, bytes);
    this.strips = new Strips($("strips"), this.colours);
    this.transport = new Transport((cycle) => this.show(cycle));
    const { run } = this;
    $("scene").width = run.columns;
    $("scene").height = run.elementRows;
    $("scene").style.aspectRatio = `${run.columns} / ${run.rows}`;
    $("stage").style.maxWidth = `max(240px, calc((100vh - 290px) * ${run.columns / run.rows}))`;
    $("speed").value = run.count > 400 ? "60" : "30";
    for (const [id, share] of [["show-tiles", false], ["show-share", true]])
      $(id).addEventListener("click", () => {
        this.share = share;
        $("show-tiles").setAttribute("aria-pressed", String(!share));
        $("show-share").setAttribute("aria-pressed", String(share));
        this._legend();
        this.show(this.transport.cycle);
      });
    $("scene").addEventListener("pointermove", (event) => {
      const box = $("scene").getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * run.elementRows);
      const column = Math.floor(((event.clientX - box.left) / box.width) * run.columns);
      this.pointed = row >= 0 && column >= 0 && row < run.elementRows && column < run.columns ? { row, column } : null;
      this._point(this.transport.cycle);
    });
    new ResizeObserver(() => this.show(this.transport.cycle)).observe($("strips"));
    this._legend();
    this.transport.length(run.count);
    this.transport.set(Math.min(run.count - 1, this.data.begin));
    document.body.dataset.state = "ready";
  }

  _legend() {
    const { run } = this;
    const item = (style, words) => make("li", {}, make("i", { style }), words);
    if (this.share) {
      $("legend").replaceChildren(item("background:var(--idle)", "no activation yet"), item("background:var(--t0)", "one in every cycle so far"));
      return;
    }
    const tiles = run.tiles.slice(0, 4).map((_, number) => {
      const alike = run.tiles.map((__, each) => each).filter((each) => each % 4 === number);
      return item(`background:var(--t${number})`, `tile ${alike.slice(0, 3).join(", ")}${alike.length > 3 ? ", …" : ""}`);
    });
    $("legend").replaceChildren(...tiles, item("background:var(--t0);opacity:.45", "padding"), item("background:var(--idle)", "idle"));
  }

  show(cycle) {
    const { run, colours } = this;
    $("cycle").textContent = String(cycle);
    const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.length === 4 ? colour[(at + 1) / 2].repeat(2) : colour.slice(at, at + 2), 16));
    const idle = channels(colours.idle);
    const tiles = colours.tiles.map(channels);
    const context = $("scene").getContext("2d");
    const image = context.createImageData(run.columns, run.elementRows);
    const now = run.tilesAt(cycle);
    const work = this.share ? run.workAt(cycle) : null;
    let busy = 0;
    for (let cell = 0; cell < run.cells; cell++) {
      busy += now[cell] >= 0 ? 1 : 0;
      const [colour, strength] = work ? [tiles[0], work[cell] / (cycle + 1)]
        : now[cell] < 0 ? [idle, 1] : [tiles[now[cell] % 4], 0.45 + 0.55 * run.useful(now[cell], cell)];
      for (let channel = 0; channel < 3; channel++)
        image.data[4 * cell + channel] = Math.round(colour[channel] * strength + idle[channel] * (1 - strength));
      image.data[4 * cell + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    $("scene").setAttribute("aria-label", `${busy} of ${run.cells} processing elements are busy in cycle ${cycle}`);
    this.strips.draw(run, cycle, $("strips").clientWidth);
    this._figures(cycle, busy);
    this._point(cycle);
  }

  _figures(cycle, busy) {
    const { run } = this;
    const rows = [
      ["product", `${run.m} × ${run.k} · ${run.k} × ${run.n}`],
      ["array", `${run.rows} × ${run.columns}, stages ${run.stages}${run.terms > 1 ? `, terms ${run.terms}` : ""}`],
      ["cycles", `${run.cycles}, utilisation ${(run.utilisation * 100).toFixed(1)} %`],
      ["busy now", `${busy} of ${run.cells} (${((100 * busy) / run.cells).toFixed(0)} %)`],
      ["results", `${run.taken.results[cycle + 1]} of ${run.owners.results.length} beats`],
    ];
    $("figures").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    showStreams(run, cycle);
  }

  _point(cycle) {
    if (!this.pointed) return;
    const { row, column } = this.pointed;
    const { run } = this;
    const cell = row * run.columns + column;
    const tile = run.tilesAt(cycle)[cell];
    const work = run.workAt(cycle)[cell];
    $("hint").textContent = `${rowWords(row, run.terms)}, column ${column}: ${tile < 0 ? "idle" : `tile ${tile}${run.useful(tile, cell) ? "" : ", padding"}`}; ` +
      `${work * run.terms} activations in ${cycle + 1} cycles. First activations of its tiles in cycles ` +
      `${run.starts.slice(0, 8).map((starts) => starts[cell]).join(", ")}${run.starts.length > 8 ? ", …" : ""}.`;
  }
}
