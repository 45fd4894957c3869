import type { Candidate, Inference } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import { langOf, standing } from "../logic/labels";
import { fixed } from "../logic/numbers";

const SHOWN = 3;

/** The likeliest next words of the last step, and a way to let the lane go on from another one. */
export function Candidates({ run }: { run: Inference }) {
  const { view, set, t, source, isOffline } = useExplorer();
  const step = run.steps[view.step - 1];
  if (!step) return null;
  const choose = ({ id }: Candidate) => {
    // What was read so far stays, so that the chosen word is all that differs.
    const before = run.columns.slice(1, view.step).map((token) => token.id);
    set({ inputs: "own", forced: [...before, id], step: view.step + 1, row: view.step });
  };
  return (
    <div class="candidates">
      <p>
        {t.lanes.top}:{" "}
        {step.candidates.slice(0, SHOWN).map((candidate, i) => (
          <span key={candidate.id}>
            {i > 0 && " · "}
            <b lang={langOf(candidate.text)}>{standing(candidate.text)}</b>{" "}
            {fixed(candidate.prob, 2)}
          </span>
        ))}
        {step.is_end && <span class="end"> · {t.lanes.ended}</span>}
        {view.inputs === "own" && step.next && (
          <span class="taken" data-forced={step.is_forced}>
            {" "}
            → <b lang={langOf(step.chosen.text)}>{standing(step.chosen.text)}</b>
            {step.is_forced && ` (${t.lanes.chosen})`}
          </span>
        )}
      </p>
      {source.isLive && (
        <details class="choose" key={view.step}>
          <summary>{t.lanes.choose}</summary>
          {step.candidates.map((candidate) => (
            <button
              key={candidate.id}
              type="button"
              disabled={isOffline}
              aria-pressed={view.inputs === "own" && candidate.id === step.chosen.id}
              onClick={() => choose(candidate)}
            >
              <b lang={langOf(candidate.text)}>{standing(candidate.text)}</b>{" "}
              {fixed(candidate.prob, 2)}
            </button>
          ))}
          {view.forced.length > 0 && (
            <button type="button" class="undo" onClick={() => set({ forced: [] })}>
              {t.lanes.unchoose}
            </button>
          )}
        </details>
      )}
    </div>
  );
}
