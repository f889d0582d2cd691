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
    (run.terms === 1 ? "Each product, and each sum, is rounded" : `${run.terms} products and the sum before are added within a window, and rounded`) +
    " to fp32 once. Sums are what the registers held; products are explained by the model in JavaScript."));
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
  for (const [n, step] of part.steps.entries()) {
    const inside = Math.floor(n / run.terms);
    const when = beat ? run.cycleOf(beat, inside, at) : 0;
    const seen = beat && when + run.stages < run.count ? run.cell(when + run.stages, inside, at, "o_psum") : null;
    const off = seen !== null && seen !== toBits(step.after);
    const shared = { rowspan: Math.min(run.terms, part.steps.length - n) }; // a sum of several products
    const line = make("tr", { class: when === cycle ? "now" : "" },
      make("td", {}, String(step.k)), make("td", { title: hex(bf16(step.x), 16) }, short(step.x, 3)),
      make("td", { title: hex(bf16(step.y), 16) }, short(step.y, 3)), make("td", { title: run.terms === 1 ? hex(toBits(step.product)) : String(step.product) }, short(step.product, 3)));
    if (n % run.terms === 0) line.append(
      make("td", { ...shared, title: seen === null ? "" : hex(seen), class: off ? "bad" : "" }, seen === null ? "" : short(toValue(seen), 4)),
      make("td", shared, roundingText(step.lost)),
      make("td", shared, make("button", { type: "button", "aria-label": `go to cycle ${when}`, onclick: () => goTo(when) }, String(when))));
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
  panel.append(make("h3", {}, `Processing element, ${rowWords(row, run.terms).toLowerCase()}, column ${column}`));
  const register = (name, at = cycle, line = row) => (at < 0 || at >= run.count ? 0 : run.cell(at, line, column, name));
  const value16 = (bits) => toValue((bits << 16) >>> 0);
  const terms = Array.from({ length: run.terms }, (_, term) => term);
  const held16 = (name, at = cycle) => terms.map((term) => (at < 0 || at >= run.count ? 0 : run.operand(at, row, column, name, term)));
  const from = cycle - (run.stages - run.step);
  const pairs = terms.map((term) => ({ x: value16(held16("o_activation", from)[term]), y: value16(held16("active", from)[term]) }));
  const products = pairs.map(({ x, y }) => (run.terms === 1 ? Model.product(x, y) : x * y));
  const above = row ? register("o_psum", cycle, row - 1) : 0;
  const psum = register("o_psum");
  const next = cycle + run.step;
  const { after } = Model.add(toValue(above), pairs, run.terms);
  const held = next < run.count ? register("o_psum", next) : null;
  panel.append((run.terms === 1 ? elementPicture : termsPicture)({ activation: held16("o_activation"), active: held16("active"),
    shadow: held16("o_weight"), products, above, psum, after }, run, { row }));
  const beat = run.beatAt(cycle, row, column);
  if (beat) {
    const tile = run.tiles[beat.tile];
    const count = column < tile.columns ? Math.min(run.terms, tile.inners - row * run.terms) : 0;
    const first = tile.inner + row * run.terms;
    const inner = count > 1 ? `${first}…${first + count - 1}` : first;
    panel.append(make("p", {}, `Multiplies ${run.terms === 1 ? "an activation" : `${run.terms} activations`} of tile ${tile.number}` +
      (count <= 0 ? ", as padding." : `: A[${tile.row + beat.beat}][${inner}] · B[${inner}][${tile.column + column}].`)));
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

/** An element of several terms: its pairs of operands, and the one sum that they and the sum from above go into. */
function termsPicture(held, run, { row }) {
  const value16 = (bits) => short(toValue((bits << 16) >>> 0), 3);
  const value32 = (bits) => `${hex(bits)} = ${short(toValue(bits), 5)}`;
  const [end, delay] = [20 + 24 * run.terms, run.stages - run.step];
  const lines = (x, name, show) => `<text class="name" x="${x}" y="12">${name}</text>` + held.products.map((_, n) => show(20 + 24 * n, n)).join("");
  const cells = (x, name, values) => lines(x, name, (y, n) =>
    `<rect x="${x}" y="${y}" width="60" height="19" rx="3"/><text x="${x + 5}" y="${y + 13}">${value16(values[n])}</text>`);
  const box = (x, y, name, value) => `<rect x="${x}" y="${y}" width="150" height="32" rx="3"/><text class="name" x="${x + 6}" y="${y + 12}">${name}</text>` +
    `<text x="${x + 6}" y="${y + 26}">${value}</text>`;
  const picture = make("div");
  picture.innerHTML = `<svg class="element" viewBox="0 0 308 ${end + 104}" role="img" aria-label="Processing element of ${run.terms} terms: activations
 ${held.activation.map(value16).join(" ")}, active weights ${held.active.map(value16).join(" ")}, sum from above ${value32(held.above)}, sum ${value32(held.psum)}">
${cells(2, "shadow", held.shadow)}${cells(68, "active weight", held.active)}${cells(142, "activation", held.activation)}
${lines(204, `product${delay ? ` ${delay} cycle${delay > 1 ? "s" : ""} ago` : ""}`, (y, n) =>
    `<text x="135" y="${y + 13}" text-anchor="middle">×</text><path d="M202 ${y + 10}H286"/><text x="212" y="${y + 7}">${short(held.products[n], 4)}</text>`)}
<path d="M286 30V${end + 12}M152 ${end + 24}H274M286 ${end + 36}V${end + 66}"/>${box(2, end + 8, row ? "sum from above" : "above row 0", value32(held.above))}
<circle cx="286" cy="${end + 24}" r="12"/><text x="286" y="${end + 28}" text-anchor="middle">+</text>
<text class="name" x="276" y="${end + 48}" text-anchor="end">rounded once, in ${run.step} cycle${run.step > 1 ? "s" : ""}: ${short(held.after, 5)}</text>
${box(156, end + 68, "sum register", value32(held.psum))}</svg>`;
  return picture;
}

function elementPicture(held, run, { row }) {
  const value16 = (bits) => `${hex(bits, 16)} = ${short(toValue((bits << 16) >>> 0))}`;
  const value32 = (bits) => `${hex(bits)} = ${short(toValue(bits), 5)}`;
  const [[activation], [active], [shadow], [product]] = [held.activation, held.active, held.shadow, held.products];
  const block = (x, y, name, value, width = 132) =>
    `<rect x="${x}" y="${y}" width="${width}" height="32" rx="3"/><text class="name" x="${x + 6}" y="${y + 12}">${name}</text>` +
    `<text x="${x + 6}" y="${y + 26}">${value}</text>`;
  const delay = run.stages - run.step;
  const svg = `<svg class="element" viewBox="0 0 308 262" role="img" aria-label="Processing element: activation ${value16(activation)},
 active weight ${value16(active)}, product ${short(product)}, sum from above ${value32(held.above)}, sum ${value32(held.psum)}">
<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6" /></marker></defs>
${["M70 34V48", "M70 80V112", "M70 160V146", "M84 130H226V188", "M240 34V188", "M232 212V222"]
    .map((wire) => `<path d="${wire}" marker-end="url(#tip)"/>`).join("")}
${block(4, 2, "shadow weight", value16(shadow))}${block(4, 48, "active weight", value16(active))}
<circle cx="70" cy="129" r="15"/><text x="70" y="133" text-anchor="middle">×</text>
${block(4, 160, "activation", value16(activation))}
${block(158, 2, row ? "sum from above" : "above row 0", value32(held.above), 148)}
<text class="name" x="92" y="124">product${delay ? `, ${delay} cycle${delay > 1 ? "s" : ""} ago` : ""}</text><text x="92" y="143">${hex(toBits(product))}</text><text class="name" x="92" y="156">${short(product, 5)}</text>
<circle cx="232" cy="200" r="12"/><text x="232" y="204" text-anchor="middle">+</text>
<text class="name" x="250" y="190">${short(held.after, 5)}</text><text class="name" x="250" y="203">in ${run.step} cycle${run.step > 1 ? "s" : ""}</text>
${block(158, 224, "sum register", value32(held.psum), 148)}
</svg>`;
  const box = make("div");
  box.innerHTML = svg;
  return box;
}
