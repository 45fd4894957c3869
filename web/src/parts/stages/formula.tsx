import type { ComponentChildren } from "preact";
import { useExplorer } from "../../explorer/explorer";
import { fixed } from "../../logic/numbers";
import { useCell } from "./use-cell";

const Sub = ({ of, at }: { of: string; at: string }) => (
  <msub>
    <mi>{of}</mi>
    <mi>{at}</mi>
  </msub>
);

function Maths({ children }: { children: ComponentChildren }) {
  return (
    <p class="formula">
      <math lang="en">
        <mrow>{children}</mrow>
      </math>
    </p>
  );
}

/** The stage's formula, with the numbers of the cell that is looked at. */
export function Formula() {
  const { view, head, trace } = useExplorer();
  const cell = useCell();
  if (!head || !cell || head.scale === 0) return null;
  const width = head.training.q.cols;
  const [r, c] = [String(cell.row + 1), String(cell.col + 1)];
  const isRoot = Math.abs(head.scale * Math.sqrt(width) - 1) < 1e-6;
  const scaled = isRoot ? (
    <mfrac>
      <mrow>
        <Sub of="q" at={r} />
        <mo>·</mo>
        <Sub of="k" at={c} />
      </mrow>
      <mrow>
        {/* Not msqrt: where a font has no radical to stretch, browsers draw none at all. */}
        <mo>√</mo>
        <mn>{width}</mn>
      </mrow>
    </mfrac>
  ) : (
    <>
      <mn>{fixed(head.scale, 4)}</mn>
      <mo>·</mo>
      <Sub of="q" at={r} />
      <mo>·</mo>
      <Sub of="k" at={c} />
    </>
  );
  switch (view.stage) {
    case 1:
      return (
        <Maths>
          <mtext>{r}</mtext>
          <mo>→</mo>
          <mtext>{c}</mtext>
          <mo>:</mo>
          <mn>{c}</mn>
          <mo>{cell.col <= cell.row ? "≤" : ">"}</mo>
          <mn>{r}</mn>
          <mo>⇒</mo>
          <mtext>{cell.state === "seen" ? "✓" : "✗"}</mtext>
        </Maths>
      );
    case 2:
      return (
        <Maths>
          {scaled}
          {cell.bias !== null && <mo>+ {fixed(cell.bias)}</mo>}
          <mo>=</mo>
          <mn>{fixed(cell.score)}</mn>
          <mo>+</mo>
          <mn>{cell.state === "seen" ? "0" : "(−∞)"}</mn>
          <mo>=</mo>
          <mn>{fixed(cell.masked)}</mn>
        </Maths>
      );
    case 3:
      return (
        <Maths>
          <mfrac>
            <msup>
              <mi>e</mi>
              <mn>{fixed(cell.masked)}</mn>
            </msup>
            <mrow>
              <mo>Σ</mo>
              <msup>
                <mi>e</mi>
                <mi>x</mi>
              </msup>
            </mrow>
          </mfrac>
          <mo>=</mo>
          <mfrac>
            <mn>{fixed(cell.exp)}</mn>
            <mn>{fixed(cell.rowSum)}</mn>
          </mfrac>
          <mo>=</mo>
          <mn>{fixed(cell.weight)}</mn>
        </Maths>
      );
    case 4:
      return (
        <Maths>
          <Sub of="out" at={r} />
          <mo>=</mo>
          <mo>Σ</mo>
          <Sub of="w" at={`${r},j`} />
          <Sub of="v" at="j" />
          <mo>,</mo>
          <mspace width="0.6em" />
          <Sub of="w" at={`${r},${c}`} />
          <mo>=</mo>
          <mn>{fixed(cell.weight)}</mn>
        </Maths>
      );
    case 5: {
      const row = trace?.training.rows[cell.row];
      if (!row?.is_counted) return null;
      return (
        <Maths>
          <mtext>loss</mtext>
          <mo>=</mo>
          <mo>−</mo>
          <mtext>log</mtext>
          <mn>{fixed(row.prob)}</mn>
          <mo>=</mo>
          <mn>{fixed(row.loss)}</mn>
        </Maths>
      );
    }
  }
}
