import { useState } from "preact/hooks";
import { useExplorer } from "../explorer/explorer";
import { useCopy } from "../explorer/use-copy";
import { asRefusal } from "../explorer/use-trace";
import { bareDocument, save } from "../figure/files";
import { fontData, textWidth } from "../figure/font";
import { pngOf } from "../figure/png";
import { sceneOf } from "../figure/scene";
import { svgOf } from "../figure/svg";
import { csvOf, pythonOf } from "../figure/text";
import { inspected, type LaneName, placeOf } from "../logic/view";
import { Dialog } from "./dialog";

type Scope = "head" | "layer" | "all";

/** Pictures, numbers, the page itself, and the lines of Python that give the same. */
export function ExportPanel() {
  const { view, set, trace, training, inference, card, source, state, t, heads, fail } =
    useExplorer();
  const [scope, setScope] = useState<Scope>("head");
  const [hasFont, setFont] = useState(false);
  const [words, setWords] = useState("");
  const [isCopied, copy] = useCopy();
  const grid = view.lane === "training" ? training : inference;
  const python = pythonOf(
    view,
    state.command.replace(/^lookleft explain ?/, "") || card.name,
    card.family === "encoder-decoder",
  );
  if (!trace) {
    return (
      <Dialog name={t.exports.heading}>
        <p>{t.states.empty}</p>
      </Dialog>
    );
  }
  const { layer, head } = inspected(view);
  const stage = t.stages.names[view.stage - 1] ?? "";
  const who = heads.length > 1 ? t.heads.mean(heads.length) : `${t.heads.head} ${head + 1}`;
  const caption = t.exports.caption(
    card.name,
    card.hash.slice(0, 8),
    layer + 1,
    who,
    `${t.lanes[view.lane]} · ${stage}`,
  );
  const name = `${card.name}-${view.kind}-l${layer + 1}-h${head + 1}-stage${view.stage}-${view.lane}`;
  const scene = () => sceneOf(grid!, caption, textWidth);
  const attempt = (what: () => Promise<void>) => async () => {
    setWords("");
    try {
      await what();
    } catch (problem) {
      const refusal = asRefusal(problem);
      fail(refusal);
      setWords(refusal.message);
    }
  };
  const saveSvg = attempt(async () => {
    const font = hasFont ? await fontData() : null;
    save(`${name}.svg`, new Blob([svgOf(scene(), font)], { type: "image/svg+xml" }));
  });
  const savePng = (times: number) =>
    attempt(async () => save(`${name}@${times}x.png`, await pngOf(scene(), times)));
  const saveCsv = attempt(async () =>
    save(`${name}.csv`, new Blob([csvOf(grid!)], { type: "text/csv" })),
  );
  const saveJson = attempt(async () => {
    const data = await source.everything(trace.id, scope, placeOf(view));
    save(`${card.name}-trace.json`, new Blob([JSON.stringify(data)], { type: "application/json" }));
  });
  const saveHtml = attempt(async () => {
    const page = source.isLive
      ? await source.page(trace.id, scope, placeOf(view))
      : bareDocument(document);
    save(`${card.name}.html`, new Blob([page], { type: "text/html" }));
  });
  return (
    <Dialog name={t.exports.heading}>
      <fieldset class="choice">
        <legend>{t.exports.lane}</legend>
        {(["training", "inference"] satisfies LaneName[]).map((lane) => (
          <label key={lane}>
            <input
              type="radio"
              name="export-lane"
              checked={view.lane === lane}
              disabled={lane === "inference" && !inference}
              onChange={() => set({ lane })}
            />
            {t.lanes[lane]}
          </label>
        ))}
      </fieldset>
      <ul class="exports">
        <li>
          <button type="button" disabled={!grid} onClick={saveSvg}>
            {t.exports.svg}
          </button>{" "}
          <label>
            <input type="checkbox" checked={hasFont} onChange={() => setFont(!hasFont)} />{" "}
            {t.exports.fonts}
          </label>
        </li>
        <li>
          {[1, 2, 4].map((times) => (
            <button key={times} type="button" disabled={!grid} onClick={savePng(times)}>
              {t.exports.png} {times}×
            </button>
          ))}
        </li>
        <li>
          <button type="button" disabled={!grid} onClick={saveCsv}>
            {t.exports.csv}
          </button>
        </li>
        <li>
          <button type="button" onClick={saveJson}>
            {t.exports.json}
          </button>
          <button type="button" onClick={saveHtml}>
            {t.exports.html}
          </button>
          <select
            value={scope}
            aria-label={t.exports.html}
            disabled={!source.isLive}
            onChange={(event) => setScope(event.currentTarget.value as Scope)}
          >
            {(["head", "layer", "all"] as const).map((one) => (
              <option key={one} value={one}>
                {t.exports.scopes[one]}
              </option>
            ))}
          </select>
        </li>
        <li>
          <button type="button" onClick={() => copy(python)}>
            {isCopied ? `✓ ${t.exports.copied}` : t.exports.python}
          </button>
        </li>
      </ul>
      <pre>
        <code data-python>{python}</code>
      </pre>
      <p role="status">{words}</p>
    </Dialog>
  );
}
