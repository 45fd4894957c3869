import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { cells, open, openReady, prepared } from "./browser";

const address = pathToFileURL(prepared.file).href;

test("the one file opens from the disk with networking off and holds the same numbers", async () => {
  const page = await openReady({ address, options: { offline: true } });
  expect(await page.inputValue("#text-source")).toBe(prepared.source);
  await page.keyboard.press(".");
  const gap = async () => {
    const found = await cells(page, "training");
    return Math.max(
      ...found.flatMap((row, r) => row.map((x, c) => Math.abs(x - prepared.weights[r]![c]!))),
    );
  };
  await expect.poll(gap).toBeLessThan(1e-5);
  await page.keyboard.press("ArrowDown");
  expect(await page.getAttribute("[data-step]", "data-step")).toBe("4");
});

test("in the file, switches use what it holds and the rest names the command", async () => {
  const page = await openReady({ address, options: { offline: true } });
  await page.keyboard.press("m");
  await expect.poll(() => page.getAttribute(".answer", "data-same")).toBe("false");
  expect(await page.textContent(".sentence .note")).toContain(
    "needs the live page: lookleft explain",
  );
  expect(await page.getAttribute("#text-source", "readonly")).not.toBeNull();
});

test("the file can save itself, and the copy opens too", async () => {
  const page = await openReady({ address, options: { offline: true } });
  await page.keyboard.press("e");
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("dialog button").filter({ hasText: "One-file" }).click(),
  ]);
  const copy = `${prepared.file}.copy.html`;
  await file.saveAs(copy);
  const again = await openReady({ address: pathToFileURL(copy).href, options: { offline: true } });
  expect(await again.inputValue("#text-source")).toBe(prepared.source);
});

test("without JavaScript the weights are a real table", async () => {
  const page = await open({ address, options: { offline: true, javaScriptEnabled: false } });
  expect(await page.locator("noscript table, table").count()).toBeGreaterThan(0);
});
