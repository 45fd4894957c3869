import { Component } from "preact";
import type { Strings } from "../../i18n/en";
import { type Grid, isSameRow } from "../../logic/grid";
import { langOf } from "../../logic/labels";
import { fixed, short } from "../../logic/numbers";
import { cellName } from "./cell-name";
import type { Layout } from "./sizes";

export interface RowProps {
  grid: Grid;
  layout: Layout;
  row: number;
  cursorCol: number; // −1: the cursor is in another row
  hoverCol: number;
  isCurrent: boolean;
  isChosen: boolean; // one of the rows that are added up
  isBad: boolean;
  isFirstOther: boolean; // the first row that read another word than in training
  id: string;
  t: Strings;
}

/** One row of a grid. Redrawn only when something in it changed: a step touches two rows of many. */
export class GridRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const names = Object.keys(next) as (keyof RowProps)[];
    if (names.some((name) => name !== "grid" && next[name] !== this.props[name])) return true;
    return !isSameRow(this.props.grid, next.grid, next.row);
  }

  override render() {
    const { grid, layout, row, isCurrent, isChosen, isBad, isFirstOther, t } = this.props;
    const label = grid.rows[row]!;
    const isAbsent = grid.states[row]!.every((state) => state === "absent");
    const classes = [
      "row",
      isCurrent && "current",
      isChosen && "chosen",
      isBad && "bad",
      isAbsent && "later",
      grid.isNew === row && "new",
      isFirstOther && "other",
    ];
    const sum = grid.sums?.[row];
    return (
      <div role="row" aria-rowindex={row + 2} class={classes.filter(Boolean).join(" ")}>
        <div
          role="rowheader"
          class="row-label"
          style={{ width: `${layout.head}px` }}
          data-row={row}
          lang={langOf(label.reads)}
          dir="auto"
          title={label.predicts === null ? label.reads : `${label.reads} → ${label.predicts}`}
        >
          <span class="reads">{label.reads}</span>
          {label.predicts !== null && (
            <span class="predicts" lang={langOf(label.predicts)}>
              <span class="arrow">→</span>
              {label.predicts}
            </span>
          )}
        </div>
        {grid.cols.map((_, col) => this.cell(col))}
        {grid.sums && (
          <div role="gridcell" class="sum" data-sum={sum ?? undefined}>
            {sum == null ? "" : fixed(sum)}
          </div>
        )}
        {grid.isNew === row && <span class="new-mark">← {t.lanes.newRow}</span>}
      </div>
    );
  }

  private cell(col: number) {
    const { grid, layout, row, cursorCol, hoverCol, id, t } = this.props;
    const state = grid.states[row]![col]!;
    const value = grid.values.at(row, col);
    const isSeen = state === "seen";
    const paint = isSeen && grid.ramp ? grid.ramp(value) : null;
    const raw = grid.raw && !isSeen && state !== "absent" ? grid.raw.at(row, col) : null;
    const from = raw !== null && grid.ramp ? grid.ramp(raw).ground : undefined;
    const isCursor = cursorCol === col;
    const classes = [
      "cell",
      state,
      isCursor && "cursor",
      hoverCol === col && "hover",
      from && "falling",
    ];
    let text = "";
    if (layout.hasText) {
      if (isSeen) text = grid.ramp ? short(value) : "✓";
      else if (state !== "absent") text = grid.ramp && grid.sums ? "0" : "−∞";
      else text = "·";
    }
    return (
      <div
        key={col}
        role="gridcell"
        id={isCursor ? `${id}-cursor` : undefined}
        aria-colindex={col + 2}
        aria-selected={isCursor || undefined}
        class={classes.filter(Boolean).join(" ")}
        data-row={row}
        data-col={col}
        data-state={state}
        data-value={state === "absent" ? undefined : String(value)}
        style={{
          width: `${layout.cell}px`,
          background: paint?.ground ?? "",
          color: paint?.ink ?? "",
          ...(from ? { "--from": from } : {}),
        }}
      >
        {isCursor ? (
          <>
            <span class="hidden-text">{cellName(grid, row, col, t)}</span>
            <span aria-hidden="true">{text}</span>
          </>
        ) : (
          text
        )}
      </div>
    );
  }
}
