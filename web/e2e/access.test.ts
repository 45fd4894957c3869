import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openReady, settled } from "./browser";

/** What axe finds serious or worse in the page as it stands. */
async function serious(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() =>
    (window as unknown as { axe: typeof axe }).axe.run({ resultTypes: ["violations"] }),
  );
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .map(({ html }) => html.slice(0, 160))
          .slice(0, 3)
          .join(" | ")}`,
    );
}

test("axe finds nothing serious in any stage or panel", async () => {
  const found: Record<string, string[]> = {};
  const page = await openReady();
  for (const stage of ["1", "2", "3", "4", "5"]) {
    await page.keyboard.press(stage);
    found[`stage ${stage}`] = await serious(page);
  }
  for (const panel of ["e", "s", "?", "b"]) {
    await page.keyboard.press(panel);
    await page.waitForSelector(panel === "b" ? "dialog .tree" : "dialog[open]");
    found[`panel ${panel}`] = await serious(page);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
  }
  await page.keyboard.press("t");
  found.tables = await serious(page);
  expect(Object.entries(found).filter(([, problems]) => problems.length)).toEqual([]);
});

test("axe finds nothing serious on a dark ground, in the audit, or on the tour", async () => {
  const found: Record<string, string[]> = {};
  const page = await openReady({ options: { colorScheme: "dark" } });
  for (const stage of ["2", "4"]) {
    await page.keyboard.press(stage);
    found[`dark stage ${stage}`] = await serious(page);
  }
  await page.keyboard.press("a");
  await page.waitForSelector("[data-verdict=VERIFIED]");
  found["dark audit"] = await serious(page);
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.click('[data-notice="tour"] button');
  found["dark tour"] = await serious(page);
  expect(Object.entries(found).filter(([, problems]) => problems.length)).toEqual([]);
});

test("axe finds nothing serious in the states that something went wrong in, nor when narrow or Hindi", async () => {
  const found: Record<string, string[]> = {};
  const page = await openReady({
    expects: /422|ERR_INTERNET_DISCONNECTED/,
    options: { locale: "hi-IN" },
  });
  found.hindi = await serious(page);
  await settled(page, () => page.keyboard.press("m"));
  found["mask off"] = await serious(page);
  await page.keyboard.press("w");
  found["by word"] = await serious(page);
  await page.setViewportSize({ width: 420, height: 900 });
  found.narrow = await serious(page);
  await page.fill("#text-target", "घर ".repeat(70));
  await page.waitForSelector('[data-notice="too_long"]');
  found["too long"] = await serious(page);
  await page.fill("#text-target", "");
  await page.waitForSelector('[data-state="empty"]');
  found.empty = await serious(page);
  await page.context().setOffline(true);
  await page.fill("#text-target", "घर");
  await page.waitForSelector('[data-notice="offline"]');
  found.offline = await serious(page);
  expect(Object.entries(found).filter(([, problems]) => problems.length)).toEqual([]);
});

test("axe itself can ring: an unnamed button is found", async () => {
  const page = await openReady();
  await page.evaluate(() =>
    document.querySelector("main")?.append(document.createElement("button")),
  );
  expect((await serious(page)).join()).toContain("button-name");
});

test("narrow screens show one lane at a time and never scroll sideways", async () => {
  const page = await openReady({ options: { viewport: { width: 420, height: 900 } } });
  expect(await page.isVisible(".lane.training")).toBe(true);
  expect(await page.isVisible(".lane.inference")).toBe(false);
  await page.click(".lane-toggle label:last-child");
  expect(await page.isVisible(".lane.inference")).toBe(true);
  expect(await page.isVisible(".lane.training")).toBe(false);
  const isWide = await page.evaluate(
    () => document.documentElement.scrollWidth > window.innerWidth,
  );
  expect(isWide).toBe(false);
});

test("colours follow the system and can be set by hand", async () => {
  const page = await openReady({ options: { colorScheme: "dark" } });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await ground()).toBe("rgb(15, 20, 25)");
  await page.selectOption(".doors label:last-child select", "light");
  await expect.poll(ground).toBe("rgb(244, 246, 248)"); // drawn with the next frame
});

test("Hindi is shaped by the bundled font, and the pieces of a word stand under one bar", async () => {
  const page = await openReady({ options: { locale: "hi-IN" } });
  expect(await page.textContent(".stage h2")).toContain("भार");
  expect(await page.evaluate(() => document.documentElement.lang)).toBe("hi");
  expect(
    await page.evaluate(() => document.fonts.check('16px "Noto Sans Devanagari Variable"', "क")),
  ).toBe(true);
  expect(await page.locator(".word.joined").count()).toBeGreaterThan(0);
  // Shaped text is narrower than its signs set apart: the i-sign moves before its consonant.
  const widths = await page.evaluate(() => {
    const pen = document.createElement("canvas").getContext("2d")!;
    pen.font = '32px "Noto Sans Devanagari Variable"';
    const apart = [..."क्षि"].reduce((sum, sign) => sum + pen.measureText(sign).width, 0);
    return { joined: pen.measureText("क्षि").width, apart };
  });
  expect(widths.joined).toBeLessThan(widths.apart * 0.8);
  const hindi = page.locator("#grid-training [lang=hi]");
  expect(await hindi.count()).toBeGreaterThan(0);
});
