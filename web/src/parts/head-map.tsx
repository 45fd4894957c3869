import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { readThumbnail } from "../data/head";
import type { HeadCard } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import type { Strings } from "../i18n/en";
import { weightRamp } from "../logic/colours";
import { fixed } from "../logic/numbers";
import type { Action, Place } from "../logic/view";

const paint = weightRamp();

function Thumbnail({ card }: { card: HeadCard }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { rows, columns, data } = card.thumbnail;
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    readThumbnail(data).forEach((weight, i) => {
      pen.fillStyle = paint(weight).ground;
      pen.fillRect(i % columns, Math.floor(i / columns), 1, 1);
    });
  }, [data]);
  return <canvas ref={canvas} width={columns} height={rows} aria-hidden="true" />;
}

type Order = "layer" | "pattern";

/** All heads of this attention as small pictures, with the pattern found in their numbers. */
export function HeadMap() {
  const { trace, view, act, t, headError, heads } = useExplorer();
  const [order, setOrder] = useState<Order>("layer");
  // Large models have hundreds of heads, and a step changes none of them.
  const thumbs = useMemo(() => {
    const cards = trace?.heads.filter(({ kind }) => kind === view.kind) ?? [];
    return <Thumbs cards={cards} picked={view.heads} order={order} act={act} t={t} />;
  }, [trace, view.kind, view.heads, order, act, t]);
  if (!trace) return <section class="head-map card" />;
  return (
    <section class="head-map card" aria-labelledby="heads-heading">
      <header>
        <h2 id="heads-heading">{t.heads.heading}</h2>
        {heads.length > 1 && <p>{t.heads.mean(heads.length)}</p>}
        <label>
          {t.heads.sort}{" "}
          <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
            <option value="layer">{t.heads.byLayer}</option>
            <option value="pattern">{t.heads.byPattern}</option>
          </select>
        </label>
      </header>
      {thumbs}
      <p class="note">{headError?.code === "file" ? t.heads.notKept : t.heads.hint}</p>
    </section>
  );
}

interface ThumbsProps {
  cards: HeadCard[];
  picked: Place[];
  order: Order;
  act: (action: Action) => void;
  t: Strings;
}

function Thumbs({ cards, picked, order, act, t }: ThumbsProps) {
  const sorted =
    order === "layer"
      ? cards
      : [...cards].sort((a, b) => a.tag.localeCompare(b.tag) || a.entropy - b.entropy);
  const nHeads = Math.max(1, ...cards.map(({ head }) => head + 1));
  return (
    <div class={`thumbs by-${order}`} style={{ "--heads": nHeads }}>
      {sorted.map((card) => {
        const isPicked = picked.some(
          ({ layer, head }) => layer === card.layer && head === card.head,
        );
        const name = `${t.heads.layer} ${card.layer + 1}, ${t.heads.head} ${card.head + 1}`;
        const entropy = t.heads.entropy(fixed(card.entropy, 1));
        return (
          <button
            key={`${card.layer} ${card.head}`}
            type="button"
            class="thumb"
            aria-pressed={isPicked}
            title={`${name} · ${entropy}`}
            onClick={(event) =>
              act({
                do: "pick",
                place: card,
                isAdded: event.ctrlKey || event.metaKey || event.shiftKey,
              })
            }
          >
            <Thumbnail card={card} />
            <span class="where" aria-hidden="true">
              {card.layer + 1}.{card.head + 1}
            </span>
            <span class="hidden-text">{name}: </span>
            <span class="tag">{t.heads.tags[card.tag]}</span>
            <span class="hidden-text">, {entropy}</span>
          </button>
        );
      })}
    </div>
  );
}
