import { useEffect, useState } from "preact/hooks";
import type { Proof } from "../data/answers";
import { useExplorer } from "../explorer/explorer";
import { asRefusal } from "../explorer/use-trace";
import { fixed, scientific } from "../logic/numbers";
import { placeOf } from "../logic/view";
import { Bars } from "./stages/bars";
import { Exp } from "./stages/exp";
import { type CellNumbers, useCell } from "./stages/use-cell";

/** One cell in full: every step from q·k to the weight, and the proof that a hidden one is hidden. */
export function Inspector() {
  const { t, head, heads, view, training, inference } = useExplorer();
  const cell = useCell();
  return (
    <section id="inspector" class="inspector card" aria-labelledby="cell-heading" tabIndex={-1}>
      <h2 id="cell-heading">{t.cell.heading}</h2>
      {content()}
    </section>
  );

  function content() {
    if (!head || !training) return <p>{t.cell.none}</p>;
    if (view.isGrouped && view.stage >= 3) return <p>{t.cell.words}</p>;
    if (!cell) return <p>{t.cell.none}</p>;
    const grid = cell.lane === "training" ? training : (inference ?? training);
    const { reads, predicts } = grid.rows[cell.row] ?? { reads: "", predicts: null };
    const name = predicts === null ? reads : `${reads} → ${predicts}`;
    const isAbsent = inference?.states[cell.row]?.[cell.col] === "absent";
    return (
      <>
        <p class="cell-where" dir="auto">
          {t.cell.where(cell.row + 1, name, grid.cols[cell.col] ?? "")}{" "}
          <small>({t.cell.lane[cell.lane]})</small>
        </p>
        {heads.length > 1 ? <p>{t.cell.mean}</p> : <Arithmetic cell={cell} />}
        {inference && isAbsent && <p class="note">{t.cell.absent}</p>}
        {heads.length === 1 && <Vectors cell={cell} />}
        <Prove cell={cell} />
      </>
    );
  }
}

function Arithmetic({ cell }: { cell: CellNumbers }) {
  const { head, t } = useExplorer();
  if (!head) return null;
  const width = cell.q.length;
  const isRoot = Math.abs(head.scale * Math.sqrt(width) - 1) < 1e-6;
  return (
    <div class="arithmetic">
      <p>
        {t.cell.dot} = <b>{fixed(cell.dot)}</b>{" "}
        {isRoot ? t.cell.scaled(width) : t.cell.times(fixed(head.scale, 4))}
        {cell.bias !== null && ` ${t.cell.bias} ${fixed(cell.bias)}`} ={" "}
        <b data-score={cell.score}>{fixed(cell.score)}</b> {t.cell.mask}{" "}
        {cell.state === "seen" ? "0" : "(−∞)"} = <b>{fixed(cell.masked)}</b>
      </p>
      {cell.state === "seen" ? (
        <p>
          <Exp of={fixed(cell.masked)} /> = <b>{fixed(cell.exp)}</b>{" "}
          {t.cell.share(fixed(cell.rowSum))} = <b data-weight={cell.weight}>{fixed(cell.weight)}</b>
        </p>
      ) : (
        <p class="hidden-cell">{cell.state === "padding" ? t.cell.padding : t.cell.hidden}</p>
      )}
    </div>
  );
}

function Vectors({ cell }: { cell: CellNumbers }) {
  const { t } = useExplorer();
  return (
    <div class="vectors">
      <Bars name="q" numbers={cell.q} />
      <Bars name="k" numbers={cell.k} />
      <p class="note">{t.cell.numbers(cell.q.length)}</p>
    </div>
  );
}

/** Asks the server to change the hidden token and to say how far this row's output moved. */
function Prove({ cell }: { cell: CellNumbers }) {
  const { source, trace, view, head, t, state, fail, isOffline } = useExplorer();
  const [proof, setProof] = useState<Proof | null>(null);
  const [words, setWords] = useState("");
  useEffect(() => {
    setProof(null);
    setWords("");
  }, [trace?.id, cell.row, cell.col, head]);
  if (!trace || cell.state !== "causal") return null;
  if (!source.isLive) return <p class="note">{t.states.file(state.command)}</p>;
  const ask = async () => {
    setWords(t.cell.proving);
    try {
      setProof(await source.prove(trace.id, placeOf(view), cell.row, cell.col));
      setWords("");
    } catch (problem) {
      const refusal = asRefusal(problem);
      fail(refusal);
      setWords(refusal.message);
    }
  };
  return (
    <div class="prove">
      <button type="button" disabled={isOffline} onClick={ask}>
        {t.cell.prove}
      </button>
      <span role="status">
        {words}
        {proof && (
          <span data-moved={proof.moved}>
            {t.cell.proved(
              proof.tries,
              proof.moved === 0 ? t.cell.exactly : scientific(proof.moved),
            )}{" "}
            {proof.control_row !== null &&
              proof.control_moved !== null &&
              t.cell.control(proof.control_row + 1, scientific(proof.control_moved))}
          </span>
        )}
      </span>
    </div>
  );
}
