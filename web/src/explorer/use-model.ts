import { useEffect, useState } from "preact/hooks";
import { type ModelState, Refusal } from "../data/answers";
import type { Source } from "../data/source";
import { fontFor } from "./fonts";

const ASK_AGAIN_MS = 400;

/** What the server says about its models; asked again while it loads and after it was gone. */
export function useModel(
  source: Source,
  isOffline: boolean,
  onBack: () => void,
): [state: ModelState | null, setState: (state: ModelState) => void] {
  const [state, setState] = useState<ModelState | null>(null);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const ask = async () => {
      let found: ModelState | null = null;
      try {
        found = await source.model();
        await fontFor(JSON.stringify(found.examples));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
      if (isOver) return;
      if (found) {
        setState(found);
        if (found.state === "ready") onBack();
      }
      if (found?.state !== "ready" && found?.state !== "failed")
        timer = window.setTimeout(ask, ASK_AGAIN_MS);
    };
    if (!state || state.state === "loading" || isOffline) void ask();
    return () => {
      isOver = true;
      window.clearTimeout(timer);
    };
  }, [source, isOffline]);
  return [state, setState];
}
