import type { ComponentChildren } from "preact";
import type { Candidate } from "../../data/types";
import { useExplorer } from "../../explorer/explorer";
import { label, langOf, standing } from "../../logic/labels";
import { fixed } from "../../logic/numbers";

const MOST = 64;

/** Training: at every row the right next token, its probability and loss. Inference: the choices. */
export function Outcome() {
  const { trace, view, hover, act, t } = useExplorer();
  if (!trace) return null;
  const current = hover?.row ?? view.row;
  const step = trace.inference?.steps[view.step - 1];
  const counted = trace.training.rows.filter((row) => row.is_counted);
  const guessed = counted.find((row) => row.row === current) ?? counted[0];
  return (
    <div class="outcome">
      <table class="losses">
        <thead>
          <tr>
            <th scope="col">{t.lanes.row}</th>
            <th scope="col">{t.stages.target}</th>
            <th scope="col">{t.stages.probability}</th>
            <th scope="col">{t.stages.loss}</th>
          </tr>
        </thead>
        <tbody>
          {trace.training.rows.slice(0, MOST).map((row) => {
            const name = label(trace.wanted[row.row]!);
            return (
              <tr key={row.row} class={row.row === current ? "current" : ""} data-loss={row.loss}>
                <td>{row.row + 1}</td>
                <td lang={langOf(name)}>{name}</td>
                {row.is_counted ? (
                  <>
                    <td>
                      <span class="share" style={{ width: `${Math.round(row.prob * 60)}px` }} />{" "}
                      {fixed(row.prob)}
                    </td>
                    <td>{fixed(row.loss)}</td>
                  </>
                ) : (
                  <td colSpan={2}>{t.stages.notCounted}</td>
                )}
              </tr>
            );
          })}
        </tbody>
        <tfoot>
          <tr>
            <td colSpan={4}>
              {trace.training.loss !== null && t.stages.meanLoss(fixed(trace.training.loss))}
            </td>
          </tr>
        </tfoot>
      </table>
      {step ? (
        <Choices candidates={step.candidates}>
          {t.lanes.step(view.step, trace.inference?.steps.length ?? 0)} · {t.stages.chosen}:{" "}
          <b lang={langOf(step.chosen.text)}>{standing(step.chosen.text)}</b>
          {step.next && (
            <button type="button" onClick={() => act({ do: "step", by: 1 })}>
              {label(step.next)} → {t.lanes.row} {view.step + 1}
            </button>
          )}
        </Choices>
      ) : (
        guessed && (
          <Choices candidates={guessed.candidates}>
            {t.lanes.row} {guessed.row + 1}: {t.stages.candidates}
          </Choices>
        )
      )}
    </div>
  );
}

/** The likeliest tokens and their probabilities. */
function Choices({
  candidates,
  children,
}: {
  candidates: Candidate[];
  children: ComponentChildren;
}) {
  const { t } = useExplorer();
  return (
    <div class="choices">
      <p>{children}</p>
      <ol aria-label={t.stages.candidates}>
        {candidates.map((candidate) => (
          <li key={candidate.id}>
            <span class="bar-name" lang={langOf(candidate.text)}>
              {standing(candidate.text)}
            </span>
            <span class="bar-track">
              <span class="bar-fill" style={{ width: `${100 * candidate.prob}%` }} />
            </span>
            <span class="bar-number">{fixed(candidate.prob)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
