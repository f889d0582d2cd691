// The numerics contract once more: an independent model in JavaScript, for comparison with what the machine code gives.
// It has binary64 and Math.fround, and shares nothing with the netlist. Results shown in the page are never its own.

const Model = (() => {
  const LEAST = 2 ** -126;

  const signed = (magnitude, sign) => (sign < 0 || Object.is(sign, -0) ? -Math.abs(magnitude) : Math.abs(magnitude));
  const flush = (value) => (Math.abs(value) < LEAST ? signed(0, value) : value);
  const high16 = (value) => toValue((toBits(value) & 0xffff0000) >>> 0);

  /** An fp32 number rounded to bf16, to nearest, ties to even. */
  function rounded(value) {
    if (Number.isNaN(value)) return value;
    const bits = toBits(flush(value));
    return toValue(((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000) >>> 0);
  }

  /** A part of an fp32 pattern, as a number of bf16: 0 whole, 1 high, 2 rest, 3 middle, 4 low. */
  function part(bits, which) {
    const exact = toValue(bits);
    if (Number.isNaN(exact)) return NaN;
    const value = flush(exact);
    if (which === 0) return rounded(value);
    const high = high16(value);
    if (which === 1) return high;
    const rest = value - high; // of infinities: NaN
    const middle = high16(rest);
    const wanted = which === 2 ? rest : which === 3 ? middle : rest - middle;
    return Number.isNaN(wanted) ? NaN : rounded(signed(wanted, value));
  }

  /** A product, and a sum, each rounded to fp32 once. Products of bf16 are exact in binary64; so is what rounds sums. */
  const product = (a, b) => Math.fround(flush(a * b));
  const sum = (a, b) => Math.fround(flush(a + b));

  const exponent = (value) => (value === 0 ? -Infinity : ((toBits(value) >>> 23) & 255) - 127);

  /** A sum of an element: `after`, and what rounding changed, in units of its last place. Of one term two roundings;
   *  of several all terms are cut three bits below the last place of the largest, added exactly, and rounded once. */
  function add(psum, pairs, terms) {
    if (terms === 1) {
      const times = product(pairs[0].x, pairs[0].y);
      return { after: sum(psum, times), lost: roundingOfSum(psum, times) };
    }
    const all = [psum, ...pairs.map(({ x, y }) => x * y)];
    const largest = Math.max(exponent(psum), ...pairs.map(({ x, y }) => exponent(x) + exponent(y)));
    const unit = largest === -Infinity ? 1 : 2 ** (largest - 26);
    const cut = all.map((each) => Math.trunc(each / unit) * unit);
    const total = cut.reduce((one, other) => one + other);
    const scale = Math.abs(total) < 1 ? 2 ** 64 : 1; // above the subnormal numbers
    const after = flush(Math.fround(total * scale) / scale);
    return { after, lost: Number.isFinite(after) ? all.reduce((lost, each, n) => lost + (each - cut[n]), total - after) / ulp(after) : NaN };
  }

  /** All that goes into one result, in order: for each pass and tile, the products and the sums. */
  function trail(given, m, n) {
    const { a, b, k, inner, rows, passes, terms = 1 } = given;
    const tiles = [];
    let total = 0;
    passes.forEach(([left, right], pass) => {
      for (let start = 0; start < k; start += rows) {
        const first = pass === 0 && start === 0;
        const cleared = pass > 0 && pass === passes.length - 1 && start === 0 && Number.isNaN(total);
        if (cleared) total = 0;
        const steps = [];
        let psum = 0;
        for (let row = start; row < Math.min(k, start + rows); row += terms) {
          const pairs = [];
          for (let each = row; each < Math.min(k, start + rows, row + terms); each++)
            pairs.push({ k: each, x: part(a[m * inner + each], left), y: part(b[each * given.columns + n], right) });
          const added = add(psum, pairs, terms);
          steps.push(...pairs.map((each) => ({ ...each, ...added, product: terms === 1 ? product(each.x, each.y) : each.x * each.y })));
          psum = added.after;
        }
        const before = total;
        total = first ? psum : sum(total, psum);
        tiles.push({ pass, start, steps, psum, before, first, cleared, total });
      }
    });
    return { tiles, bits: toBits(total) };
  }

  /** The patterns of a whole product, row by row. */
  function multiply(given) {
    const result = new Uint32Array(given.m * given.n);
    for (let m = 0; m < given.m; m++)
      for (let n = 0; n < given.n; n++) result[m * given.n + n] = trail(given, m, n).bits;
    return result;
  }

  /** What rounding a sum of two numbers of fp32 changed, in units of the last place of the rounded sum. */
  function roundingOfSum(a, b) {
    const whole = a + b;
    const kept = sum(a, b);
    if (!Number.isFinite(whole) || !Number.isFinite(kept)) return NaN;
    const back = whole - a;
    const lost = a - (whole - back) + (b - back); // what binary64 itself lost
    return (whole - kept + lost) / ulp(kept);
  }

  /** The weight of the last place of an fp32 number. */
  function ulp(value) {
    const exponent = Math.max((toBits(value) >>> 23) & 255, 1);
    return 2 ** (exponent - 150);
  }

  return { add, product, trail, multiply };
})();
