import { expect, test } from "vitest";
import { cells, openReady, prepared, settled } from "./browser";

const CLOSE = 1e-4; // thirty layers of float32, rotary angles in another precision

interface Written {
  prompt: string;
  written: string[]; // the tokens of prompt and continuation, without blanks around them
  layer: number;
  head: number;
}

test("a head of a language model is picked, and the model is watched writing", async () => {
  const { prompt, written, layer, head } = prepared as typeof prepared & Written;
  const page = await openReady();
  expect(await page.textContent(".facts")).toContain("decoder-only");
  expect(await page.locator(".box").count()).toBe(1);
  expect(await page.locator(".thumb").count()).toBe(270);
  await settled(page, () => page.fill("#text-target", prompt));
  await settled(page, () => page.click(".sentence .choice label:nth-of-type(2) input"));
  const answer = page.waitForResponse((response) => response.url().includes("/head?"));
  await page.click(`.thumb[title^="layer ${layer + 1}, head ${head + 1} "]`);
  await answer;

  await expect
    .poll(async () => {
      const found = await cells(page, "training");
      if (found.length !== prepared.weights.length) return Number.NaN;
      return Math.max(
        ...found.flatMap((row, r) => row.map((x, c) => Math.abs(x - prepared.weights[r]![c]!))),
      );
    })
    .toBeLessThan(CLOSE);

  await page.click(".lane.inference button:first-of-type");
  const said: string[] = [];
  for (let step = 1; step < written.length; step++) {
    await page.click(".lane.inference .forward");
    await expect.poll(() => page.getAttribute("[data-step]", "data-step")).toBe(String(step));
    const row = page.locator("#grid-inference .row:has([data-col])").nth(step - 1);
    said.push(((await row.locator(".predicts").textContent()) ?? "").replace("→", "").trim());
  }
  const nPrompt = said.length - 24 + 1;
  expect(said.slice(nPrompt - 1)).toEqual(written.slice(nPrompt));
  expect(await page.getAttribute(".answer", "data-same")).toBe("true");
}, 300_000);
