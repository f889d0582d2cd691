// Bit patterns as text. No arithmetic of the unit is here.

const _float = new Float32Array(1);
const _word = new Uint32Array(_float.buffer);

/** The number that an fp32 pattern stands for. */
function toValue(bits) {
  _word[0] = bits;
  return _float[0];
}

/** The fp32 pattern of a number; the canonical NaN for NaN. */
function toBits(value) {
  if (Number.isNaN(value)) return 0x7fc00000;
  _float[0] = value;
  return _word[0];
}

/** A number in few characters. */
function short(value, digits = 4) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (value === 0) return Object.is(value, -0) ? "−0" : "0";
  const size = Math.abs(value);
  let text;
  const few = digits < 4; // then as many decimals, too
  if (size >= Math.fround(few ? 10 ** -digits : 1e-3) && size < 10 ** (digits + 1)) {
    text = few && size < 0.1 ? size.toFixed(digits) : size.toPrecision(digits);
    text = text.includes("e") ? String(Math.round(size)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  } else text = size.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return (value < 0 ? "−" : "") + text;
}

/** A number with all that fp32 has of it. */
function long(value) {
  if (!Number.isFinite(value) || value === 0) return short(value);
  return String(Math.fround(value) === value ? Number(value.toPrecision(9)) : value).replace("-", "−").replace("e+", "e");
}

function hex(bits, width = 32) {
  return (bits >>> 0).toString(16).toUpperCase().padStart(width / 4, "0");
}

/** The rows of operands that a row of elements takes, in words. */
function rowWords(row, terms) {
  return terms === 1 ? `Row ${row}` : `Rows ${row * terms}–${(row + 1) * terms - 1}`;
}

/** Widths of sign, exponent and significand of the formats that are shown. */
const FIELDS = { 16: [1, 8, 7], 32: [1, 8, 23] };

/** What becomes of a number that fp32 has no normal number for, in words; empty where it has one. */
function changed(text, bits) {
  const wanted = Number(text.replace(/[−–]/g, "-"));
  const kept = toValue(bits);
  if (/x/i.test(text) || !Number.isFinite(wanted) || wanted === 0) return "";
  if (Math.abs(kept) >= 2 ** -126 && Number.isFinite(kept)) return "";
  return `${text} is no normal number of fp32: the unit takes it as ${short(Number.isFinite(kept) ? 0 * kept : kept)}`;
}

/** The pattern that a person typed: a number, inf, nan, 0x and four digits of bf16 or eight of fp32; or null. */
function parse(text) {
  const clean = text.trim().toLowerCase().replace(/[−–]/g, "-").replace("∞", "inf");
  const pattern = /^0x([0-9a-f]{4}|[0-9a-f]{8})$/.exec(clean);
  if (pattern) return pattern[1].length === 8 ? parseInt(pattern[1], 16) >>> 0 : (parseInt(pattern[1], 16) << 16) >>> 0;
  const special = /^([+-]?)(inf|infinity|nan)$/.exec(clean);
  if (special) return ((special[1] === "-" ? 0x80000000 : 0) | (special[2] === "nan" ? 0x7fc00000 : 0x7f800000)) >>> 0;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(clean)) return null;
  return toBits(Number(clean));
}

/** What a field shows of a pattern, so that reading it again gives the pattern. */
function typed(bits, asHex) {
  const value = toValue(bits);
  if (!asHex && Number.isFinite(value)) {
    const text = short(value, 3).replace("−", "-");
    const exact = Object.is(value, -0) ? "-0" : String(Number(value.toPrecision(9)));
    return parse(text) === bits ? text : exact;
  }
  if (!asHex && bits === 0x7fc00000) return "nan";
  if (!asHex && (bits & 0x7fffffff) === 0x7f800000) return bits === 0x7f800000 ? "inf" : "-inf";
  return "0x" + hex(bits);
}
