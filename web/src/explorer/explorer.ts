import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { ModelState, Refusal } from "../data/answers";
import type { Head } from "../data/head";
import type { Source } from "../data/source";
import type { ModelCard, Trace } from "../data/types";
import type { Strings } from "../i18n/en";
import type { Grid } from "../logic/grid";
import type { Check } from "../logic/softmax";
import type { Action, Bounds, LaneName, View } from "../logic/view";
import type { Tracing } from "./use-trace";

/** The cell that is pointed at; the other lane shows the same one. */
export interface Pointed {
  lane: LaneName;
  row: number;
  col: number;
}

/** Everything the parts of the page read, and the few ways in which they change it. */
export interface Explorer {
  source: Source;
  state: ModelState;
  setState: (state: ModelState) => void; // after another model was opened
  card: ModelCard;
  view: View;
  bounds: Bounds;
  act: (action: Action) => void;
  set: (to: Partial<View>) => void;
  tracing: Tracing;
  trace: Trace | null;
  heads: Head[];
  headError: Refusal | null;
  head: Head | null; // the one inspected
  training: Grid | null;
  inference: Grid | null;
  check: Check | null;
  hover: Pointed | null;
  point: (at: Pointed | null) => void;
  isOffline: boolean;
  fail: (refusal: Refusal) => void;
  t: Strings;
}

export const ExplorerContext = createContext<Explorer | null>(null);

/** The explorer around this part. */
export function useExplorer(): Explorer {
  const explorer = useContext(ExplorerContext);
  if (!explorer) throw new Error("a part of the page stands outside the explorer");
  return explorer;
}
