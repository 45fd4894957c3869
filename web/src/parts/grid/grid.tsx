import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { useExplorer } from "../../explorer/explorer";
import type { Grid } from "../../logic/grid";
import { langOf } from "../../logic/labels";
import { GridCanvas } from "./canvas";
import { GridRow } from "./row";
import { layoutOf } from "./sizes";
import { useWidth } from "./use-width";

const ARROWS: Record<string, [rows: number, cols: number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function placeIn(event: Event): { row: number; col: number | null } | null {
  const cell = (event.target as Element).closest<HTMLElement>("[data-row]");
  if (!cell) return null;
  const { row, col } = cell.dataset;
  return { row: Number(row), col: col === undefined ? null : Number(col) };
}

interface Props {
  grid: Grid;
  badRows: number[];
  otherRow: number | null;
  strip: ComponentChildren; // explains the columns where their names do not fit over them
}

/** A grid with one tab stop: arrows walk, Enter goes to the inspector, the mouse points and chooses. */
export function GridView({ grid, badRows, otherRow, strip }: Props) {
  const { view, act, set, hover, point, t, training } = useExplorer();
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 620);
  // Both lanes take the left one's measures: the same cells in the same places, at every step.
  const model = training ?? grid;
  const layout = useMemo(() => layoutOf(model, width), [model, width]);
  const id = `grid-${grid.lane}`;
  // Between words the cursor of the tokens means nothing.
  const row = Math.min(view.row, grid.rows.length - 1);
  const col = Math.min(view.col, grid.cols.length - 1);

  const onKeyDown = (event: KeyboardEvent) => {
    const arrow = ARROWS[event.key];
    if (arrow && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act({ do: "move", rows: arrow[0], cols: arrow[1] });
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      set({ col: event.key === "Home" ? 0 : grid.cols.length - 1 });
    } else if (event.key === "Enter") {
      event.preventDefault();
      document.getElementById("inspector")?.focus();
    }
  };
  const onClick = (event: MouseEvent) => {
    const at = placeIn(event);
    if (!at) return;
    if (event.shiftKey || at.col === null) act({ do: "row", row: at.row, isAdded: event.shiftKey });
    else set({ row: at.row, col: at.col, rows: [], lane: grid.lane });
  };
  const onPointer = (event: PointerEvent) => {
    const at = placeIn(event);
    if (at?.col == null) return;
    if (at.row !== hover?.row || at.col !== hover?.col || grid.lane !== hover.lane) {
      point({ lane: grid.lane, row: at.row, col: at.col });
    }
  };

  return (
    <div class="grid-box" ref={box}>
      <div
        role="grid"
        id={id}
        tabIndex={0}
        class={`grid stage-${view.stage} ${layout.isCanvas ? "drawn" : ""}`}
        style={{ "--cell-height": `${Math.max(24, Math.min(layout.cell, 40))}px` }}
        aria-label={t.lanes.grid[grid.lane]}
        aria-rowcount={grid.rows.length + 1}
        aria-colcount={grid.cols.length + 1}
        aria-activedescendant={`${id}-cursor`}
        onKeyDown={onKeyDown}
        onFocus={() => view.lane !== grid.lane && set({ lane: grid.lane })}
        onClick={onClick}
        onPointerOver={onPointer}
        onPointerLeave={() => point(null)}
      >
        {layout.isCanvas ? (
          <GridCanvas grid={grid} layout={layout} row={row} col={col} id={id} />
        ) : (
          <>
            <div role="row" aria-rowindex={1} class="row heads">
              <div role="columnheader" class="corner" style={{ width: `${layout.head}px` }}>
                <span class="hidden-text">{t.lanes.row}</span>
              </div>
              {grid.cols.map((name, c) => (
                <div
                  key={c}
                  role="columnheader"
                  aria-colindex={c + 2}
                  class={`col-label ${c === (hover?.col ?? col) ? "current" : ""}`}
                  style={{ width: `${layout.cell}px` }}
                  lang={langOf(name)}
                  title={name}
                >
                  {layout.hasNames ? name : layout.cell >= 16 || c % 5 === 4 ? c + 1 : ""}
                  {c < grid.reused && <span class="cached">▣</span>}
                </div>
              ))}
              {grid.sums && (
                <div role="columnheader" class="sum">
                  {t.lanes.sums}
                </div>
              )}
            </div>
            {grid.rows.map((_, r) => (
              <GridRow
                key={r}
                grid={grid}
                layout={layout}
                row={r}
                cursorCol={r === row ? col : -1}
                hoverCol={r === hover?.row ? hover.col : -1}
                isCurrent={r === (hover?.row ?? row)}
                isChosen={view.rows.includes(r)}
                isBad={badRows.includes(r)}
                isFirstOther={otherRow === r}
                id={id}
                t={t}
              />
            ))}
          </>
        )}
      </div>
      {!layout.hasNames && strip}
    </div>
  );
}
