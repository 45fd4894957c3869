import { useEffect, useRef } from "preact/hooks";
import { useExplorer } from "../../explorer/explorer";
import { drawCells, drawOverview, inkOf } from "../../figure/cells";
import type { Grid } from "../../logic/grid";
import { cellName } from "./cell-name";
import { type Layout, windowStart } from "./sizes";

const OVERVIEW = 96;

interface Props {
  grid: Grid;
  layout: Layout;
  row: number;
  col: number;
  id: string;
}

/** A large grid, drawn: a window around the cursor, and a small map of the whole that moves it. */
export function GridCanvas({ grid, layout, row, col, id }: Props) {
  const { set, point, t, view } = useExplorer();
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const nRows = Math.min(grid.rows.length, layout.window);
  const firstRow = windowStart(row, nRows, grid.rows.length);
  const firstCol = windowStart(col, layout.window, grid.cols.length);
  const isPart = nRows < grid.rows.length || layout.window < grid.cols.length;
  const { cell } = layout;
  const part = { firstRow, firstCol, rows: nRows, cols: layout.window };

  useEffect(() => {
    const pen = sized(canvas.current, layout.window * cell, nRows * cell);
    if (pen) drawCells(pen, grid, part, cell, { row, col }, inkOf(pen.canvas));
  }, [grid, layout, row, col, view.theme]);
  useEffect(() => {
    const pen = isPart ? sized(map.current, OVERVIEW, OVERVIEW) : null;
    if (pen) drawOverview(pen, grid, part, OVERVIEW, inkOf(pen.canvas));
  }, [grid, firstRow, firstCol, layout, view.theme]);

  const cellAt = (event: MouseEvent) => {
    const row = firstRow + Math.floor(event.offsetY / cell);
    return { row, col: firstCol + Math.floor(event.offsetX / cell) };
  };
  const onMap = (event: MouseEvent) => {
    event.stopPropagation();
    set({
      row: Math.floor((event.offsetY / OVERVIEW) * grid.rows.length),
      col: Math.floor((event.offsetX / OVERVIEW) * grid.cols.length),
    });
  };
  const label = grid.rows[row];
  return (
    <div class="canvas-box" role="presentation">
      <div role="row" aria-rowindex={row + 2} class="hidden-text">
        <div
          role="gridcell"
          id={`${id}-cursor`}
          aria-colindex={col + 2}
          aria-selected
          data-at={`${row},${col}`}
          data-state={grid.states[row]?.[col]}
          data-value={
            grid.states[row]?.[col] === "absent" ? undefined : String(grid.values.at(row, col))
          }
        >
          {cellName(grid, row, col, t)}
        </div>
      </div>
      <p class="canvas-label">
        <b>▸ {row + 1}</b> {label?.reads} {label?.predicts !== null && `→ ${label?.predicts}`} ·{" "}
        {col + 1} {grid.cols[col]}
      </p>
      <canvas
        ref={canvas}
        aria-hidden="true"
        onClick={(event) => set({ ...cellAt(event), rows: [], lane: grid.lane })}
        onPointerMove={(event) => point({ lane: grid.lane, ...cellAt(event) })}
      />
      {isPart && (
        <div class="overview">
          <canvas ref={map} aria-hidden="true" onClick={onMap} />
          <span>{t.lanes.moveWindow}</span>
        </div>
      )}
    </div>
  );
}

function sized(
  canvas: HTMLCanvasElement | null,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  if (!canvas) return null;
  const dots = window.devicePixelRatio || 1;
  canvas.width = width * dots;
  canvas.height = height * dots;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen?.scale(dots, dots);
  return pen;
}
