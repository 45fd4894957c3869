import type { Token } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import { weightRamp } from "../logic/colours";
import { label, langOf, words } from "../logic/labels";
import { fixed } from "../logic/numbers";

interface Props {
  tokens: Token[];
  text: string;
  isCovering?: boolean; // pressing a token hides it from an encoder-only model
  weights?: ArrayLike<number> | null; // paints what a row looks at onto the words
  isNumbered?: boolean;
}

const paint = weightRamp();

/** Tokens in a line, a bar over the pieces of each word. */
export function Strip({
  tokens,
  text,
  isCovering = false,
  weights = null,
  isNumbered = false,
}: Props) {
  const { card, view, set } = useExplorer();
  const canCover = isCovering && card.can.cover;
  const toggle = (i: number) =>
    set({ cover: view.cover.includes(i) ? view.cover.filter((c) => c !== i) : [...view.cover, i] });
  const piece = (i: number) => {
    const token = tokens[i]!;
    const weight = weights?.[i];
    const colour = weight === undefined || Number.isNaN(weight) ? null : paint(weight);
    const name = label(token);
    const classes = [
      "piece",
      token.role !== "text" && "special",
      token.byte !== null && "byte",
      token.is_unknown && "unknown",
      view.cover.includes(i) && canCover && "covered",
    ];
    const shared = {
      class: classes.filter(Boolean).join(" "),
      lang: langOf(name),
      title: colour ? fixed(weight!) : `${token.piece} · ${token.id}`,
      style: colour ? { background: colour.ground, color: colour.ink } : {},
    };
    const inside = (
      <>
        {isNumbered && <sup>{i + 1}</sup>}
        {name}
      </>
    );
    if (canCover && token.role !== "start" && token.role !== "end" && token.role !== "special") {
      return (
        <button
          key={i}
          type="button"
          aria-pressed={view.cover.includes(i)}
          onClick={() => toggle(i)}
          {...shared}
        >
          {inside}
        </button>
      );
    }
    return (
      <span key={i} {...shared}>
        {inside}
      </span>
    );
  };
  return (
    <div class="strip" dir="auto">
      {words(tokens, text).map(({ members }) => (
        <span key={members[0]} class={`word ${members.length > 1 ? "joined" : ""}`}>
          {members.map(piece)}
        </span>
      ))}
    </div>
  );
}
