import { useExplorer } from "../explorer/explorer";
import { bytes, fixed } from "../logic/numbers";
import type { LaneName } from "../logic/view";
import { Candidates } from "./choose";
import { GridView } from "./grid/grid";
import { Outline } from "./states";
import { Strip } from "./strip";
import { MatrixTable } from "./table";

/** Two lanes on one grid: training takes all rows at once, inference one row per step. */
export function Lanes() {
  const { view, set, t, training, tracing, head, trace } = useExplorer();
  const lanes: LaneName[] = ["training", "inference"];
  return (
    <section id="grids" class={`lanes show-${view.lane}`} aria-busy={tracing.wait !== "none"}>
      <fieldset class="lane-toggle choice">
        <legend class="hidden-text">{t.lanes.show}</legend>
        {lanes.map((lane) => (
          <label key={lane}>
            <input
              type="radio"
              name="lane"
              checked={view.lane === lane}
              onChange={() => set({ lane })}
            />
            {t.lanes[lane]}
          </label>
        ))}
      </fieldset>
      {tracing.wait !== "none" && (
        <div class="progress" role="progressbar" aria-label={t.states.computing} />
      )}
      {training && head && trace ? (
        <>
          <TrainingLane />
          <InferenceLane />
        </>
      ) : (
        <Outline />
      )}
      <div class="lane-options">
        <label>
          <input
            type="checkbox"
            checked={view.isTable}
            onChange={() => set({ isTable: !view.isTable })}
          />{" "}
          {t.lanes.asTable}
        </label>
        <label>
          <input
            type="checkbox"
            checked={view.isGrouped}
            onChange={() => set({ isGrouped: !view.isGrouped })}
          />{" "}
          {t.lanes.byWord}
        </label>
        {view.isGrouped && view.stage >= 3 && <span class="note">{t.lanes.groupNote}</span>}
        <ul class="legend" aria-hidden="true">
          <li>
            <span class="swatch causal" /> {t.lanes.legend.hidden}
          </li>
          <li>
            <span class="swatch absent" /> {t.lanes.legend.absent}
          </li>
          <li>▣ {t.lanes.legend.cached}</li>
        </ul>
      </div>
    </section>
  );
}

function TrainingLane() {
  const { view, set, t, training, trace, head, check, hover } = useExplorer();
  if (!training || !trace || !head) return null;
  const { rows, loss, passes, scores, ms } = trace.training;
  const row = rows[hover?.row ?? view.row];
  const isDecoder = head.kind !== "encoder_self";
  const bad = trace.problems
    .filter((p) => p.kind === head.kind && p.layer === head.layer && p.head === head.head)
    .map((p) => p.row);
  const text =
    head.kind === "decoder_self" ? trace.target.text : (trace.source ?? trace.target).text;
  return (
    <article class="lane training card">
      <header>
        <h2>{t.lanes.training}</h2>
        <p>{t.lanes.onePass(training.rows.length)}</p>
        <button
          type="button"
          class="run"
          onClick={() => set({ hasRun: true })}
          aria-pressed={view.hasRun}
        >
          {t.lanes.run}
        </button>
        {view.hasRun && (
          <button type="button" onClick={() => set({ hasRun: false })}>
            {t.lanes.restart}
          </button>
        )}
      </header>
      {view.isTable ? (
        <MatrixTable grid={training} />
      ) : (
        <GridView
          grid={training}
          badRows={[...bad, ...(check?.badRows ?? [])]}
          otherRow={null}
          strip={<Strip tokens={head.columns} text={text} isNumbered />}
        />
      )}
      <footer>
        <p>{t.lanes.workTraining(passes, scores, fixed(ms, 1))}</p>
        {isDecoder && row?.is_counted && (
          <p>{t.lanes.lossRow(fixed(row.loss, 2), fixed(loss ?? Number.NaN, 2))}</p>
        )}
      </footer>
    </article>
  );
}

function InferenceLane() {
  const { view, act, set, t, inference, trace, head, card, bounds } = useExplorer();
  if (!trace || !head) return null;
  const run = trace.inference;
  if (!inference || !run) {
    const why =
      card.family === "encoder-only" ? t.lanes.encoderOnly : t.lanes.noInference[head.kind];
    return (
      <article class="lane inference card">
        <header>
          <h2>{t.lanes.inference}</h2>
        </header>
        <p class="reason">{why || card.why_not.inference}</p>
      </article>
    );
  }
  const step = run.steps[view.step - 1];
  const isSelf = head.kind === "decoder_self";
  return (
    <article class="lane inference card">
      <header>
        <h2>{t.lanes.inference}</h2>
        <p data-step={view.step}>{t.lanes.step(view.step, bounds.steps)}</p>
        <button type="button" onClick={() => set({ step: 0, row: 0 })} disabled={!view.step}>
          {t.lanes.restart}
        </button>
        <button
          type="button"
          aria-label={t.lanes.back}
          disabled={!view.step}
          onClick={() => act({ do: "step", by: -1 })}
        >
          ◀
        </button>
        <button
          type="button"
          class="forward"
          aria-label={t.lanes.forward}
          disabled={view.step >= bounds.steps}
          onClick={() => act({ do: "step", by: 1 })}
        >
          ▶
        </button>
      </header>
      {view.isTable ? (
        <MatrixTable grid={inference} />
      ) : (
        <GridView
          grid={inference}
          badRows={[]}
          otherRow={trace.sameness?.first_difference ?? null}
          strip={
            <Strip
              tokens={isSelf ? run.columns.slice(0, view.step + 1) : head.columns}
              text={(isSelf ? run.text : trace.source?.text) ?? trace.target.text}
              isNumbered
            />
          }
        />
      )}
      <footer>
        {step && isSelf && (
          <p class="cache">
            {t.lanes.cache}{" "}
            {view.isCached ? (
              <>
                <span class="slots" aria-hidden="true">
                  {"▣".repeat(Math.min(step.reused, 40))}
                  {"▢".repeat(Math.min(step.cache_length - step.reused, 40))}
                </span>{" "}
                {t.lanes.cacheText(
                  step.reused,
                  step.cache_length - step.reused,
                  bytes(step.cache_bytes),
                )}
              </>
            ) : (
              t.lanes.noCache(view.step)
            )}
          </p>
        )}
        <Candidates run={run} />
        <p>
          {t.lanes.workInference(
            run.passes,
            run.scores_cached,
            run.scores_uncached,
            fixed(run.ms, 1),
          )}
        </p>
      </footer>
    </article>
  );
}
