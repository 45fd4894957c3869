import { textWidth } from "../../figure/font";
import type { Grid } from "../../logic/grid";

/** Cells grow to this, shrink to LEAST, and below that a window of the grid is shown. */
export const MOST = 60;
export const LEAST = 8;
/** Text in a cell needs this much room. */
export const ROOMY = 30;
/** More cells than this are drawn on a canvas: as elements they would take too long. */
export const MOST_ELEMENTS = 1400;

export interface Layout {
  cell: number;
  head: number; // width of the row labels
  hasText: boolean; // numbers in the cells
  hasNames: boolean; // words over the columns; else their numbers
  window: number; // columns (and rows) shown at once
  isCanvas: boolean;
}

const SUM_WIDTH = 52;
const MARK_WIDTH = 84; // "← new row"; kept free in both lanes, so that their cells are alike

/** How a grid fits into `width` pixels. */
export function layoutOf(grid: Grid, width: number): Layout {
  const cols = grid.cols.length;
  const wish = Math.max(
    ...grid.rows.map(({ reads, predicts }) => textWidth(`${reads} → ${predicts ?? ""}`, 14)),
  );
  const head = Math.round(Math.min(Math.max(84, wish + 40), width * 0.4));
  const mark = width > 480 ? MARK_WIDTH : 0;
  const room = Math.max(60, width - head - (grid.sums ? SUM_WIDTH : 0) - mark - 4);
  const cell = Math.max(LEAST, Math.min(MOST, Math.floor(room / cols)));
  const widest = Math.max(...grid.cols.map((name) => textWidth(name, 13)));
  return {
    cell,
    head,
    hasText: cell >= ROOMY,
    hasNames: widest + 6 <= cell,
    window: Math.min(cols, Math.floor(room / cell)),
    isCanvas: grid.rows.length * cols > MOST_ELEMENTS,
  };
}

/** The first shown of `n` when `size` fit and `at` must be among them, near the middle. */
export function windowStart(at: number, size: number, n: number): number {
  return Math.max(0, Math.min(n - size, at - Math.floor(size / 2)));
}
