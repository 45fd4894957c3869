import { useEffect, useRef, useState } from "preact/hooks";
import { readThumbnail } from "../data/head";
import type { HeadCard } from "../data/types";
import { useExplorer } from "../explorer/explorer";
import { weightRamp } from "../logic/colours";
import { fixed } from "../logic/numbers";

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

/** All heads of this attention as small pictures, with the pattern found in their numbers. */
export function HeadMap() {
  const { trace, view, act, t, headError, heads } = useExplorer();
  const [order, setOrder] = useState<"layer" | "pattern">("layer");
  if (!trace) return <section class="head-map card" />;
  const cards = trace.heads.filter(({ kind }) => kind === view.kind);
  const sorted =
    order === "layer"
      ? cards
      : [...cards].sort((a, b) => a.tag.localeCompare(b.tag) || a.entropy - b.entropy);
  const nHeads = Math.max(1, ...cards.map(({ head }) => head + 1));
  return (
    <section class="head-map card" aria-labelledby="heads-heading">
      <header>
        <h2 id="heads-heading">{t.heads.heading}</h2>
        {heads.length > 1 && <p>{t.heads.mean(heads.length)}</p>}
        <label>
          {t.heads.sort}{" "}
          <select
            value={order}
            onChange={(event) => setOrder(event.currentTarget.value as "layer" | "pattern")}
          >
            <option value="layer">{t.heads.byLayer}</option>
            <option value="pattern">{t.heads.byPattern}</option>
          </select>
        </label>
      </header>
      <div class={`thumbs by-${order}`} style={{ "--heads": nHeads }}>
        {sorted.map((card) => {
          const isPicked = view.heads.some(
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
      <p class="note">{headError?.code === "file" ? t.heads.notKept : t.heads.hint}</p>
    </section>
  );
}
