import { useExplorer } from "../../explorer/explorer";
import { label, langOf } from "../../logic/labels";
import { fixed } from "../../logic/numbers";
import { Exp } from "./exp";
import { useCell } from "./use-cell";

const MOST = 48;

/** One row's softmax: a bar e^x for every column, the sum, and each share of it. */
export function SoftmaxBars() {
  const { head, t } = useExplorer();
  const cell = useCell();
  if (!head || !cell) return null;
  const masked = head.training.masked.row(cell.row);
  const weights = head.training.weights.row(cell.row);
  const open = [...masked.keys()].filter((c) => masked[c] !== Number.NEGATIVE_INFINITY);
  const shown = open.slice(0, MOST);
  const tallest = Math.max(...shown.map((c) => Math.exp(masked[c]!)));
  return (
    <div class="softmax">
      <ol class="bars" aria-label={t.lanes.row}>
        {shown.map((c) => {
          const name = label(head.columns[c]!);
          return (
            <li key={c} class={c === cell.col ? "current" : ""}>
              <span class="bar-name" lang={langOf(name)}>
                {name}
              </span>
              <span class="bar-track">
                <span
                  class="bar-fill"
                  style={{ width: `${(100 * Math.exp(masked[c]!)) / tallest}%` }}
                />
              </span>
              <span class="bar-number">
                <Exp of={fixed(masked[c]!, 2)} /> = {fixed(Math.exp(masked[c]!))}
              </span>
              <span class="bar-number">→ {fixed(weights[c]!)}</span>
            </li>
          );
        })}
      </ol>
      <p class="bar-sum">
        {t.stages.sum} {fixed(cell.rowSum)} → <b>{fixed(weights.reduce((a, b) => a + b, 0))}</b>
      </p>
    </div>
  );
}
