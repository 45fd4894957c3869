import { expect, test } from "vitest";
import { openReady, prepared, settled } from "./browser";

test("the tour can be walked to its end with the keyboard alone", async () => {
  const page = await openReady();
  const press = (...keys: string[]) =>
    keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  const tabTo = async (selector: string) => {
    for (let i = 0; i < 120; i++) {
      if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return;
      await press("Tab");
    }
    throw new Error(`Tab never reached ${selector}`);
  };
  const done = async (step: number) => {
    await page.waitForSelector(`[data-tour="${step}"][data-done="true"]`);
    await tabTo(".tour .forward");
    await press("Enter");
  };
  await tabTo('[data-notice="tour"] button');
  await press("Enter");
  await page.waitForSelector('[data-tour="1"]');
  await press("g", "ArrowRight");
  await done(1);
  await page.waitForSelector('[data-tour="2"]');
  await press(
    "g",
    "ArrowDown",
    "ArrowDown",
    "ArrowRight",
    "ArrowRight",
    "ArrowRight",
    "ArrowRight",
    "Escape",
  );
  await done(2);
  await page.waitForSelector('[data-tour="3"]');
  await press("2");
  await done(3);
  await page.waitForSelector('[data-tour="4"]');
  await press("3");
  await done(4);
  await page.waitForSelector('[data-tour="5"]');
  await tabTo(".lane .run");
  await press("Enter");
  await done(5);
  await page.waitForSelector('[data-tour="6"]');
  await press("ArrowDown", "ArrowDown", "ArrowDown");
  await done(6);
  await page.waitForSelector('[data-tour="7"]');
  await settled(page, () => press("i"));
  await done(7);
  await page.waitForSelector('[data-tour="8"]');
  await settled(page, () => press("m"));
  await done(8);
  expect(await page.locator(".tour").count()).toBe(0);
});

test("arrows walk in the grid and choose stages outside it; Escape leaves", async () => {
  const page = await openReady();
  await page.keyboard.press("g");
  await page.keyboard.press("ArrowRight");
  expect(await page.getAttribute(".cell.cursor", "data-col")).toBe("2");
  expect(await page.textContent(".stage h2")).toContain("Weights");
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("inspector");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowLeft");
  expect(await page.textContent(".stage h2")).toContain("Softmax");
});

test("a voice hears the cell with its row, its column and why it is empty", async () => {
  const page = await openReady();
  await page.click('#grid-training [data-row="1"][data-col="3"]');
  const name = await page.textContent("#grid-training-cursor .hidden-text");
  expect(name).toMatch(/^row 2, reads .*, predicts .*; column .*: hidden by the causal mask$/);
  await page.locator("#grid-training").blur();
  await page.keyboard.press("ArrowDown");
  await expect
    .poll(() => page.textContent("[data-live]"))
    .toMatch(/^Step 4: reads .*, chooses .* with probability/);
});

test("no shortcut fires while typing, and single letters can be turned off", async () => {
  const page = await openReady();
  await page.keyboard.press("/");
  await page.keyboard.press("2");
  expect(await page.textContent(".stage h2")).toContain("Weights");
  expect(await page.inputValue("#text-source")).toContain("2");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.click("dialog input[type=checkbox]");
  await page.keyboard.press("Escape");
  await page.keyboard.press("2");
  expect(await page.textContent(".stage h2")).toContain("Weights");
});

test("table view gives real tables with headers", async () => {
  const page = await openReady();
  await page.keyboard.press("t");
  const table = page.locator(".lane.training table.matrix");
  expect(await table.locator("tbody th[scope=row]").count()).toBe(prepared.weights.length);
  expect(
    await table.locator("td").filter({ hasText: "hidden by the causal mask" }).count(),
  ).toBeGreaterThan(0);
});

test("pictures, numbers, Python and a link come out of the page itself", async () => {
  const page = await openReady();
  await page.keyboard.press("e");
  const saved = async (button: string) => {
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.locator("dialog button").filter({ hasText: button }).first().click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await file.createReadStream()) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  };
  const svg = (await saved("SVG")).toString();
  expect(svg).toContain("<text");
  expect(svg).toContain(
    (await page.textContent("#grid-training .reads"))?.replace("<", "&lt;").replace(">", "&gt;"),
  );
  expect((await saved("PNG")).subarray(1, 4).toString()).toBe("PNG");
  const csv = (await saved("CSV")).toString().trim().split("\n");
  expect(csv.length).toBe(prepared.weights.length + 1);
  expect(JSON.parse((await saved("JSON")).toString()).version).toBe(1);
  expect((await saved("One-file")).toString()).toContain("lookleft-data");
  expect(await page.textContent("[data-python]")).toContain("lookleft.explain(");
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  await page.keyboard.press("s");
  await expect.poll(() => page.textContent("[data-link]")).toContain("#v1.");
  const link = await page.textContent("[data-link]");
  const other = await openReady({ path: new URL(link ?? "").hash });
  expect(await other.textContent(".stage h2")).toContain("Softmax");
  expect(await other.locator('[data-notice="link"]').count()).toBe(0);
});
