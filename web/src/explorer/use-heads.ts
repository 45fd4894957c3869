import { useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "../data/answers";
import { type Head, readHead } from "../data/head";
import type { Source } from "../data/source";
import type { Kind, Trace } from "../data/types";
import type { Place, View } from "../logic/view";
import { asRefusal } from "./use-trace";

const KEPT = 24;

function keyOf(trace: Trace, kind: Kind, { layer, head }: Place): string {
  return `${trace.id}/${kind}/${layer}/${head}`;
}

/** Heads and the trace they belong to: never the numbers of one with the words of another. */
export interface Shown {
  trace: Trace | null;
  heads: Head[];
}

const NOTHING: Shown = { trace: null, heads: [] };

/** The numbers of the heads that are looked at, fetched one at a time and kept for a while. */
export function useHeads(
  source: Source,
  trace: Trace | null,
  view: View,
  onGone: () => void,
): Shown & { error: Refusal | null } {
  const kept = useRef(new Map<string, Head>());
  const shown = useRef<Shown>(NOTHING);
  const [error, setError] = useState<Refusal | null>(null);
  const [, redraw] = useState(0);

  if (trace) {
    const first = keyOf(trace, trace.head.kind, trace.head);
    if (!kept.current.has(first)) kept.current.set(first, readHead(trace.head));
  }
  // While another model's trace is on its way, the present one need not have that attention.
  const isThere = trace?.model.kinds.some(({ kind }) => kind === view.kind) ?? false;
  const keys = trace && isThere ? view.heads.map((place) => keyOf(trace, view.kind, place)) : [];

  useEffect(() => {
    if (!trace || !isThere) return;
    let isOver = false;
    setError(null);
    for (const [i, place] of view.heads.entries()) {
      const key = keys[i]!;
      if (kept.current.has(key)) continue;
      source.head(trace.id, { kind: view.kind, ...place }).then(
        (wire) => {
          kept.current.set(key, readHead(wire));
          for (const old of [...kept.current.keys()].slice(0, -KEPT)) kept.current.delete(old);
          if (!isOver) redraw((n) => n + 1);
        },
        (problem: unknown) => {
          if (isOver) return;
          const refusal = asRefusal(problem);
          if (refusal.code === "unknown_trace") onGone();
          else setError(refusal);
        },
      );
    }
    return () => {
      isOver = true;
    };
  }, [source, keys.join()]);

  const found = keys.map((key) => kept.current.get(key)).filter((head) => head !== undefined);
  if (!trace) shown.current = NOTHING;
  else if (keys.length && found.length === keys.length) {
    // What was shown stays on the screen until all of the next is there.
    const { heads } = shown.current;
    const isSame = found.length === heads.length && found.every((head, i) => head === heads[i]);
    if (!isSame || shown.current.trace !== trace)
      shown.current = { trace, heads: isSame ? heads : found };
  }
  return { ...shown.current, error };
}
