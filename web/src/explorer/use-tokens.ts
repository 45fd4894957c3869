import { useEffect, useState } from "preact/hooks";
import { Refusal } from "../data/answers";
import type { Tokens } from "../data/types";
import { useExplorer } from "./explorer";

const SOON_MS = 80; // faster than the trace: tokens follow the typing

/** The tokens of a text as it is typed; those of the trace where the text is the trace's own. */
export function useTokens(side: "source" | "target", text: string): Tokens | null {
  const { source, card, trace, fail } = useExplorer();
  const [typed, setTyped] = useState<Tokens | null>(null);
  const traced = side === "source" ? trace?.source : trace?.target;
  const isTraced = traced?.text === text && trace?.cut === null;
  useEffect(() => {
    if (isTraced || !text.trim()) return;
    const control = new AbortController();
    const timer = window.setTimeout(async () => {
      try {
        setTyped(await source.tokens(card.key, side, text, control.signal));
      } catch (problem) {
        if (problem instanceof Refusal) fail(problem);
      }
    }, SOON_MS);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
  }, [source, card.key, side, text, isTraced]);
  if (!text.trim()) return null;
  return isTraced && traced ? traced : typed;
}
