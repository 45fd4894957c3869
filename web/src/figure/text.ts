import type { Grid } from "../logic/grid";
import { inspected, type View } from "../logic/view";

function field(text: string): string {
  // A leading =, +, - or @ would be a formula to a spreadsheet; numbers are written without quotes.
  const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** The lane as CSV with labels. Forbidden places say -inf among scores; absent ones are empty. */
export function csvOf(grid: Grid): string {
  const lines = [["", ...grid.cols.map(field)].join(",")];
  grid.rows.forEach(({ reads, predicts }, r) => {
    const numbers = grid.cols.map((_, c) => {
      if (grid.states[r]?.[c] === "absent") return "";
      const value = grid.values.at(r, c);
      return value === Number.NEGATIVE_INFINITY ? "-inf" : String(value);
    });
    lines.push([field(predicts === null ? reads : `${reads} → ${predicts}`), ...numbers].join(","));
  });
  return `${lines.join("\n")}\n`;
}

/** The lines of Python that reproduce the view: the same trace, the same matrix. */
export function pythonOf(view: View, model: string, isTranslator: boolean): string {
  const { layer, head } = inspected(view);
  // JSON strings are Python strings, but for two line ends that only JSON lets stand.
  const quoted = (text: string) => JSON.stringify(text).replace(/[\u2028\u2029]/g, "\\n");
  const isTyped = view.author === "typed";
  const words = [
    isTranslator && `src=${quoted(view.source)}`,
    isTranslator ? isTyped && `tgt=${quoted(view.target)}` : `src=${quoted(view.target)}`,
    !isTyped && "write=True",
    view.inputs === "own" && 'inputs="own"',
    view.inputs === "own" && view.forced.length > 0 && `forced=[${view.forced.join(", ")}]`,
    !view.isMasked && "is_masked=False",
    !view.isCached && "is_cached=False",
  ];
  const matrix = view.stage === 2 ? "masked" : "weights";
  const last =
    view.stage === 1
      ? `allowed = view.to_json()["masks"]["${view.kind}"]["allowed"]`
      : `${matrix} = view.head("${view.kind}", ${layer}, ${head})["${view.lane}"]["${matrix}"]`;
  return [
    "import lookleft",
    `view = lookleft.explain(${[quoted(model), ...words.filter(Boolean)].join(", ")})`,
    last,
  ].join("\n");
}
