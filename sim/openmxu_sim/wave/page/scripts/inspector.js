// What is behind a result, and inside a processing element.

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

/** A pattern's bits, coloured by field. */
function bitRow(bits, size) {
  const row = make("span", { class: "bits", "aria-hidden": "true" });
  const [, exponent] = FIELDS[size];
  for (let bit = 0; bit < size; bit++) {
    const field = bit === 0 ? "s" : bit <= exponent ? "e" : "f";
    row.append(make("i", { class: field + ((bits >>> (size - 1 - bit)) & 1 ? " one" : "") }));
  }
  return row;
}

const bf16 = (value) => toBits(value) >>> 16;

/** A result: its bits beside the golden ones, and each sum in order. */
function resultPanel(run, golden, { row, column }, cycle, goTo) {
  const result = run.results[row * run.n + column];
  const panel = make("div");
  const there = result && result.cycle <= cycle;
  panel.append(make("h3", {}, `C[${row}][${column}] = ${there ? long(toValue(result.bits)) : "not there yet"}`));
  const wanted = golden[row * run.n + column];
  if (there) {
    panel.append(make("p", {}, bitRow(result.bits, 32), make("span", { class: "mono" }, ` ${hex(result.bits)}`)));
    panel.append(make("p", { class: result.bits === wanted ? "good" : "bad" },
      result.bits === wanted ? "bit-identical to the golden model" : `the golden model gives ${hex(wanted)}`));
  }
  panel.append(make("p", { class: "muted" },
    "Each product, and each sum, is rounded to fp32 once. Sums are what the registers held; products are explained by the model in JavaScript."));
  const trail = Model.trail({ ...run, inner: run.k, columns: run.n, passes: run.passesOf }, row, column);
  const lists = make("div", { class: "lists" });
  const innerTiles = Math.ceil(run.k / run.rows);
  trail.tiles.forEach((part, index) => {
    const tile = run.tiles.find((each) => each.pass === part.pass && each.inner === part.start &&
      row >= each.row && row < each.row + each.rows && column >= each.column && column < each.column + each.columns);
    lists.append(tileTable(run, tile, part, { row, column }, cycle, goTo, innerTiles * run.passesOf.length > 1, index));
  });
  panel.append(lists);
  return panel;
}

function roundingText(units) {
  if (Number.isNaN(units)) return "";
  if (units === 0) return "exact";
  return `${units > 0 ? "−" : "+"}${Math.abs(units) < 0.005 ? "<0.01" : Math.abs(units).toFixed(2)} ulp`;
}

function tileTable(run, tile, part, { row, column }, cycle, goTo, several, index) {
  const box = make("div");
  const beat = run.beats.find((each) => each.tile === tile.number && tile.row + each.beat === row);
  const at = column - tile.column;
  if (several) {
    const parts = run.passesOf.length > 1 ? `, ${run.passesOf[part.pass].map((each) => run.data.parts[each]).join(" × ")}` : "";
    const swatch = make("i", { style: `background:var(--t${tile.number % 4});width:10px;height:10px;border-radius:2px` });
    box.append(make("h3", {}, swatch, `tile ${tile.number}${parts}`));
  }
  const table = make("table");
  table.append(make("tr", {}, ...["k", "a", "w", "a · w", "sum", "rounding", "cycle"].map((name) => make("th", { scope: "col" }, name))));
  for (const step of part.steps) {
    const inside = step.k - tile.inner;
    const when = beat ? run.cycleOf(beat, inside, at) : 0;
    const seen = beat && when + run.stages < run.count ? run.cell(when + run.stages, inside, at, "o_psum") : null;
    const off = seen !== null && seen !== toBits(step.after);
    const line = make("tr", { class: when === cycle ? "now" : "" },
      make("td", {}, String(step.k)), make("td", { title: hex(bf16(step.x), 16) }, short(step.x, 3)),
      make("td", { title: hex(bf16(step.y), 16) }, short(step.y, 3)), make("td", { title: hex(toBits(step.product)) }, short(step.product, 3)),
      make("td", { title: seen === null ? "" : hex(seen), class: off ? "bad" : "" }, seen === null ? "" : short(toValue(seen), 4)),
      make("td", {}, roundingText(Model.roundingOfSum(step.before, step.product))),
      make("td", {}, make("button", { type: "button", "aria-label": `go to cycle ${when}`, onclick: () => goTo(when) }, String(when))));
    table.append(line);
  }
  const written = beat ? run.written(beat, at) : run.count;
  if (written < run.count && several) {
    const held = toValue(run.sum(beat, at));
    const words = part.first ? `bank, place ${beat.place}: takes ${short(held, 5)}`
      : `bank, place ${beat.place}: ${part.cleared ? "NaN counts as 0, " : ""}${short(part.before, 5)} + ${short(part.psum, 5)} = ${short(held, 5)}`;
    table.append(make("tr", {}, make("td", { class: "rule", colspan: 6 }, words), make("td", {},
      make("button", { type: "button", "aria-label": `go to cycle ${written}`, onclick: () => goTo(written) }, String(written)))));
  }
  box.append(table);
  return box;
}

/** A processing element: its registers, multiplier and adder, with what they hold in a cycle. */
function cellPanel(run, { row, column }, cycle) {
  const panel = make("div");
  panel.append(make("h3", {}, `Processing element, row ${row}, column ${column}`));
  const register = (name, at = cycle, line = row) => (at < 0 || at >= run.count ? 0 : run.cell(at, line, column, name));
  const value16 = (bits) => toValue((bits << 16) >>> 0);
  const activation = register("o_activation");
  const active = register("active");
  const shadow = register("o_weight");
  const from = cycle - (run.stages - run.step);
  const product = Model.product(value16(register("o_activation", from)), value16(register("active", from)));
  const above = row ? register("o_psum", cycle, row - 1) : 0;
  const psum = register("o_psum");
  const next = cycle + run.step;
  const after = Model.sum(toValue(above), product);
  const held = next < run.count ? register("o_psum", next) : null;
  panel.append(elementPicture({ activation, active, shadow, product, above, psum, after }, run, { row }));
  const beat = run.beatAt(cycle, row, column);
  if (beat) {
    const tile = run.tiles[beat.tile];
    const padding = row >= tile.inners || column >= tile.columns;
    panel.append(make("p", {}, `Multiplies an activation of tile ${tile.number}` +
      (padding ? ", as padding." : `: A[${tile.row + beat.beat}][${tile.inner + row}] · B[${tile.inner + row}][${tile.column + column}].`)));
  } else panel.append(make("p", { class: "muted" }, "Idle: its sum is not used."));
  if (held !== null)
    panel.append(make("p", { class: held === toBits(after) ? "good" : "bad" },
      held === toBits(after) ? `In cycle ${next} its sum register holds this sum.` : `In cycle ${next} its sum register holds ${hex(held)}.`));
  const table = make("table", {}, make("tr", {}, ...["register", "bits", "hex"].map((name) => make("th", { scope: "col" }, name))));
  for (const [name, [, width]] of Object.entries(run.layout.names.unit))
    table.append(make("tr", {}, make("td", { class: "rule" }, name.replace("multiply_add.", "").replace(/\$\d+$/, "")),
      make("td", {}, String(width)), make("td", {}, run.cellText(cycle, row, column, name))));
  panel.append(make("div", { class: "lists" }, table));
  return panel;
}

function elementPicture(held, run, { row }) {
  const value16 = (bits) => `${hex(bits, 16)} = ${short(toValue((bits << 16) >>> 0))}`;
  const value32 = (bits) => `${hex(bits)} = ${short(toValue(bits), 5)}`;
  const block = (x, y, name, value, width = 132) =>
    `<rect x="${x}" y="${y}" width="${width}" height="32" rx="3"/><text class="name" x="${x + 6}" y="${y + 12}">${name}</text>` +
    `<text x="${x + 6}" y="${y + 26}">${value}</text>`;
  const delay = run.stages - run.step;
  const svg = `<svg class="element" viewBox="0 0 308 262" role="img" aria-label="Processing element: activation ${value16(held.activation)},
 active weight ${value16(held.active)}, product ${short(held.product)}, sum from above ${value32(held.above)}, sum ${value32(held.psum)}">
<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6" /></marker></defs>
${["M70 34V48", "M70 80V112", "M70 160V146", "M84 130H226V188", "M240 34V188", "M232 212V222"]
    .map((wire) => `<path d="${wire}" marker-end="url(#tip)"/>`).join("")}
${block(4, 2, "shadow weight", value16(held.shadow))}${block(4, 48, "active weight", value16(held.active))}
<circle cx="70" cy="129" r="15"/><text x="70" y="133" text-anchor="middle">×</text>
${block(4, 160, "activation", value16(held.activation))}
${block(158, 2, row ? "sum from above" : "above row 0", value32(held.above), 148)}
<text class="name" x="92" y="124">product${delay ? `, ${delay} cycle${delay > 1 ? "s" : ""} ago` : ""}</text><text x="92" y="143">${hex(toBits(held.product))}</text><text class="name" x="92" y="156">${short(held.product, 5)}</text>
<circle cx="232" cy="200" r="12"/><text x="232" y="204" text-anchor="middle">+</text>
<text class="name" x="250" y="190">${short(held.after, 5)}</text><text class="name" x="250" y="203">in ${run.step} cycle${run.step > 1 ? "s" : ""}</text>
${block(158, 224, "sum register", value32(held.psum), 148)}
</svg>`;
  const box = make("div");
  box.innerHTML = svg;
  return box;
}
