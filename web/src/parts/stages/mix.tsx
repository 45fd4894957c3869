import { sumOfRows } from "../../data/matrix";
import { useExplorer } from "../../explorer/explorer";
import { label } from "../../logic/labels";
import { fixed } from "../../logic/numbers";
import { Strip } from "../strip";
import { useCell } from "./use-cell";

const HEIGHT = 96;
const HUES = [
  "#0072B2",
  "#D55E00",
  "#009E73",
  "#E69F00",
  "#56B4E9",
  "#CC79A7",
  "#F0E442",
  "#888888",
];

/** A row's weights painted onto the words, and its output as stacked shares of value vectors. */
export function Mix() {
  const { head, trace, view, hover, t, heads } = useExplorer();
  const cell = useCell();
  if (!head || !trace) return null;
  const row = Math.min(hover?.row ?? view.row, head.rows.length - 1);
  const lane = head.training;
  const weights = view.rows.length > 1 ? sumOfRows(lane.weights, view.rows) : lane.weights.row(row);
  const text =
    head.kind === "decoder_self" ? trace.target.text : (trace.source ?? trace.target).text;
  return (
    <div class="mix">
      <Strip tokens={head.columns} text={text} weights={weights} isNumbered />
      {view.rows.length > 1 && <p class="note">{t.lanes.chosenRows(view.rows.length)}</p>}
      {cell && heads.length === 1 && (
        <figure>
          <svg
            preserveAspectRatio="none"
            viewBox={`0 0 ${lane.v.cols * 10} ${HEIGHT}`}
            class="stack"
            role="img"
            aria-label={t.stages.mix}
          >
            <Stack row={row} />
            <line x1="0" x2={lane.v.cols * 10} y1={HEIGHT / 2} y2={HEIGHT / 2} class="axis" />
          </svg>
          <figcaption>{t.stages.mix}</figcaption>
        </figure>
      )}
    </div>
  );
}

/** For each number of the output: what each column adds to it, above or below zero. */
function Stack({ row }: { row: number }) {
  const { head } = useExplorer();
  if (!head) return null;
  const { v, weights } = head.training;
  const columns = [...weights.row(row).keys()]
    .filter((c) => weights.at(row, c) > 0)
    .sort((a, b) => weights.at(row, b) - weights.at(row, a))
    .slice(0, HUES.length);
  const part = (c: number, d: number) => weights.at(row, c) * v.at(c, d);
  let reach = 1e-9;
  for (let d = 0; d < v.cols; d++) {
    const parts = columns.map((c) => part(c, d));
    reach = Math.max(
      reach,
      parts.reduce((s, x) => s + Math.max(0, x), 0),
      -parts.reduce((s, x) => s + Math.min(0, x), 0),
    );
  }
  const scale = HEIGHT / 2 / reach;
  const up = new Float64Array(v.cols);
  const down = new Float64Array(v.cols);
  // One path for all bars of a column: hundreds of elements would be made anew at every step.
  return (
    <>
      {columns.map((c, i) => {
        let bars = "";
        for (let d = 0; d < v.cols; d++) {
          const x = part(c, d);
          const size = Math.abs(x) * scale;
          const y = x >= 0 ? HEIGHT / 2 - up[d]! - size : HEIGHT / 2 + down[d]!;
          (x >= 0 ? up : down)[d]! += size;
          bars += `M${d * 10 + 1} ${y.toFixed(2)}h8v${size.toFixed(2)}h-8z`;
        }
        return (
          <path key={i} d={bars} fill={HUES[i]}>
            <title>{`${label(head.columns[c]!)}: ${fixed(weights.at(row, c))}`}</title>
          </path>
        );
      })}
    </>
  );
}
