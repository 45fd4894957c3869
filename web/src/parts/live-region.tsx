import { useEffect, useRef, useState } from "preact/hooks";
import { useExplorer } from "../explorer/explorer";
import { label } from "../logic/labels";
import { fixed } from "../logic/numbers";

/** Says each step and each stage in one sentence to those who do not see the grids change. */
export function LiveRegion() {
  const { view, trace, t } = useExplorer();
  const [words, setWords] = useState("");
  const isFirst = useRef(true);

  useEffect(() => {
    if (isFirst.current) return;
    const step = trace?.inference?.steps[view.step - 1];
    const reads = trace?.inference?.columns[view.step - 1];
    if (step && reads) {
      setWords(t.live.step(view.step, label(reads), step.chosen.text, fixed(step.chosen.prob, 2)));
    }
  }, [view.step]);
  useEffect(() => {
    if (!isFirst.current) setWords(t.live.stage(view.stage, t.stages.names[view.stage - 1] ?? ""));
    isFirst.current = false;
  }, [view.stage]);

  return (
    <div class="hidden-text" aria-live="polite" data-live>
      {words}
    </div>
  );
}
