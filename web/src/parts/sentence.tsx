import type { Tokens } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import { useTokens } from "../explorer/use-tokens";
import { langOf } from "../logic/labels";
import type { View } from "../logic/view";
import { Strip } from "./strip";

/** The text boxes, the tokens under them as they are typed, and who writes the target. */
export function Sentence() {
  const { card, view, set, t, trace, state, source, tracing } = useExplorer();
  const isTranslator = card.family === "encoder-decoder";
  const isWritten = view.author === "model";
  const target = isTranslator && isWritten ? (trace?.target.text ?? "") : view.target;
  const sourceTokens = useTokens("source", isTranslator ? view.source : "");
  const targetTokens = useTokens("target", target);
  const onEnter = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (tracing.error) tracing.retry();
    else tracing.now();
  };
  const box = (
    side: "source" | "target",
    value: string,
    tokens: Tokens | null,
    isFixed: boolean,
  ) => {
    const lang = side === "source" ? card.source_lang : card.target_lang;
    const name = isTranslator
      ? (t.sentence.languages[lang ?? ""] ?? t.sentence[side])
      : t.sentence.text;
    return (
      <div class="box">
        <label for={`text-${side}`}>{name}</label>
        <input
          id={`text-${side}`}
          data-sentence={side}
          value={value}
          lang={langOf(value)}
          dir="auto"
          maxLength={card.limits.characters}
          readOnly={isFixed || !source.isLive}
          placeholder={t.states.empty}
          spellcheck={false}
          autocomplete="off"
          onKeyDown={onEnter}
          onInput={(event) =>
            set({ [side]: event.currentTarget.value, long: "refuse", cover: [] } as Partial<View>)
          }
        />
        <Counter tokens={tokens} />
        <div class="under">
          {tokens && (
            <Strip tokens={tokens.tokens} text={tokens.text} isCovering={side === "target"} />
          )}
          {tokens && <StrangeLetters tokens={tokens} />}
        </div>
      </div>
    );
  };
  return (
    <section class="sentence card" aria-labelledby="sentence-heading">
      <h2 id="sentence-heading" class="hidden-text">
        {t.sentence.heading}
      </h2>
      {isTranslator && box("source", view.source, sourceTokens, false)}
      {box("target", target, targetTokens, isTranslator && isWritten)}
      <div class="sentence-row">
        {card.family !== "encoder-only" && (
          <fieldset class="choice" disabled={!source.isLive}>
            <legend class="hidden-text">{t.sentence.who}</legend>
            {(["typed", "model"] as const).map((author) => (
              <label key={author}>
                <input
                  type="radio"
                  name="author"
                  checked={view.author === author}
                  onChange={() =>
                    set({ author, ...(author === "typed" && !view.target ? { target } : {}) })
                  }
                />
                {authorName(author, isTranslator)}
              </label>
            ))}
          </fieldset>
        )}
        <label class="examples">
          {t.sentence.examples}{" "}
          <select
            value=""
            disabled={!source.isLive}
            onChange={(event) => {
              const example = state.examples[Number(event.currentTarget.value)];
              event.currentTarget.value = "";
              if (!example) return;
              const author = example.target === null && isTranslator ? "model" : "typed";
              set({
                source: example.source ?? "",
                target: example.target ?? "",
                author,
                cover: [],
                long: "refuse",
              });
            }}
          >
            <option value="">…</option>
            {state.examples.map((example, i) => (
              <option key={`${example.source} ${example.target}`} value={i}>
                {example.source ?? example.target}
              </option>
            ))}
          </select>
        </label>
        {!source.isLive && <p class="note">{t.states.file(state.command)}</p>}
        {!card.has_tokenizer && <p class="note">{t.sentence.ids}</p>}
        {card.can.cover && <p class="note">{t.sentence.cover}</p>}
      </div>
    </section>
  );

  function authorName(author: View["author"], translates: boolean): string {
    if (author === "typed") return translates ? t.sentence.typed : t.sentence.typedText;
    return translates ? t.sentence.written : t.sentence.writtenText;
  }
}

function Counter({ tokens }: { tokens: Tokens | null }) {
  const { t, card } = useExplorer();
  const n = tokens?.n ?? 0;
  const limit = tokens?.limit ?? card.limits.tokens;
  return <span class={`counter ${n > limit ? "over" : ""}`}>{t.sentence.counter(n, limit)}</span>;
}

function StrangeLetters({ tokens }: { tokens: Tokens }) {
  const { t } = useExplorer();
  if (!tokens.strange.length) return null;
  return (
    <ul class="strange">
      {tokens.strange.map((letter) => (
        <li key={letter.start}>
          {letter.is_lost
            ? t.sentence.lost(letter.text)
            : t.sentence.strange(letter.text, letter.n_bytes)}
        </li>
      ))}
    </ul>
  );
}
