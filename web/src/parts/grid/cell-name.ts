import type { Strings } from "../../i18n/en";
import type { Grid } from "../../logic/grid";
import { fixed } from "../../logic/numbers";

/** What a cell holds, in words: its weight or score, or why it has none. */
export function cellContent(grid: Grid, row: number, col: number, t: Strings): string {
  switch (grid.states[row]?.[col]) {
    case "causal":
      return t.lanes.hidden;
    case "padding":
      return t.lanes.pad;
    case "seen": {
      if (!grid.ramp) return t.lanes.may;
      const value = fixed(grid.values.at(row, col));
      return grid.sums ? t.lanes.weight(value) : t.lanes.score(value);
    }
    default:
      return t.lanes.absent;
  }
}

/** A cell as a voice reads it: whose row, which column, and what stands there. */
export function cellName(grid: Grid, row: number, col: number, t: Strings): string {
  const { reads, predicts } = grid.rows[row] ?? { reads: "", predicts: null };
  const who = t.lanes.reads(row + 1, reads, predicts);
  return `${who}; ${t.lanes.column(grid.cols[col] ?? "")}: ${cellContent(grid, row, col, t)}`;
}
