import type { Grid } from "../logic/grid";

/** The part of a grid that is drawn. */
export interface Part {
  firstRow: number;
  firstCol: number;
  rows: number;
  cols: number;
}

/** The few colours a drawing needs besides the ramp's own. */
export interface Ink {
  ground: string;
  line: string;
  faint: string;
  mark: string;
  seen: string;
}

/** The ink of the element's surroundings, so that a drawing follows the page's colours. */
export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    ground: of("--card"),
    line: of("--ink"),
    faint: of("--hatch"),
    mark: of("--mark"),
    seen: of("--may"),
  };
}

type Pen = CanvasRenderingContext2D;

function hatch(pen: Pen, x: number, y: number, size: number, colour: string): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, y + size);
  pen.lineTo(x + size, y);
  pen.stroke();
}

/** Draws the part of a grid: forbidden cells hatched, cells that do not exist yet as a dot. */
export function drawCells(
  pen: Pen,
  grid: Grid,
  part: Part,
  cell: number,
  cursor: { row: number; col: number } | null,
  ink: Ink,
): void {
  pen.fillStyle = ink.ground;
  pen.fillRect(0, 0, part.cols * cell, part.rows * cell);
  for (let r = 0; r < part.rows; r++) {
    for (let c = 0; c < part.cols; c++) {
      const row = part.firstRow + r;
      const col = part.firstCol + c;
      const [x, y] = [c * cell, r * cell];
      switch (grid.states[row]?.[col]) {
        case "seen":
          pen.fillStyle = grid.ramp ? grid.ramp(grid.values.at(row, col)).ground : ink.seen;
          pen.fillRect(x, y, cell, cell);
          break;
        case "causal":
        case "padding":
          hatch(pen, x, y, cell, ink.faint);
          break;
        default:
          pen.fillStyle = ink.faint;
          pen.fillRect(x + cell / 2 - 0.5, y + cell / 2 - 0.5, 1, 1);
      }
    }
  }
  if (!cursor) return;
  pen.strokeStyle = ink.mark;
  pen.lineWidth = 2;
  pen.strokeRect(
    (cursor.col - part.firstCol) * cell - 1,
    (cursor.row - part.firstRow) * cell - 1,
    cell + 2,
    cell + 2,
  );
}

/** Draws the whole grid small, with a frame around the part that is shown large. */
export function drawOverview(pen: Pen, grid: Grid, part: Part, size: number, ink: Ink): void {
  const [rows, cols] = [grid.rows.length, grid.cols.length];
  pen.fillStyle = ink.ground;
  pen.fillRect(0, 0, size, size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const [r, c] = [Math.floor((y / size) * rows), Math.floor((x / size) * cols)];
      if (grid.states[r]?.[c] !== "seen") continue;
      pen.fillStyle = grid.ramp ? grid.ramp(grid.values.at(r, c)).ground : ink.seen;
      pen.fillRect(x, y, 1, 1);
    }
  }
  pen.strokeStyle = ink.mark;
  pen.lineWidth = 2;
  pen.strokeRect(
    (part.firstCol / cols) * size + 1,
    (part.firstRow / rows) * size + 1,
    (part.cols / cols) * size - 2,
    (part.rows / rows) * size - 2,
  );
}
