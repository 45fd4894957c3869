import type { Beam, BeamNode } from "../data/answers";
import { useExplorer } from "../explorer/explorer";
import { useAnswer } from "../explorer/use-answer";
import { textWidth } from "../figure/font";
import { langOf, standing } from "../logic/labels";
import { fixed } from "../logic/numbers";
import { Dialog } from "./dialog";

const COLUMN = 92;
const LINE = 34;

/** The tree of hypotheses: step by step to the right, the best path marked. */
export function BeamPanel() {
  const { source, card, view, t, state } = useExplorer();
  const text = card.family === "encoder-decoder" ? view.source : view.target;
  const { answer, error } = useAnswer(() => source.beam(card.key, text), `${card.key} ${text}`);
  return (
    <Dialog name={t.beam.heading}>
      <p>{t.beam.text}</p>
      {!answer && !error && <p role="status">{t.beam.running}</p>}
      {error && (
        <p role="alert">{error.code === "file" ? t.states.file(state.command) : error.message}</p>
      )}
      {answer && <Tree beam={answer} />}
      {answer && <Hypotheses beam={answer} />}
    </Dialog>
  );
}

/** Where each node is drawn: its step to the right, its rank within the step downwards. */
export function places(nodes: readonly BeamNode[]): Map<number, { x: number; y: number }> {
  const bySteps = new Map<number, BeamNode[]>();
  for (const node of nodes) bySteps.set(node.step, [...(bySteps.get(node.step) ?? []), node]);
  const found = new Map<number, { x: number; y: number }>();
  for (const [step, alike] of bySteps) {
    alike.sort((a, b) => Number(b.is_best) - Number(a.is_best) || b.score - a.score);
    alike.forEach((node, rank) => {
      found.set(node.id, { x: step * COLUMN + 8, y: rank * LINE + 20 });
    });
  }
  return found;
}

function written({ token, state }: BeamNode): string {
  return standing(token.text) + { open: "", ended: " ∎", dropped: " ✗" }[state];
}

function Tree({ beam }: { beam: Beam }) {
  const { t } = useExplorer();
  const at = places(beam.nodes);
  const all = [...at.values()];
  const width = Math.max(...all.map(({ x }) => x)) + COLUMN;
  const height = Math.max(...all.map(({ y }) => y)) + LINE;
  const isBest = new Set(beam.best);
  const byId = new Map(beam.nodes.map((node) => [node.id, node]));
  return (
    <div class="tree-box" tabIndex={0} role="region" aria-label={t.beam.heading}>
      <svg class="tree" width={width} height={height} role="img" aria-label={t.beam.text}>
        {beam.nodes.map((node) => {
          const here = at.get(node.id)!;
          const from = node.parent === null ? null : at.get(node.parent);
          if (!from) return null;
          const on = isBest.has(node.id) ? "best" : node.state;
          const start = from.x + textWidth(written(byId.get(node.parent!)!), 15) + 4;
          const middle = (start + here.x) / 2;
          return (
            <path
              key={`line ${node.id}`}
              class={`branch ${on}`}
              d={`M${start},${from.y} C${middle},${from.y} ${middle},${here.y} ${here.x - 4},${here.y}`}
            />
          );
        })}
        {beam.nodes.map((node) => {
          const { x, y } = at.get(node.id)!;
          return (
            <text
              key={node.id}
              x={x}
              y={y + 4}
              class={`leaf ${isBest.has(node.id) ? "best" : node.state}`}
            >
              {written(node)}
              <title>{`${fixed(node.log_prob, 2)} · ${fixed(node.score, 2)}`}</title>
            </text>
          );
        })}
      </svg>
    </div>
  );
}

function Hypotheses({ beam }: { beam: Beam }) {
  const { t, set, source } = useExplorer();
  return (
    <ol class="hypotheses">
      {beam.hypotheses.map(({ text, score, node }) => (
        <li key={node}>
          <span lang={langOf(text)}>{text}</span> <span class="note">{fixed(score, 2)}</span>{" "}
          {source.isLive && (
            <button
              type="button"
              onClick={() => set({ target: text, author: "typed", panel: null })}
            >
              {t.beam.use}
            </button>
          )}
        </li>
      ))}
    </ol>
  );
}
