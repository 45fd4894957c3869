import type { Skill } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import { fixed } from "../logic/numbers";

/** Which attention is looked at, and the two switches that run the sentence again. */
export function Switches() {
  const { card, view, set, t, trace, isOffline } = useExplorer();
  const toggle = (name: string, isOn: boolean, change: () => void, needs: Skill) => {
    const reason = card.can[needs] ? undefined : card.why_not[needs];
    return (
      <label title={reason}>
        <input
          type="checkbox"
          checked={isOn}
          disabled={reason !== undefined || isOffline}
          onChange={change}
        />{" "}
        {name}
        {reason && <span class="note"> {reason}</span>}
      </label>
    );
  };
  return (
    <section class="switches card" aria-labelledby="switches-heading">
      <h2 id="switches-heading">{t.switches.heading}</h2>
      <fieldset class="choice">
        <legend class="hidden-text">{t.switches.heading}</legend>
        {card.kinds.map(({ kind, is_masked }) => (
          <label key={kind}>
            <input
              type="radio"
              name="kind"
              checked={view.kind === kind}
              onChange={() => set({ kind })}
            />
            {t.switches.kinds[kind]}{" "}
            <small>({is_masked ? t.switches.masked : t.switches.unmasked})</small>
          </label>
        ))}
      </fieldset>
      {toggle(t.switches.mask, view.isMasked, () => set({ isMasked: !view.isMasked }), "mask_off")}
      {toggle(
        t.switches.cache,
        view.isCached,
        () => set({ isCached: !view.isCached }),
        "inference",
      )}
      {trace && !trace.settings.is_masked && (
        <p class="note" data-unmasked-loss={trace.training.loss ?? undefined}>
          {card.is_cheater
            ? t.switches.cheaterLoss(fixed(trace.training.loss ?? Number.NaN, 2))
            : t.switches.maskOff(fixed(trace.training.loss ?? Number.NaN, 2))}
        </p>
      )}
    </section>
  );
}
