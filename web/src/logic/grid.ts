import type { Head, LaneNumbers } from "../data/head";
import { Matrix, mean } from "../data/matrix";
import type { MaskParts, Token, Trace } from "../data/types";
import { type Ramp, scoreRamp, weightRamp } from "./colours";
import { byWord, type Group, label, standing, words } from "./labels";
import type { LaneName, View } from "./view";

/** Why a cell holds a number or none. "absent" does not exist (yet); the hidden ones are forbidden. */
export type CellState = "seen" | "causal" | "padding" | "absent";

export interface RowLabel {
  reads: string;
  predicts: string | null;
}

/** One lane as it is drawn on the screen, in a picture, and in a table. */
export interface Grid {
  lane: LaneName;
  rows: RowLabel[];
  cols: string[];
  values: Matrix; // what is printed: 1/0, scores with −∞, or weights
  raw: Matrix | null; // scores before the mask, for the step from one to the other
  states: CellState[][];
  sums: (number | null)[] | null; // at the right edge, where rows are distributions
  ramp: Ramp | null; // none for the mask: it has no amounts
  isNew: number | null; // the row of the latest step
  reused: number; // columns whose keys came out of the cache
}

function combined(
  heads: readonly Head[],
  lane: LaneName,
  pick: (lane: LaneNumbers) => Matrix,
): Matrix | null {
  const found = heads.map((head) => head[lane]).filter((numbers) => numbers !== null);
  if (!found.length) return null;
  return found.length === 1 ? pick(found[0]!) : mean(found.map(pick));
}

function maskStates(mask: MaskParts | undefined, rows: number, cols: number): CellState[][] {
  return Array.from({ length: rows }, (_, r) =>
    Array.from({ length: cols }, (_, c) => {
      if (mask?.padding[r]?.[c] === false) return "padding";
      return mask?.allowed[r]?.[c] === false ? "causal" : "seen";
    }),
  );
}

function displayed(
  numbers: { masked: Matrix; weights: Matrix },
  states: CellState[][],
  view: View,
): Matrix {
  if (view.stage === 1) {
    return Matrix.from(numbers.weights.rows, numbers.weights.cols, (r, c) =>
      states[r]?.[c] === "seen" ? 1 : 0,
    );
  }
  return view.stage === 2 ? numbers.masked : numbers.weights;
}

const weightColours = weightRamp();
const scoreColours = new WeakMap<Matrix, Ramp>(); // the same matrix keeps its ramp: rows stay equal

function ramp(view: View, scores: Matrix): Ramp | null {
  if (view.stage === 1) return null;
  if (view.stage > 2) return weightColours;
  const found = scoreColours.get(scores) ?? scoreRamp(...scores.extent());
  scoreColours.set(scores, found);
  return found;
}

function rowSums(weights: Matrix, states: CellState[][]): (number | null)[] {
  return states.map((row, r) => {
    if (row.every((state) => state === "absent")) return null;
    return row.reduce((sum, state, c) => (state === "absent" ? sum : sum + weights.at(r, c)), 0);
  });
}

function rowLabels(trace: Trace, head: Head): RowLabel[] {
  const predicts = head.kind !== "encoder_self" && trace.model.family !== "encoder-only";
  return head.rows.map((token, r) => {
    const wanted = trace.wanted[r];
    return { reads: label(token), predicts: predicts && wanted ? label(wanted) : null };
  });
}

/** True if a row looks the same in both grids: a step changes one row of many. */
export function isSameRow(a: Grid, b: Grid, row: number): boolean {
  if (a === b) return true;
  const isAlike =
    a.ramp === b.ramp &&
    a.raw === b.raw &&
    a.sums?.[row] === b.sums?.[row] &&
    (a.isNew === row) === (b.isNew === row) &&
    a.rows[row]?.reads === b.rows[row]?.reads &&
    a.rows[row]?.predicts === b.rows[row]?.predicts &&
    a.cols.length === b.cols.length;
  return (
    isAlike &&
    a.cols.every(
      (_, c) =>
        a.states[row]?.[c] === b.states[row]?.[c] &&
        Object.is(a.values.at(row, c), b.values.at(row, c)),
    )
  );
}

/** The left lane: every row at once, or nothing before the pass has run. */
export function trainingGrid(trace: Trace, heads: readonly Head[], view: View): Grid {
  const head = heads.at(-1)!;
  const pick = (get: (lane: LaneNumbers) => Matrix) => combined(heads, "training", get)!;
  const weights = pick((lane) => lane.weights);
  const masked = pick((lane) => lane.masked);
  const scores = pick((lane) => lane.scores);
  let states = maskStates(trace.masks[head.kind], weights.rows, weights.cols);
  if (!view.hasRun && view.stage !== 1) states = states.map((row) => row.map(() => "absent"));
  return {
    lane: "training",
    rows: rowLabels(trace, head),
    cols: head.columns.map(label),
    values: displayed({ masked, weights }, states, view),
    raw: view.stage === 2 ? scores : null,
    states,
    sums: view.stage >= 3 ? rowSums(weights, states) : null,
    ramp: ramp(view, scores),
    isNew: null,
    reused: 0,
  };
}

/** The right lane: the rows of the steps taken so far, each with the columns that existed then. */
export function inferenceGrid(trace: Trace, heads: readonly Head[], view: View): Grid | null {
  const head = heads.at(-1)!;
  const run = trace.inference;
  const pick = (get: (lane: LaneNumbers) => Matrix) => combined(heads, "inference", get);
  const weights = pick((lane) => lane.weights);
  if (!run || !weights || !head.inference) return null;
  const masked = pick((lane) => lane.masked)!;
  const rows = Math.max(head.training.weights.rows, weights.rows);
  const step = Math.min(view.step, weights.rows);
  const grown = (m: Matrix) =>
    Matrix.from(rows, m.cols, (r, c) => (r < step ? m.at(r, c) : Number.NaN));
  const mask = trace.masks[head.kind];
  const states = Array.from({ length: rows }, (_, r) =>
    Array.from({ length: weights.cols }, (_, c): CellState => {
      if (r >= step || c >= (head.inference?.lengths[r] ?? 0)) return "absent";
      if (mask?.padding[r]?.[c] === false) return "padding";
      // Inside the lane's own keys only a window can hide; where it read other words, scores tell.
      return masked.at(r, c) === Number.NEGATIVE_INFINITY ? "causal" : "seen";
    }),
  );
  const reads = (r: number): Token | undefined => run.columns[r] ?? head.rows[r];
  const isSelf = head.kind === "decoder_self";
  const shown = { masked: grown(masked), weights: grown(weights) };
  return {
    lane: "inference",
    rows: Array.from({ length: rows }, (_, r) => ({
      reads: r <= step || view.inputs === "same" ? label(reads(r)!) : "…",
      predicts: r < step ? standing(run.steps[r]?.chosen.text ?? "") : "?",
    })),
    cols: isSelf
      ? head.columns.map((token, c) =>
          c <= step || view.inputs === "same" ? label(reads(c) ?? token) : "…",
        )
      : head.columns.map(label),
    values: displayed(shown, states, view),
    raw: null,
    states,
    sums: view.stage >= 3 ? rowSums(shown.weights, states) : null,
    ramp: ramp(view, head.training.scores),
    isNew: step ? step - 1 : null,
    reused: isSelf && view.isCached && step ? (run.steps[step - 1]?.reused ?? 0) : 0,
  };
}

function groupsOf(tokens: readonly Token[], texts: readonly string[]): Group[] {
  // Decoder rows start with a token outside the text; offsets of the others point into it.
  return words(
    tokens,
    texts.find((text) => tokens.some((t) => t.text && text.includes(t.text))) ?? "",
  );
}

/** The grid between words: weights summed over the columns of a word, averaged over its rows. */
export function grouped(grid: Grid, trace: Trace, head: Head): Grid {
  const decoderText = [trace.target.text];
  const sourceText = [trace.source?.text ?? trace.target.text];
  const rows = groupsOf(head.rows, head.kind === "encoder_self" ? sourceText : decoderText);
  const cols = groupsOf(head.columns, head.kind === "decoder_self" ? decoderText : sourceText);
  const states = rows.map(({ members }) =>
    cols.map((col): CellState => {
      const inside = members.flatMap((r) =>
        col.members.map((c) => grid.states[r]?.[c] ?? "absent"),
      );
      return inside.find((state) => state === "seen") ?? inside[0] ?? "absent";
    }),
  );
  const values = byWord(grid.values, rows, cols);
  return {
    ...grid,
    rows: rows.map(({ text, members }) => ({
      reads: text,
      predicts: grid.rows[members.at(-1)!]?.predicts ?? null,
    })),
    cols: cols.map(({ text }) => text),
    values,
    raw: null,
    states,
    sums: rowSums(values, states),
    isNew:
      grid.isNew === null ? null : rows.findIndex(({ members }) => members.includes(grid.isNew!)),
    reused: 0,
  };
}
