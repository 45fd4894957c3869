import type { Matrix } from "../data/matrix";

/** Softmax of one row, in float64. A row of nothing but −∞ gets zeros, as the model gives it. */
export function softmax(scores: ArrayLike<number>): Float64Array {
  let top = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < scores.length; i++) top = Math.max(top, scores[i]!);
  const out = new Float64Array(scores.length);
  if (top === Number.NEGATIVE_INFINITY) return out;
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += out[i] = Math.exp(scores[i]! - top);
  for (let i = 0; i < out.length; i++) out[i] = out[i]! / sum;
  return out;
}

/** What the page found when it worked the model's softmax out again. */
export interface Check {
  difference: number; // largest |weight shown − weight computed here|
  badRows: number[]; // rows that hold NaN, or whose weights sum neither to 1 nor, all hidden, to 0
  holds: boolean;
}

/** float32 softmax of a few hundred numbers stays well within this; a wrong one does not. */
export const TOLERANCE = 1e-5;

/** Compares the model's weights with softmax of the model's masked scores, row by row. */
export function check(masked: Matrix, weights: Matrix): Check {
  let difference = 0;
  const badRows: number[] = [];
  for (let r = 0; r < weights.rows; r++) {
    const again = softmax(masked.row(r));
    let sum = 0;
    for (let c = 0; c < weights.cols; c++) {
      const gap = Math.abs(weights.at(r, c) - again[c]!);
      difference = Number.isNaN(gap) ? Number.NaN : Math.max(difference, gap);
      sum += weights.at(r, c);
    }
    const isBlind = masked.row(r).every((x) => x === Number.NEGATIVE_INFINITY);
    if (!(Math.abs(sum - (isBlind ? 0 : 1)) <= 1e-3) || isBlind) badRows.push(r);
  }
  return { difference, badRows, holds: difference <= TOLERANCE && badRows.length === 0 };
}
