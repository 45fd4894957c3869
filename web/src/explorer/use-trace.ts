import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal, type TraceRequest } from "../data/answers";
import type { Source } from "../data/source";
import type { ModelCard, Trace } from "../data/types";
import { inspected, type View } from "../logic/view";
import { fontFor } from "./fonts";

export const PAUSE_MS = 250; // typing that rests this long is meant
const SLOW_MS = 300;
const LONG_MS = 2000;
const KEPT = 16; // as many as the server keeps

export interface Tracing {
  trace: Trace | null;
  error: Refusal | null;
  isEmpty: boolean;
  wait: "none" | "slow" | "long"; // how long the present request has been under way
  now: () => void; // does not wait for the end of typing
  cancel: () => void;
  retry: () => void;
}

/** The request that this view asks for, or null when there is no sentence in it. */
export function requestOf(view: View, card: ModelCard): TraceRequest | null {
  const isTranslator = card.family === "encoder-decoder";
  const at = inspected(view);
  const needsTarget = !isTranslator || view.author === "typed";
  if (isTranslator && !view.source.trim()) return null;
  if (needsTarget && !view.target.trim()) return null;
  return {
    model: card.key,
    source: isTranslator ? view.source : null,
    target: needsTarget ? view.target : null,
    target_from: view.author,
    inputs: view.inputs,
    forced: view.inputs === "own" ? view.forced : [],
    is_masked: card.mask === null ? null : view.isMasked,
    is_cached: view.isCached,
    cover: card.family === "encoder-only" ? view.cover : [],
    pad: view.pad,
    long: view.long,
    kind: view.kind,
    layer: at.layer,
    head: at.head,
  };
}

/** Which requests are answered by one trace: the head asked for first does not matter. */
function keyOf({ kind: _kind, layer: _layer, head: _head, ...rest }: TraceRequest): string {
  return JSON.stringify(rest);
}

/** The trace of the view's sentence and settings. The last one stays until the next has come. */
export function useTrace(source: Source, card: ModelCard | null, view: View): Tracing {
  const kept = useRef(new Map<string, Trace>());
  const stop = useRef<AbortController | null>(null);
  const typed = useRef("");
  const begin = useRef(() => {});
  const [trace, setTrace] = useState<Trace | null>(null);
  const [error, setError] = useState<Refusal | null>(null);
  const [wait, setWait] = useState<Tracing["wait"]>("none");
  const [attempt, setAttempt] = useState(0);

  const request = card && requestOf(view, card);
  const key = request && keyOf(request);

  useEffect(() => {
    stop.current?.abort();
    setWait("none");
    if (!request || !key) {
      setError(null);
      return;
    }
    const found = kept.current.get(key);
    if (found) {
      setTrace(found);
      setError(null);
      return;
    }
    const control = new AbortController();
    stop.current = control;
    const text = JSON.stringify([request.source, request.target]);
    const isTyping = typed.current !== "" && typed.current !== text;
    typed.current = text;
    const timers: number[] = [];
    const run = async () => {
      begin.current = () => {};
      timers.push(window.setTimeout(() => setWait("slow"), SLOW_MS));
      timers.push(window.setTimeout(() => setWait("long"), LONG_MS));
      try {
        const answer = await source.trace(request, control.signal);
        await fontFor(answer.target.text);
        kept.current.set(key, answer);
        for (const old of [...kept.current.keys()].slice(0, -KEPT)) kept.current.delete(old);
        if (control.signal.aborted) return; // another sentence was asked for meanwhile
        setTrace(answer);
        setError(null);
      } catch (problem) {
        if (!control.signal.aborted) setError(asRefusal(problem));
      } finally {
        timers.forEach(window.clearTimeout);
        if (stop.current === control) setWait("none");
      }
    };
    const pause = window.setTimeout(run, isTyping ? PAUSE_MS : 0);
    begin.current = () => {
      window.clearTimeout(pause);
      void run();
    };
    return () => {
      control.abort();
      window.clearTimeout(pause);
      timers.forEach(window.clearTimeout);
    };
  }, [source, key, attempt]);

  return {
    trace: key ? trace : null,
    error,
    isEmpty: card !== null && request === null,
    wait,
    now: () => begin.current(),
    cancel: () => {
      stop.current?.abort();
      setWait("none");
      setError(new Refusal("cancelled", ""));
    },
    retry: () => {
      kept.current.clear();
      setAttempt((n) => n + 1);
    },
  };
}

/** Any failure as a refusal with words: nothing fails in silence. */
export function asRefusal(problem: unknown): Refusal {
  return problem instanceof Refusal ? problem : new Refusal("internal", String(problem));
}
