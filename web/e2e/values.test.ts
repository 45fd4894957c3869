import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { cells, openReady, prepared, settled } from "./browser";

const CLOSE = 1e-5; // float32 against the same sums in another order

function largestGap(found: number[][], wanted: number[][]): number {
  expect(found.map((row) => row.length)).toEqual(wanted.map((row) => row.length));
  return Math.max(...found.flatMap((row, r) => row.map((x, c) => Math.abs(x - wanted[r]![c]!))));
}

/** The head that the numbers were computed for: layer 1, head 2. */
async function atHead(page: Page): Promise<void> {
  await page.keyboard.press(".");
  await page.waitForSelector('.thumb:nth-child(2)[aria-pressed="true"]');
  await page.waitForFunction(
    () => document.querySelectorAll("#grid-training [data-col]").length > 0,
  );
}

test("cells hold the weights that plain PyTorch computes", async () => {
  const page = await openReady();
  await atHead(page);
  await expect
    .poll(async () => largestGap(await cells(page, "training"), prepared.weights))
    .toBeLessThan(CLOSE);
  const sums = await page.$$eval("#grid-training [data-sum]", (found) =>
    found.map((cell) => Number((cell as HTMLElement).dataset.sum)),
  );
  expect(sums.length).toBe(prepared.weights.length);
  for (const sum of sums) expect(Math.abs(sum - 1)).toBeLessThan(CLOSE);
});

test("scores are PyTorch's where allowed and minus infinity where not", async () => {
  const page = await openReady();
  await atHead(page);
  await page.keyboard.press("2");
  await expect
    .poll(async () => (await cells(page, "training"))[0]![0]! - prepared.scores[0]![0]!)
    .toBeLessThan(1e-4);
  const found = await cells(page, "training");
  found.forEach((row, r) => {
    row.forEach((x, c) => {
      if (c > r) expect(x).toBe(Number.NEGATIVE_INFINITY);
      else expect(Math.abs(x - prepared.scores[r]![c]!)).toBeLessThan(1e-4);
    });
  });
});

test("inference writes the same rows one by one, and the difference is measured", async () => {
  const page = await openReady();
  await atHead(page);
  const n = prepared.weights.length;
  for (let i = 0; i < n; i++) await page.keyboard.press("ArrowDown");
  await page.waitForSelector(`[data-step="${n}"]`);
  const found = await cells(page, "inference");
  found.forEach((row, r) => {
    row.forEach((x, c) => {
      if (c > r) expect(x, "a key that does not exist yet").toBeNaN();
      else expect(Math.abs(x - prepared.weights[r]![c]!)).toBeLessThan(CLOSE);
    });
  });
  const answer = page.locator(".answer");
  expect(await answer.getAttribute("data-same")).toBe("true");
  expect(Number(await answer.getAttribute("data-largest"))).toBeLessThan(CLOSE);
});

test("without the mask the upper triangle fills and the rows no longer agree", async () => {
  const page = await openReady();
  await atHead(page);
  await settled(page, () => page.keyboard.press("m"));
  await expect
    .poll(async () => largestGap(await cells(page, "training"), prepared.unmasked))
    .toBeLessThan(CLOSE);
  const answer = page.locator(".answer");
  expect(await answer.getAttribute("data-same")).toBe("false");
  expect(Number(await answer.getAttribute("data-largest"))).toBeGreaterThan(1e-3);
});

test("the page's own check is shown, and turns red when a weight is altered on the way", async () => {
  const honest = await openReady();
  expect(Number(await honest.locator(".badge.good").getAttribute("data-check"))).toBeLessThan(
    CLOSE,
  );
  const altered = await openReady({
    before: (page) =>
      page.route("**/api/trace", async (route) => {
        const answer = await route.fetch();
        const trace = await answer.json();
        trace.head.training.weights[1][0] += 0.01;
        await route.fulfill({ response: answer, json: trace });
      }),
  });
  await altered.waitForSelector(".badge.wrong");
  await altered.waitForSelector('[data-notice="bad"]');
  expect(await altered.locator("#grid-training .row.bad").count()).toBe(1);
});

test("a forbidden cell is explained and proved: the output moves by exactly 0", async () => {
  const page = await openReady();
  await page.click('#grid-training [data-row="1"][data-col="3"]');
  await page.mouse.move(5, 5);
  await expect.poll(() => page.textContent(".hidden-cell")).toContain("e^(−∞) = 0");
  await page.click(".prove button");
  const moved = page.locator("[data-moved]");
  expect(await moved.getAttribute("data-moved")).toBe("0");
  expect(await moved.textContent()).toContain("exactly 0");
  expect(await moved.textContent()).toContain("For comparison");
});

test("the inspector's arithmetic ends in the cell's own number", async () => {
  const page = await openReady();
  await atHead(page);
  await page.click('#grid-training [data-row="3"][data-col="1"]');
  await page.mouse.move(5, 5);
  await expect
    .poll(async () =>
      Math.abs(
        Number(await page.getAttribute("[data-weight]", "data-weight")) - prepared.weights[3]![1]!,
      ),
    )
    .toBeLessThan(CLOSE);
});

test("a model's own words part from the reference, and the place is marked", async () => {
  const page = await openReady();
  await settled(page, () => page.keyboard.press("i"));
  await expect.poll(() => page.textContent(".exposure")).toContain("exposure bias");
  expect(await page.locator("#grid-inference .row.other").count()).toBe(1);
});

test("a reader chooses another word, and the lane goes on from it", async () => {
  const page = await openReady();
  await page.click(".choose summary");
  const other = page.locator(".choose button").nth(3);
  const words = await other.locator("b").textContent();
  await settled(page, () => other.click());
  const said = page.locator('#grid-inference .row:has([data-row="2"]) .predicts');
  await expect.poll(() => said.textContent()).toBe(`→${words}`);
  expect(await page.getAttribute("[data-step]", "data-step")).toBe("4");
  await page.click(".lane.inference button[aria-label='Step back']");
  await expect.poll(() => page.getAttribute(".taken", "data-forced")).toBe("true");
  expect(await page.textContent(".taken")).toContain(words!);
  await page.click(".choose summary");
  await settled(page, () => page.click(".choose .undo"));
  await expect.poll(() => page.locator('.taken[data-forced="true"]').count()).toBe(0);
});

test("the cheater's lanes disagree, and the audit shows its leak above the diagonal", async () => {
  const page = await openReady();
  await settled(page, () => page.selectOption(".model select", "cheater"));
  expect(await page.locator(".answer").getAttribute("data-same")).toBe("false");
  await page.keyboard.press("a");
  await page.waitForSelector("[data-verdict=DISPROVED]");
  expect(await page.locator(".moved-cell.leak").count()).toBeGreaterThan(0);
});
