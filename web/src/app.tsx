import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Refusal } from "./data/answers";
import type { Source } from "./data/source";
import { type Explorer, ExplorerContext, type Pointed } from "./explorer/explorer";
import { dress, recall, remember, startLang } from "./explorer/settings";
import { useHeads } from "./explorer/use-heads";
import { useKeys } from "./explorer/use-keys";
import { useModel } from "./explorer/use-model";
import { useTrace } from "./explorer/use-trace";
import { strings } from "./i18n";
import { type Grid, grouped, inferenceGrid, trainingGrid } from "./logic/grid";
import type { Shared } from "./logic/share";
import { check } from "./logic/softmax";
import { type Action, type Bounds, fitted, next, START, suited, type View } from "./logic/view";
import { Page } from "./parts/page";
import { Loading } from "./parts/states";

const NO_BOUNDS: Bounds = { rows: 1, cols: 1, steps: 0, layers: 1, heads: 1 };

function startView(shared: Shared | null): View {
  const { theme = "auto", hasShortcuts = true } = recall();
  return { ...START, lang: startLang(navigator.languages), theme, hasShortcuts, ...shared?.view };
}

/** The whole explorer over one source of numbers. */
export function App({ source, shared }: { source: Source; shared: Shared | null }) {
  const bounds = useRef(NO_BOUNDS);
  const [view, act] = useReducer<View, Action, Shared | null>(
    (before, action) => next(before, action, bounds.current),
    shared,
    startView,
  );
  const set = useCallback((to: Partial<View>) => act({ do: "set", to }), []);
  const [hover, point] = useState<Pointed | null>(null);
  const [isOffline, setOffline] = useState(false);
  const t = strings(view.lang);

  const retry = useRef(() => {});
  const [state, setState] = useModel(source, isOffline, () => {
    setOffline(false);
    if (isOffline) retry.current();
  });
  const card = state?.models.find(({ key }) => key === view.model) ?? state?.models[0] ?? null;
  useDefaultSentence(state?.examples[0] ?? null, view, set);

  const isReady = state?.state === "ready";
  const asked = card ? suited(view, card.kinds) : view;
  const tracing = useTrace(source, isReady ? card : null, asked);
  retry.current = tracing.retry;
  const { trace, heads, error: headError } = useHeads(source, tracing.trace, asked, tracing.retry);
  const fail = useCallback((refusal: Refusal) => {
    if (refusal.code === "offline") setOffline(true);
  }, []);
  useEffect(() => {
    const problem = tracing.error ?? headError;
    if (problem) fail(problem);
  }, [tracing.error, headError]);

  const head = heads.at(-1) ?? null;
  const kind = card?.kinds.find((one) => one.kind === asked.kind);
  bounds.current = {
    rows: head?.rows.length ?? 1,
    cols: head?.columns.length ?? 1,
    steps: trace?.inference?.steps.length ?? 0,
    layers: kind?.n_layers ?? 1,
    heads: kind?.n_heads ?? 1,
  };
  useEffect(() => {
    const fit = trace ? fitted(asked, bounds.current) : asked;
    if (fit !== view) set(fit);
  });

  const { stage, step, hasRun, inputs, isCached, isGrouped } = view;
  const joined = (grid: Grid | null) =>
    grid && trace && head && isGrouped && stage >= 3 ? grouped(grid, trace, head) : grid;
  // Apart, so that a step of the right lane leaves the left one as it is.
  const training = useMemo(
    () => joined(trace && head && trainingGrid(trace, heads, view)),
    [trace, heads, stage, hasRun, isGrouped],
  );
  const inference = useMemo(
    () => joined(trace && head && inferenceGrid(trace, heads, view)),
    [trace, heads, stage, step, inputs, isCached, isGrouped],
  );
  const checked = useMemo(() => head && check(head.training.masked, head.training.weights), [head]);

  useKeys(view, act);
  useEffect(() => {
    dress(view, t.title);
    remember({ lang: view.lang, theme: view.theme, hasShortcuts: view.hasShortcuts });
  }, [view.lang, view.theme, view.hasShortcuts]);

  if (!state || !card || state.state !== "ready") return <Loading state={state} t={t} />;
  const explorer: Explorer = {
    source,
    state,
    setState,
    card,
    view,
    bounds: bounds.current,
    act,
    set,
    tracing,
    trace,
    heads,
    headError,
    head,
    training,
    inference,
    check: checked,
    hover,
    point,
    isOffline,
    fail,
    t,
  };
  return (
    <ExplorerContext.Provider value={explorer}>
      <Page shared={shared} />
    </ExplorerContext.Provider>
  );
}

/** Fills the sentence of a first visit with the first example. */
function useDefaultSentence(
  example: { source: string | null; target: string | null } | null,
  view: View,
  set: (to: Partial<View>) => void,
): void {
  const isDone = useRef(view.source !== "" || view.target !== "");
  useEffect(() => {
    if (!example || isDone.current) return;
    isDone.current = true;
    const author = example.target === null ? "model" : "typed";
    set({ source: example.source ?? "", target: example.target ?? "", author });
  }, [example]);
}
