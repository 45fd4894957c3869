import { useEffect, useRef, useState } from "preact/hooks";
import type { Matrix } from "../../data/matrix";
import { useExplorer } from "../../explorer/explorer";
import { scoreRamp } from "../../logic/colours";

const DOT = 6;

function Heat({ matrix, name }: { matrix: Matrix; name: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    const paint = scoreRamp(...matrix.extent());
    for (let r = 0; r < matrix.rows; r++) {
      for (let c = 0; c < matrix.cols; c++) {
        pen.fillStyle = paint(matrix.at(r, c)).ground;
        pen.fillRect(c * DOT, r * DOT, DOT, DOT);
      }
    }
  }, [matrix]);
  return (
    <figure>
      <canvas
        ref={canvas}
        width={matrix.cols * DOT}
        height={matrix.rows * DOT}
        aria-hidden="true"
      />
      <figcaption>
        {name} ({matrix.rows} × {matrix.cols})
      </figcaption>
    </figure>
  );
}

/** The projections behind the scores, for those who want them. */
export function Fold() {
  const { head, t } = useExplorer();
  const [isOpen, setOpen] = useState(false);
  if (!head) return null;
  return (
    <details class="fold" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t.stages.fold}</summary>
      <p>{t.stages.foldText}</p>
      {isOpen && (
        <div class="heats">
          <Heat matrix={head.training.q} name="q" />
          <Heat matrix={head.training.k} name="k" />
          <Heat matrix={head.training.v} name="v" />
        </div>
      )}
    </details>
  );
}
