import { useEffect, useState } from "preact/hooks";
import type { Refusal } from "../data/answers";
import { useExplorer } from "./explorer";
import { asRefusal } from "./use-trace";

/** The answer to a question asked when a panel opens, or why there is none. */
export function useAnswer<T>(
  ask: () => Promise<T>,
  key: string,
): { answer: T | null; error: Refusal | null } {
  const { fail } = useExplorer();
  const [answer, setAnswer] = useState<T | null>(null);
  const [error, setError] = useState<Refusal | null>(null);
  useEffect(() => {
    let isOver = false;
    setAnswer(null);
    setError(null);
    ask().then(
      (found) => {
        if (!isOver) setAnswer(found);
      },
      (problem: unknown) => {
        if (isOver) return;
        const refusal = asRefusal(problem);
        setError(refusal);
        fail(refusal);
      },
    );
    return () => {
      isOver = true;
    };
  }, [key]);
  return { answer, error };
}
