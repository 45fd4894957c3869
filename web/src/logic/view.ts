import type { Author, Inputs, Kind, KindCard } from "../data/types";

/** What the reader looks at: everything a share link keeps, and the state of the controls. */

export type Stage = 1 | 2 | 3 | 4 | 5;
export type LaneName = "training" | "inference";
export type Panel = "audit" | "beam" | "help" | "export" | "share" | null;
export type Lang = "en" | "hi";
export type Theme = "auto" | "light" | "dark";

export interface Place {
  layer: number;
  head: number;
}

export interface View {
  model: string;
  source: string;
  target: string;
  author: Author;
  cover: number[];
  pad: number; // padding columns added behind the sentence, to see their mask
  long: "refuse" | "cut" | "window";
  kind: Kind;
  stage: Stage;
  heads: Place[]; // the last is the one inspected; several: their mean
  row: number;
  col: number;
  rows: number[]; // rows added up, empty: none
  step: number; // rows of the right lane that exist
  hasRun: boolean; // the left lane's pass
  isPlaying: boolean;
  speed: 1 | 2 | 3;
  inputs: Inputs;
  forced: number[]; // ids of words that the reader put into the right lane's mouth
  isMasked: boolean;
  isCached: boolean;
  isGrouped: boolean;
  isTable: boolean;
  lane: LaneName; // the one shown where only one fits
  panel: Panel;
  tour: number | null;
  lang: Lang;
  theme: Theme;
  hasShortcuts: boolean;
}

/** How far the view may move: what the trace at hand holds. */
export interface Bounds {
  rows: number;
  cols: number;
  steps: number;
  layers: number;
  heads: number;
}

export const START: View = {
  model: "main",
  source: "",
  target: "",
  author: "typed",
  cover: [],
  pad: 0,
  long: "refuse",
  kind: "decoder_self",
  stage: 4,
  heads: [{ layer: 0, head: 0 }],
  row: 2,
  col: 1,
  rows: [],
  step: 3,
  hasRun: true,
  isPlaying: false,
  speed: 2,
  inputs: "same",
  forced: [],
  isMasked: true,
  isCached: true,
  isGrouped: false,
  isTable: false,
  lane: "training",
  panel: null,
  tour: null,
  lang: "en",
  theme: "auto",
  hasShortcuts: true,
};

export type Action =
  | { do: "set"; to: Partial<View> }
  | { do: "stage"; by: number }
  | { do: "step"; by: number }
  | { do: "move"; rows: number; cols: number }
  | { do: "layer"; by: number }
  | { do: "head"; by: number }
  | { do: "pick"; place: Place; isAdded: boolean }
  | { do: "row"; row: number; isAdded: boolean };

// Words chosen for one sentence mean nothing in another.
const SENTENCE = ["model", "source", "target", "author", "inputs"] as const;

const within = (x: number, low: number, high: number) => Math.max(low, Math.min(high, x));

/** The head whose arithmetic is shown. */
export function inspected(view: View): Place {
  return view.heads.at(-1) ?? { layer: 0, head: 0 };
}

/** The inspected head as routes want it. */
export function placeOf(view: View): { kind: Kind } & Place {
  return { kind: view.kind, ...inspected(view) };
}

/** The next view. Nothing leaves the bounds; a step takes the cursor with it. */
export function next(view: View, action: Action, bounds: Bounds): View {
  const at = inspected(view);
  switch (action.do) {
    case "set": {
      const isOther = SENTENCE.some((key) => (action.to[key] ?? view[key]) !== view[key]);
      return { ...view, ...(isOther ? { forced: [] } : {}), ...action.to };
    }
    case "stage":
      return { ...view, stage: within(view.stage + action.by, 1, 5) as Stage };
    case "step": {
      const step = within(view.step + action.by, 0, bounds.steps);
      return {
        ...view,
        step,
        row: Math.max(0, step - 1),
        isPlaying: view.isPlaying && step < bounds.steps,
      };
    }
    case "move":
      return {
        ...view,
        row: within(view.row + action.rows, 0, bounds.rows - 1),
        col: within(view.col + action.cols, 0, bounds.cols - 1),
      };
    case "layer":
      return {
        ...view,
        heads: [{ ...at, layer: within(at.layer + action.by, 0, bounds.layers - 1) }],
      };
    case "head":
      return {
        ...view,
        heads: [{ ...at, head: within(at.head + action.by, 0, bounds.heads - 1) }],
      };
    case "pick": {
      const others = view.heads.filter(
        ({ layer, head }) => layer !== action.place.layer || head !== action.place.head,
      );
      if (!action.isAdded) return { ...view, heads: [action.place] };
      const isThere = others.length < view.heads.length;
      return { ...view, heads: isThere && others.length ? others : [...others, action.place] };
    }
    case "row": {
      if (!action.isAdded) return { ...view, row: action.row, rows: [] };
      const before = view.rows.length ? view.rows : [view.row];
      const rows = before.includes(action.row)
        ? before.filter((r) => r !== action.row)
        : [...before, action.row].sort((a, b) => a - b);
      return { ...view, row: action.row, rows };
    }
  }
}

/** The view with an attention and heads that this model has: models are switched in mid-view. */
export function suited(view: View, kinds: readonly KindCard[]): View {
  const kind = kinds.find((one) => one.kind === view.kind) ?? kinds[0];
  if (!kind) return view;
  const heads = view.heads.filter(
    ({ layer, head }) => layer < kind.n_layers && head < kind.n_heads,
  );
  if (kind.kind === view.kind && heads.length === view.heads.length) return view;
  return { ...view, kind: kind.kind, heads: heads.length ? heads : [{ layer: 0, head: 0 }] };
}

/** The view inside new bounds, as after another sentence or another kind of attention. */
export function fitted(view: View, bounds: Bounds): View {
  const fits =
    view.row < bounds.rows &&
    view.col < bounds.cols &&
    view.step <= bounds.steps &&
    view.rows.every((r) => r < bounds.rows);
  if (fits) return view;
  return {
    ...view,
    row: within(view.row, 0, Math.max(0, bounds.rows - 1)),
    col: within(view.col, 0, Math.max(0, bounds.cols - 1)),
    step: within(view.step, 0, bounds.steps),
    rows: view.rows.filter((r) => r < bounds.rows),
  };
}
