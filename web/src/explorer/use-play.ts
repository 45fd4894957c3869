import { useEffect } from "preact/hooks";
import { useExplorer } from "./explorer";

const STEP_MS = { 1: 1600, 2: 900, 3: 350 } as const;

/** While playing, takes one step of the right lane after another, and stops at the last. */
export function usePlay(): void {
  const { view, bounds, act, set } = useExplorer();
  useEffect(() => {
    if (!view.isPlaying) return;
    if (view.step >= bounds.steps) {
      // Play at the end means play again.
      set(bounds.steps ? { step: 0, row: 0 } : { isPlaying: false });
      return;
    }
    const timer = window.setTimeout(() => act({ do: "step", by: 1 }), STEP_MS[view.speed]);
    return () => window.clearTimeout(timer);
  }, [view.isPlaying, view.step, view.speed, bounds.steps]);
}
