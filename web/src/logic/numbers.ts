const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const MINUS = "−";

function raised(n: number): string {
  const digits = [...String(Math.abs(n))].map((d) => RAISED[Number(d)]).join("");
  return n < 0 ? `⁻${digits}` : digits;
}

/** A number with `digits` decimals, a real minus sign, and words for what is not finite. */
export function fixed(x: number, digits = 3): string {
  if (Number.isNaN(x)) return "NaN";
  if (x === Number.POSITIVE_INFINITY) return "∞";
  if (x === Number.NEGATIVE_INFINITY) return `${MINUS}∞`;
  const text = Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** A small number as 4.8·10⁻⁷; exactly zero is "0". */
export function scientific(x: number): string {
  if (x === 0 || !Number.isFinite(x)) return x === 0 ? "0" : fixed(x);
  const power = Math.floor(Math.log10(Math.abs(x)));
  if (power >= -3 && power <= 3) return fixed(x, Math.max(0, 2 - power));
  const [head, tail] = Math.abs(x).toExponential(1).split("e");
  return `${x < 0 ? MINUS : ""}${head}·10${raised(Number(tail))}`;
}

/** A weight in the little room of a cell: .41, and 1 for one. */
export function short(x: number): string {
  if (!Number.isFinite(x)) return fixed(x, 0);
  const text = fixed(x, Math.abs(x) >= 9.95 ? 0 : Math.abs(x) >= 1 ? 1 : 2);
  return text === "1.0" ? "1" : text.replace(/^(−?)0\./, "$1.");
}

/** A count with thin groups of three: 9 412 608. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Bytes as people say them. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  return n < 1024 ** 2 ? `${(n / 1024).toFixed(1)} KB` : `${(n / 1024 ** 2).toFixed(1)} MB`;
}

/** A large count of parameters: 9.4 M. */
export function millions(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)} G`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  return n >= 1e3 ? `${(n / 1e3).toFixed(0)} k` : String(n);
}
