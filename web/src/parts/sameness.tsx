import { useExplorer } from "../explorer/explorer";
import { scientific } from "../logic/numbers";
import { agreement } from "../logic/sameness";
import type { View } from "../logic/view";

/** The measured answer: are the rows of the two lanes the same rows? */
export function SamenessBar() {
  const { trace, view, set, t, card, check } = useExplorer();
  const found = trace && agreement(trace, view.step);
  const inputs = (name: View["inputs"], words: string) => (
    <label>
      <input
        type="radio"
        name="inputs"
        checked={view.inputs === name}
        onChange={() => set({ inputs: name })}
      />
      {words}
    </label>
  );
  return (
    <section class="sameness card" aria-labelledby="same-heading">
      <h2 id="same-heading">{t.sameness.heading}</h2>
      <div
        class="answer"
        data-same={found ? found.isSame : undefined}
        data-largest={found?.largest}
      >
        {found && verdict(found)}
        {trace && view.inputs === "own" && exposure()}
      </div>
      {card.can.inference && (
        <fieldset class="choice">
          <legend>{t.sameness.inputs}</legend>
          {inputs("same", t.sameness.sameInputs)}
          {inputs("own", t.sameness.ownInputs)}
        </fieldset>
      )}
      {check && (
        <p class={`badge ${check.holds ? "good" : "wrong"}`} data-check={check.difference}>
          {check.holds
            ? `✓ ${t.sameness.checked(scientific(check.difference))}`
            : `✗ ${t.sameness.checkFailed(scientific(check.difference))}`}
        </p>
      )}
    </section>
  );

  function verdict(found: NonNullable<ReturnType<typeof agreement>>) {
    if (!found.rows) return <p>{t.sameness.none}</p>;
    if (found.isSame) {
      return (
        <p class="good">
          ✓ {t.sameness.same(found.rows, scientific(found.largest), scientific(found.tolerance))}
        </p>
      );
    }
    let why = t.sameness.bug;
    if (card.is_cheater) why = t.sameness.cheater;
    else if (!trace?.settings.is_masked) why = t.sameness.maskOff;
    return (
      <>
        <p class="wrong">
          ✗ {t.sameness.differ(scientific(found.largest), scientific(found.tolerance))}
        </p>
        <p>{why}</p>
      </>
    );
  }

  function exposure() {
    const parting = trace?.sameness?.first_difference ?? null;
    if (parting === null) return <p>{t.sameness.noExposure}</p>;
    return (
      <p class="exposure">
        ⚑ {t.sameness.exposure(parting + 1)}{" "}
        {trace?.inference?.text && <q>{trace.inference.text}</q>}
      </p>
    );
  }
}
