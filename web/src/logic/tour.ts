import { START, type View } from "./view";

export const TOUR_STEPS = 8;

/** How the page stands when a step of the tour begins. */
export function prepared(step: number, view: View): Partial<View> {
  const honest: Partial<View> = {
    model: START.model,
    kind: "decoder_self",
    isMasked: true,
    inputs: "same",
    panel: null,
  };
  const stands: Partial<View>[] = [
    { ...honest, stage: 1, row: 0, col: 0 },
    { ...honest, stage: 1, row: 0, col: 0 },
    { ...honest, stage: 1 },
    { ...honest, stage: 2 },
    { ...honest, stage: 4, hasRun: false },
    { ...honest, stage: 4, hasRun: true, step: 0 },
    { ...honest, stage: 4, step: Math.max(3, view.step) },
    { ...honest, stage: 4, step: Math.max(3, view.step) },
  ];
  return stands[step] ?? {};
}

/** True once the page stands as the step wants it. */
export function stands(step: number, view: View): boolean {
  const wanted = Object.entries(prepared(step, view)) as [keyof View, unknown][];
  return wanted.every(([key, value]) => view[key] === value);
}

/** True once the reader has done what the step asks, compared with how the step began. */
export function isDone(step: number, before: View, now: View): boolean {
  switch (step) {
    case 0:
      return now.row !== before.row || now.col !== before.col;
    case 1:
      return now.row === 2 && now.col === 4;
    case 2:
      return now.stage === 2;
    case 3:
      return now.stage === 3;
    case 4:
      return now.hasRun && !before.hasRun;
    case 5:
      return now.step >= before.step + 3;
    case 6:
      return now.inputs === "own";
    case 7:
      return !now.isMasked || now.model !== before.model;
    default:
      return false;
  }
}
