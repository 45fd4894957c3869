import type { Grid } from "../logic/grid";
import { fixed, short } from "../logic/numbers";

/** A picture as a list of marks: written out as SVG and painted as PNG from the same list. */
export type Mark =
  | { mark: "box"; x: number; y: number; w: number; h: number; fill: string }
  | { mark: "hatch" | "dashes"; x: number; y: number; w: number; h: number }
  | {
      mark: "text";
      x: number;
      y: number;
      text: string;
      size: number;
      fill: string;
      anchor: "start" | "middle" | "end";
    };

export interface Scene {
  width: number;
  height: number;
  marks: Mark[];
}

export const INK = {
  ground: "#ffffff",
  text: "#14181d",
  quiet: "#57606a",
  line: "#8c959f",
  may: "#d6e6f2",
};
const SIZE = 13;

/** A grid on paper: labels, cells, sums and a caption. `measure` gives the width of a text. */
export function sceneOf(
  grid: Grid,
  caption: string,
  measure: (text: string, size: number) => number,
): Scene {
  const names = grid.rows.map(({ reads, predicts }) =>
    predicts === null ? reads : `${reads} → ${predicts}`,
  );
  const cell = Math.max(14, Math.min(44, Math.floor(900 / grid.cols.length)));
  const left = Math.ceil(Math.max(...names.map((name) => measure(name, SIZE)))) + 36;
  const isNamed = grid.cols.every((name) => measure(name, SIZE) + 6 <= cell);
  const top = 34;
  const marks: Mark[] = [];
  const text = (
    x: number,
    y: number,
    words: string,
    anchor: "start" | "middle" | "end",
    fill = INK.text,
    size = SIZE,
  ) => marks.push({ mark: "text", x, y, text: words, size, fill, anchor });
  grid.cols.forEach((name, c) => {
    text(left + (c + 0.5) * cell, top - 8, isNamed ? name : String(c + 1), "middle", INK.quiet);
  });
  grid.rows.forEach((_, r) => {
    const y = top + r * cell;
    text(left - 8, y + cell / 2 + 5, names[r]!, "end");
    text(4, y + cell / 2 + 5, String(r + 1), "start", INK.quiet, 11);
    grid.cols.forEach((_, c) => {
      const at = { x: left + c * cell, y, w: cell - 1, h: cell - 1 };
      const state = grid.states[r]?.[c] ?? "absent";
      if (state === "absent") marks.push({ mark: "dashes", ...at });
      else if (state !== "seen") marks.push({ mark: "hatch", ...at });
      else {
        const value = grid.values.at(r, c);
        const paint = grid.ramp?.(value) ?? { ground: INK.may, ink: INK.text };
        marks.push({ mark: "box", ...at, fill: paint.ground });
        if (grid.ramp && cell >= 28)
          text(at.x + cell / 2, y + cell / 2 + 4, short(value), "middle", paint.ink, 11);
      }
    });
    const sum = grid.sums?.[r];
    if (sum != null)
      text(
        left + grid.cols.length * cell + 8,
        y + cell / 2 + 4,
        fixed(sum),
        "start",
        INK.quiet,
        11,
      );
  });
  let y = top + grid.rows.length * cell + 26;
  if (!isNamed) {
    grid.cols.forEach((name, c) => {
      text(left, y, `${c + 1}  ${name}`, "start", INK.quiet);
      y += 20;
    });
    y += 6;
  }
  text(4, y, caption, "start", INK.quiet, 12);
  const width = Math.max(
    left + grid.cols.length * cell + (grid.sums ? 56 : 12),
    measure(caption, 12) + 12,
  );
  return { width: Math.ceil(width), height: y + 14, marks };
}
