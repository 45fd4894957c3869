import { expect, test } from "vitest";
import { command } from "../src/logic/keys";
import { pack, unpack } from "../src/logic/share";
import { isDone, prepared, stands, TOUR_STEPS } from "../src/logic/tour";
import { type Action, fitted, next, START, suited } from "../src/logic/view";

const BOUNDS = { rows: 4, cols: 4, steps: 4, layers: 2, heads: 3 };

test("nothing leaves the bounds, however often a key is pressed", () => {
  const actions: Action[] = [
    { do: "stage", by: 1 },
    { do: "step", by: 1 },
    { do: "move", rows: 1, cols: 1 },
    { do: "layer", by: 1 },
    { do: "head", by: 1 },
  ];
  for (const sign of [1, -1]) {
    let view = START;
    for (const action of actions) {
      const turned = Object.fromEntries(
        Object.entries(action).map(([key, value]) => [
          key,
          typeof value === "number" ? value * sign : value,
        ]),
      ) as Action;
      for (let i = 0; i < 9; i++) view = next(view, turned, BOUNDS);
    }
    const end = sign > 0;
    expect(view.stage).toBe(end ? 5 : 1);
    expect(view.step).toBe(end ? 4 : 0);
    expect([view.row, view.col]).toEqual(end ? [3, 3] : [0, 0]);
    expect(view.heads).toEqual([end ? { layer: 1, head: 2 } : { layer: 0, head: 0 }]);
  }
});

test("a step takes the cursor to the new row, and playing stops at the last", () => {
  const playing = { ...START, step: 2, isPlaying: true };
  const third = next(playing, { do: "step", by: 1 }, BOUNDS);
  expect([third.row, third.isPlaying]).toEqual([2, true]);
  expect(next(third, { do: "step", by: 1 }, BOUNDS).isPlaying).toBe(false);
});

test("heads are picked alone, added to a mean, and taken out again, but never all", () => {
  const first = { layer: 0, head: 0 };
  const second = { layer: 1, head: 2 };
  const both = next(START, { do: "pick", place: second, isAdded: true }, BOUNDS);
  expect(both.heads).toEqual([first, second]);
  const one = next(both, { do: "pick", place: first, isAdded: true }, BOUNDS);
  expect(one.heads).toEqual([second]);
  expect(next(one, { do: "pick", place: second, isAdded: true }, BOUNDS).heads).toEqual([second]);
  expect(next(both, { do: "pick", place: first, isAdded: false }, BOUNDS).heads).toEqual([first]);
});

test("rows are added up with shift and forgotten by a plain press", () => {
  const two = next({ ...START, row: 3 }, { do: "row", row: 1, isAdded: true }, BOUNDS);
  expect(two.rows).toEqual([1, 3]);
  expect(next(two, { do: "row", row: 3, isAdded: true }, BOUNDS).rows).toEqual([1]);
  expect(next(two, { do: "row", row: 0, isAdded: false }, BOUNDS).rows).toEqual([]);
});

test("a shorter sentence brings the cursor back inside, a fitting one changes nothing", () => {
  const far = { ...START, row: 9, col: 9, step: 9 };
  expect(fitted(far, BOUNDS)).toMatchObject({ row: 3, col: 3, step: 4 });
  expect(fitted(START, BOUNDS)).toBe(START);
});

test("a chosen word stays while one looks around, and goes with its sentence", () => {
  const chosen = next(START, { do: "set", to: { inputs: "own", forced: [7] } }, BOUNDS);
  expect(chosen.forced).toEqual([7]);
  expect(next(chosen, { do: "step", by: 1 }, BOUNDS).forced).toEqual([7]);
  expect(next(chosen, { do: "set", to: { stage: 2, inputs: "own" } }, BOUNDS).forced).toEqual([7]);
  for (const to of [{ source: "other" }, { model: "cheater" }, { inputs: "same" as const }]) {
    expect(next(chosen, { do: "set", to }, BOUNDS).forced).toEqual([]);
  }
});

test("another model gets an attention and heads that it has", () => {
  const kinds = [{ kind: "encoder_self" as const, n_layers: 1, n_heads: 2, is_masked: false }];
  const view = { ...START, heads: [{ layer: 3, head: 1 }] };
  expect(suited(view, kinds)).toMatchObject({
    kind: "encoder_self",
    heads: [{ layer: 0, head: 0 }],
  });
  const fine = { ...START, kind: "encoder_self" as const };
  expect(suited(fine, kinds)).toBe(fine);
});

test("keys do what the list says, and letters rest when shortcuts are off", () => {
  expect(command("3", START)).toEqual({ do: "set", to: { stage: 3 } });
  expect(command("m", START)).toEqual({ do: "set", to: { isMasked: false } });
  expect(command("ArrowDown", START)).toEqual({ do: "step", by: 1 });
  expect(command("ArrowRight", START)).toEqual({ do: "stage", by: 1 });
  expect(command("Escape", { ...START, panel: "audit" })).toEqual({
    do: "set",
    to: { panel: null },
  });
  expect(command("q", START)).toBeNull();
  const quiet = { ...START, hasShortcuts: false };
  expect(command("m", quiet)).toBeNull();
  expect(command("ArrowRight", quiet)).toEqual({ do: "stage", by: 1 });
});

test("a link brings back the same view, Hindi and markup included", async () => {
  const view = {
    ...START,
    source: "<b>go</b>",
    target: "मैं घर जा रहा हूँ ।",
    stage: 2 as const,
    row: 1,
    isMasked: false,
  };
  const fragment = await pack(view, "tiny", "abcd");
  expect(fragment).toMatch(/^v1\.[\w-]+$/);
  const shared = await unpack(`#${fragment}`);
  expect(shared).toMatchObject({ name: "tiny", hash: "abcd" });
  expect({ ...START, ...shared?.view }).toEqual(view);
});

test("a damaged or foreign link is none, and a wrong field is left out", async () => {
  expect(await unpack("#section-3")).toBeNull();
  expect(await unpack("#v1.AAAA")).toBeNull();
  const odd = { ...START, stage: 9 as never, row: -4, kind: "sideways" as never, source: "ok" };
  expect((await unpack(await pack(odd, "tiny", "abcd")))?.view).toEqual({ source: "ok" });
});

test("each step of the tour begins undone and is done by what it asks for", () => {
  const deeds: Action[][] = [
    [{ do: "move", rows: 1, cols: 0 }],
    [{ do: "set", to: { row: 2, col: 4 } }],
    [{ do: "set", to: { stage: 2 } }],
    [{ do: "set", to: { stage: 3 } }],
    [{ do: "set", to: { hasRun: true } }],
    [1, 2, 3].map(() => ({ do: "step", by: 1 })),
    [{ do: "set", to: { inputs: "own" } }],
    [{ do: "set", to: { isMasked: false } }],
  ];
  expect(deeds.length).toBe(TOUR_STEPS);
  deeds.forEach((actions, step) => {
    const before = { ...START, ...prepared(step, START) };
    expect(stands(step, before)).toBe(true);
    expect(isDone(step, before, before), `step ${step + 1} at its beginning`).toBe(false);
    const after = actions.reduce((view, action) => next(view, action, BOUNDS), before);
    expect(isDone(step, before, after), `step ${step + 1} after the deed`).toBe(true);
  });
});
