import type { LaneNumbers } from "../../data/head";
import { useExplorer } from "../../explorer/explorer";
import type { CellState } from "../../logic/grid";
import type { LaneName } from "../../logic/view";

/** One cell of one head with all its arithmetic, from the lane that has it. */
export interface CellNumbers {
  lane: LaneName;
  row: number;
  col: number;
  state: CellState;
  q: Float64Array;
  k: Float64Array;
  dot: number; // q·k, worked out here
  bias: number | null;
  score: number; // the model's own
  masked: number;
  exp: number;
  rowSum: number; // of e^x over the row
  weight: number;
}

function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i]! * b[i]!;
  return total;
}

/** The numbers of a cell in a lane. Row sums are over e^x as written, without a shift. */
export function cellNumbers(
  lane: LaneNumbers,
  row: number,
  col: number,
  state: CellState,
): Omit<CellNumbers, "lane"> {
  const masked = lane.masked.at(row, col);
  const length = lane.lengths[row] ?? lane.masked.cols;
  let rowSum = 0;
  for (const x of lane.masked.row(row).subarray(0, length)) rowSum += Math.exp(x);
  const q = lane.q.row(row);
  const k = lane.k.row(col);
  return {
    row,
    col,
    state,
    q,
    k,
    dot: dot(q, k),
    bias: lane.bias?.at(row, col) ?? null,
    score: lane.scores.at(row, col),
    masked,
    exp: Math.exp(masked),
    rowSum,
    weight: lane.weights.at(row, col),
  };
}

/** The cell that is pointed at, else the cursor's; null between words and before there are numbers. */
export function useCell(): CellNumbers | null {
  const { head, trace, view, hover, training, inference } = useExplorer();
  if (!head || !trace || !training || (view.isGrouped && view.stage >= 3)) return null;
  const row = Math.min(hover?.row ?? view.row, head.rows.length - 1);
  const col = Math.min(hover?.col ?? view.col, head.columns.length - 1);
  const there = inference?.states[row]?.[col];
  const wantsInference = (hover?.lane ?? view.lane) === "inference";
  if (wantsInference && head.inference && there && there !== "absent") {
    return { lane: "inference", ...cellNumbers(head.inference, row, col, there) };
  }
  const mask = trace.masks[head.kind];
  const isPadding = mask?.padding[row]?.[col] === false;
  const state: CellState = isPadding
    ? "padding"
    : mask?.allowed[row]?.[col] === false
      ? "causal"
      : "seen";
  return { lane: "training", ...cellNumbers(head.training, row, col, state) };
}
