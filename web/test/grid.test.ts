import { expect, test } from "vitest";
import { readHead } from "../src/data/head";
import { fromFile } from "../src/data/source";
import { sceneOf } from "../src/figure/scene";
import { svgOf } from "../src/figure/svg";
import { csvOf, pythonOf } from "../src/figure/text";
import { grouped, inferenceGrid, isSameRow, trainingGrid } from "../src/logic/grid";
import { label, standing, words } from "../src/logic/labels";
import { agreement } from "../src/logic/sameness";
import { START, type View } from "../src/logic/view";
import { COLUMNS, sampleTrace, token, wireHead } from "./sample";

const trace = sampleTrace();
const head = readHead(wireHead());
const at = (change: Partial<View> = {}): View => ({ ...START, step: 2, ...change });

test("the training lane hides the future; the inference lane does not have it yet", () => {
  const training = trainingGrid(trace, [head], at());
  const inference = inferenceGrid(trace, [head], at())!;
  expect(training.states).toEqual([
    ["seen", "causal", "causal"],
    ["seen", "seen", "causal"],
    ["seen", "seen", "seen"],
  ]);
  expect(inference.states).toEqual([
    ["seen", "absent", "absent"],
    ["seen", "seen", "absent"],
    ["absent", "absent", "absent"],
  ]);
  expect(inference.values.at(1, 0)).toBe(training.values.at(1, 0));
  expect(training.sums?.every((sum) => Math.abs(sum! - 1) < 1e-12)).toBe(true);
  expect(inference.sums?.[2]).toBeNull();
});

test("a step changes the rows it touches and no other", () => {
  const grids = [1, 2].map((step) => inferenceGrid(trace, [head], at({ step }))!);
  const isSame = [0, 1, 2].map((row) => isSameRow(grids[0]!, grids[1]!, row));
  expect(isSame).toEqual([false, false, true]); // the old row is no longer new, the new one came
  const scores = inferenceGrid(trace, [head], at({ step: 1, stage: 2 }))!;
  expect(isSameRow(grids[0]!, scores, 2)).toBe(false);
});

test("every stage shows its own numbers", () => {
  expect(trainingGrid(trace, [head], at({ stage: 1 })).values.at(0, 1)).toBe(0);
  const scores = trainingGrid(trace, [head], at({ stage: 2 }));
  expect(scores.values.at(0, 1)).toBe(Number.NEGATIVE_INFINITY);
  expect(scores.raw?.at(0, 1)).toBe(2);
  expect(trainingGrid(trace, [head], at({ hasRun: false })).states.flat()).not.toContain("seen");
});

test("padding is told apart from the future", () => {
  const allowed = [
    [true, false, false],
    [true, true, false],
    [true, true, false],
  ];
  const padding = allowed.map(() => [true, true, false]);
  const padded = sampleTrace({ masks: { decoder_self: { causal: null, padding, allowed } } });
  expect(trainingGrid(padded, [head], at()).states[0]).toEqual(["seen", "causal", "padding"]);
});

test("between words, columns are summed and rows averaged", () => {
  const plain = trainingGrid(trace, [head], at());
  const joined = grouped(plain, trace, head);
  expect(joined.cols).toEqual(["<s>", "घर"]);
  const byHand =
    (plain.values.at(1, 1) +
      plain.values.at(1, 2) +
      plain.values.at(2, 1) +
      plain.values.at(2, 2)) /
    2;
  expect(joined.values.at(1, 1)).toBeCloseTo(byHand, 12);
  expect(joined.sums?.[1]).toBeCloseTo(1, 12);
});

test("labels are slices of the text, with a dotted circle under a loose sign", () => {
  expect(label(token("ा", { starts_with_sign: true }))).toBe("◌ा");
  expect(standing("ि")).toBe("◌ि");
  expect(label(token("é", { byte: "C3" }))).toBe("C3");
  expect(words(COLUMNS, "घर").map(({ text }) => text)).toEqual(["<s>", "घर"]);
});

test("the lanes are compared only as far as the steps have got", () => {
  expect(agreement(trace, 0)?.rows).toBe(0);
  expect(agreement(trace, 2)).toMatchObject({ rows: 2, largest: 2e-7, isSame: true });
  const rows = trace.sameness!.rows.map((row) => row && { ...row, largest: 0.5 });
  const broken = sampleTrace({ sameness: { ...trace.sameness!, rows } });
  expect(agreement(broken, 2)?.isSame).toBe(false);
  const own = sampleTrace({
    sameness: { ...trace.sameness!, rows: [rows[0]!, null, null], first_difference: 1 },
  });
  expect(agreement(own, 1)?.parting).toBeNull();
  expect(agreement(own, 2)).toMatchObject({ rows: 1, parting: 1 });
});

test("the picture holds the text as text, and markup cannot become markup", () => {
  const grid = trainingGrid(trace, [head], at());
  grid.rows[0] = { reads: "<script>", predicts: 'a"b' };
  const svg = svgOf(sceneOf(grid, "tiny · layer 1", (text, size) => text.length * size));
  expect(svg).toContain("&lt;script&gt; → a&quot;b");
  expect(svg).not.toContain("<script");
  expect(svg.match(/url\(#hatch\)/g)?.length).toBe(3);
  expect(svg).toContain("tiny · layer 1");
});

test("CSV keeps exact numbers, writes -inf, and disarms formulas", () => {
  const grid = trainingGrid(trace, [head], at({ stage: 2 }));
  grid.cols[0] = "=1+1";
  const lines = csvOf(grid).split("\n");
  expect(lines[0]).toBe(`,"'=1+1","घ","र"`);
  expect(lines[1]).toBe('"<s> → घ",0.5,-inf,-inf');
  const inference = inferenceGrid(trace, [head], at({ stage: 2 }))!;
  expect(csvOf(inference).split("\n")[1]).toBe('"<s> → घ",0.5,,');
});

test("Python lines name what differs from the defaults", () => {
  const view = at({ source: 'say "hi"', target: "घर", isMasked: false, inputs: "own" });
  expect(pythonOf(view, "runs/x", true)).toBe(
    [
      "import lookleft",
      'view = lookleft.explain("runs/x", src="say \\"hi\\"", tgt="घर", inputs="own", is_masked=False)',
      'weights = view.head("decoder_self", 0, 0)["training"]["weights"]',
    ].join("\n"),
  );
});

test("a file answers with the view whose settings match, and refuses the rest with the command", async () => {
  const file = fromFile({
    version: 1,
    command: "lookleft explain runs/x",
    lookleft: "0",
    models: [trace.model],
    scope: "head",
    views: [{ trace, heads: [] }],
    audit: null,
    beam: null,
  });
  const request = {
    model: "main",
    source: "home",
    target: "घर",
    target_from: "typed" as const,
    inputs: "same" as const,
    forced: [],
    is_masked: true,
    is_cached: true,
    cover: [],
    pad: 0,
    long: "refuse" as const,
    kind: "decoder_self" as const,
    layer: 0,
    head: 0,
  };
  const never = new AbortController().signal;
  await expect(file.trace(request, never)).resolves.toBe(trace);
  await expect(file.head("t1", { kind: "decoder_self", layer: 0, head: 0 })).resolves.toBe(
    trace.head,
  );
  await expect(file.trace({ ...request, inputs: "own" }, never)).rejects.toMatchObject({
    code: "file",
    message: "lookleft explain runs/x",
  });
  await expect(file.head("t1", { kind: "cross", layer: 0, head: 0 })).rejects.toMatchObject({
    code: "file",
  });
});
