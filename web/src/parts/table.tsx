import { useExplorer } from "../explorer/explorer";
import type { Grid } from "../logic/grid";
import { langOf } from "../logic/labels";
import { fixed } from "../logic/numbers";
import { cellContent } from "./grid/cell-name";

/** A lane as a real table, for voices and for copying. */
export function MatrixTable({ grid }: { grid: Grid }) {
  const { t } = useExplorer();
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={t.lanes.grid[grid.lane]}>
      <table class="matrix">
        <thead>
          <tr>
            <td />
            {grid.cols.map((name, c) => (
              <th key={c} scope="col" lang={langOf(name)}>
                {name}
              </th>
            ))}
            {grid.sums && <th scope="col">{t.lanes.sums}</th>}
          </tr>
        </thead>
        <tbody>
          {grid.rows.map(({ reads, predicts }, r) => (
            <tr key={r}>
              <th scope="row" lang={langOf(reads)}>
                {reads}
                {predicts !== null && ` → ${predicts}`}
              </th>
              {grid.cols.map((_, c) => (
                <td key={c}>
                  {grid.states[r]?.[c] === "seen" && grid.ramp
                    ? fixed(grid.values.at(r, c))
                    : cellContent(grid, r, c, t)}
                </td>
              ))}
              {grid.sums && <td>{grid.sums[r] == null ? "" : fixed(grid.sums[r]!)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
