import { useExplorer } from "../explorer/explorer";
import { Fold } from "./stages/fold";
import { Formula } from "./stages/formula";
import { MaskParts } from "./stages/mask-parts";
import { Mix } from "./stages/mix";
import { Outcome } from "./stages/outcome";
import { Products } from "./stages/products";
import { SoftmaxBars } from "./stages/softmax-bars";

/** What the present stage does: a sentence, the formula with the numbers of the cell, a closer look. */
export function StagePanel() {
  const { view, t, head, trace } = useExplorer();
  return (
    <section class="stage card" aria-labelledby="stage-heading">
      <div class="stage-words">
        <h2 id="stage-heading">
          <span class="number">{view.stage}</span> {t.stages.names[view.stage - 1]}
        </h2>
        <p>{t.stages.texts[view.stage - 1]}</p>
        {head && <Formula />}
      </div>
      {head && trace && (
        <div class="stage-look">
          {view.stage === 1 && <MaskParts />}
          {view.stage === 2 && <Products />}
          {view.stage === 3 && <SoftmaxBars />}
          {view.stage === 4 && <Mix />}
          {view.stage === 5 && <Outcome />}
          {view.stage <= 2 && <Fold />}
        </div>
      )}
    </section>
  );
}
