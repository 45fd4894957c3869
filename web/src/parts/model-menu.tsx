import { useState } from "preact/hooks";
import type { ModelState } from "../data/answers";
import { useExplorer } from "../explorer/explorer";
import { asRefusal } from "../explorer/use-trace";

/** The models at hand, and those that can be opened: choosing one of these reads it first. */
export function ModelMenu() {
  const { source, card, state, setState, set, fail, t } = useExplorer();
  const [waitsFor, setWaitsFor] = useState<string | null>(null);
  const [words, setWords] = useState("");

  const show = (key: string, { models, first }: ModelState) => {
    const chosen = models.find((model) => model.key === key);
    const example = first[key];
    const isOther = chosen?.family !== card.family && example;
    set({
      model: key,
      // A cheater is first seen as it was trained: without the mask.
      isMasked: chosen?.mask !== "none",
      // A sentence goes along to another model of the same kind.
      ...(isOther
        ? {
            source: example.source ?? "",
            target: example.target ?? "",
            author: example.target === null ? "model" : "typed",
            cover: [],
          }
        : {}),
    });
  };
  const choose = async (key: string) => {
    setWords("");
    if (!state.known.includes(key)) return show(key, state);
    setWaitsFor(key);
    try {
      const found = await source.open(key);
      setState(found);
      show(key, found);
    } catch (problem) {
      const refusal = asRefusal(problem);
      fail(refusal);
      setWords(refusal.message);
    } finally {
      setWaitsFor(null);
    }
  };
  return (
    <label class="model">
      <span class="hidden-text">{t.bar.model}</span>
      <select
        value={waitsFor ?? card.key}
        aria-busy={waitsFor !== null}
        disabled={waitsFor !== null}
        onChange={(event) => void choose(event.currentTarget.value)}
      >
        {state.models.map(({ key, name, is_cheater }) => (
          <option key={key} value={key}>
            {is_cheater ? `${name} (${t.bar.cheater})` : name}
          </option>
        ))}
        {state.known.length > 0 && (
          <optgroup label={t.bar.others}>
            {state.known.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </optgroup>
        )}
      </select>
      {words && (
        <span class="notice wrong" role="alert" data-notice="open">
          {words}
        </span>
      )}
    </label>
  );
}
