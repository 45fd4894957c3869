import { useEffect, useRef } from "preact/hooks";
import { useExplorer } from "../../explorer/explorer";
import { inkOf } from "../../figure/cells";

const SIZE = 84;

/** One mask as a small square map: dark may look, hatched may not. */
function Small({ mask, name }: { mask: boolean[][]; name: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { view } = useExplorer();
  useEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext("2d");
    if (!element || !pen) return;
    const ink = inkOf(element);
    const [h, w] = [SIZE / mask.length, SIZE / (mask[0]?.length ?? 1)];
    pen.clearRect(0, 0, SIZE, SIZE);
    mask.forEach((row, r) => {
      row.forEach((may, c) => {
        pen.fillStyle = may ? ink.seen : ink.ground;
        pen.fillRect(c * w, r * h, Math.max(1, w - 1), Math.max(1, h - 1));
        if (may) return;
        pen.strokeStyle = ink.faint;
        pen.beginPath();
        pen.moveTo(c * w, (r + 1) * h);
        pen.lineTo((c + 1) * w, r * h);
        pen.stroke();
      });
    });
  }, [mask, view.theme]);
  return (
    <figure>
      <canvas ref={canvas} width={SIZE} height={SIZE} aria-hidden="true" />
      <figcaption>{name}</figcaption>
    </figure>
  );
}

/** The causal and the padding mask apart, then joined: a cell is open only where both say so. */
export function MaskParts() {
  const { trace, head, t, view, set, source, isOffline } = useExplorer();
  const mask = head && trace?.masks[head.kind];
  if (!mask) return null;
  const isPadded = mask.padding.some((row) => row.includes(false));
  const hides = mask.causal?.some((row) => row.includes(false)) ?? false;
  return (
    <div class="mask-parts">
      {mask.causal ? <Small mask={mask.causal} name={t.stages.causal} /> : null}
      {!hides && <p class="note">{t.stages.noCausal}</p>}
      <span aria-hidden="true">&amp;</span>
      <Small
        mask={mask.padding}
        name={isPadded ? t.stages.padding : `${t.stages.padding}: ${t.stages.noPadding}`}
      />
      <span aria-hidden="true">=</span>
      <Small mask={mask.allowed} name={t.stages.both} />
      {head.kind === "decoder_self" && source.isLive && (
        <label class="note">
          {t.stages.addPadding}{" "}
          <select
            value={view.pad}
            disabled={isOffline}
            onChange={(event) => set({ pad: Number(event.currentTarget.value) })}
          >
            {[0, 1, 2, 3].map((n) => (
              <option key={n}>{n}</option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}
