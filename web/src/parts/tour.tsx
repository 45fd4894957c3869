import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useExplorer } from "../explorer/explorer";
import { recall, remember } from "../explorer/settings";
import { isDone, prepared, stands, TOUR_STEPS } from "../logic/tour";
import type { View } from "../logic/view";

/** Offered once, to a first visitor. */
export function TourOffer() {
  const { view, set, t } = useExplorer();
  const [isOffered, setOffered] = useState(() => !recall().isTourKnown);
  if (!isOffered || view.tour !== null) return null;
  const answer = (isWanted: boolean) => {
    remember({ isTourKnown: true });
    setOffered(false);
    if (isWanted) set({ tour: 0 });
  };
  return (
    <aside class="notice offer" data-notice="tour">
      {t.tour.offer}{" "}
      <button type="button" onClick={() => answer(true)}>
        {t.tour.start}
      </button>{" "}
      <button type="button" onClick={() => answer(false)}>
        {t.tour.later}
      </button>
    </aside>
  );
}

/** Eight short steps. Each asks for one deed; when it is done, the way on lights up. */
export function Tour() {
  const { view, set, t, state, card } = useExplorer();
  const before = useRef<View | null>(null); // the view as the step began, once it stands
  const [done, setDone] = useState(false);
  const step = view.tour;

  // Before the step shows: a key pressed at once must not be taken back by the preparations.
  useLayoutEffect(() => {
    if (step === null) return;
    remember({ tour: step, isTourKnown: true });
    setDone(false);
    before.current = null;
    set(prepared(step, view));
  }, [step]);
  useLayoutEffect(() => {
    if (step === null || done) return;
    if (before.current) setDone(isDone(step, before.current, view));
    else if (stands(step, view)) before.current = view;
  }, [view]);

  if (step === null) return null;
  const [title, words] = t.tour.steps[step] ?? ["", ""];
  const hasCheater = state.models.some(({ is_cheater }) => is_cheater);
  const isLast = step === TOUR_STEPS - 1;
  const leave = (at: number | null) => {
    remember({ tour: at });
    set({ tour: null });
  };
  return (
    <aside
      class={`tour ${done ? "done" : ""}`}
      aria-labelledby="tour-heading"
      data-tour={step + 1}
      data-done={done}
    >
      <p class="tour-place">
        {t.tour.heading} · {t.tour.of(step + 1, TOUR_STEPS)}
      </p>
      <h2 id="tour-heading">
        {done ? "✓ " : ""}
        {title}
      </h2>
      <p>{isLast && hasCheater && !card.is_cheater ? t.tour.cheater : words}</p>
      {isLast && done && <p>{t.tour.finished}</p>}
      <div class="tour-walk">
        <button type="button" onClick={() => leave(step)}>
          {t.tour.skip}
        </button>
        <button type="button" disabled={step === 0} onClick={() => set({ tour: step - 1 })}>
          {t.tour.back}
        </button>
        <button
          type="button"
          class="forward"
          onClick={() => (isLast ? leave(null) : set({ tour: step + 1 }))}
        >
          {isLast ? t.tour.done : t.tour.next}
        </button>
      </div>
    </aside>
  );
}
