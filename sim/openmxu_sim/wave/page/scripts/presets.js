// Numbers to begin with.

/** Numbers in [0, 1), the same for the same seed. */
function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}

const DIGIT = ["..####..", ".#....#.", "......#.", "...###..", "......#.", "......#.", ".#....#.", "..####.."];

/** The numbers of both matrices, and their sizes where a preset has its own. */
function preset(name, { m, k, n }, seed) {
  const next = uniform(seed);
  const normal = () => Number((Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())).toPrecision(3));
  const pick = (choices) => choices[Math.floor(next() * choices.length)];
  const fill = (rows, columns, make) => ({
    rows, columns,
    bits: Uint32Array.from({ length: rows * columns }, (_, at) => toBits(make(Math.floor(at / columns), at % columns))),
  });
  switch (name) {
    case "identity":
      return [fill(m, k, normal), fill(k, n, (row, column) => (row === column ? 1 : 0))];
    case "overflow":
      return [fill(m, k, () => pick([1, 2, -2, 3]) * 1e38), fill(k, n, () => pick([0.25, 0.5, 1, 1, -1, 2]))];
    case "nan": {
      // A NaN; infinities of both signs in a row; and an infinity that meets a zero.
      const special = new Map([["0,0", NaN], ["2,0", Infinity], ["2,1", -Infinity], ["4,0", Infinity]]);
      return [
        fill(m, k, (row, column) => special.get(`${row},${column}`) ?? normal()),
        fill(k, n, (row, column) => (row === 0 && column === 1 ? 0 : normal())),
      ];
    }
    case "cancellation":
      return [fill(m, k, (row, column) => [1e8, 1, -1e8, 0.5][(row + column) % 4]), fill(k, n, (row, column) => 1 + ((row ^ column) & 1))];
    case "digit":
      return [
        fill(8, 8, (row, column) => (DIGIT[row][column] === "#" ? 1 : 0)),
        fill(8, 8, (row, column) => (row + column === 7 ? 1 : 0)), // turns rows round
      ];
    default:
      return [fill(m, k, normal), fill(k, n, normal)];
  }
}
