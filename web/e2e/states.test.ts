import { expect, test } from "vitest";
import { pack } from "../src/logic/share";
import { START } from "../src/logic/view";
import { open, openReady, prepared, settled } from "./browser";

const TARGET = "#text-target";

test("a first visit shows the default sentence and offers the tour once", async () => {
  const page = await openReady();
  expect(await page.inputValue("#text-source")).toBe(prepared.source);
  await page.click('[data-notice="tour"] button:last-child');
  await page.reload();
  await page.waitForSelector("[role=gridcell]");
  expect(await page.locator('[data-notice="tour"]').count()).toBe(0);
});

test("an empty sentence leaves outlines, and the stages stay readable", async () => {
  const page = await openReady();
  await page.fill(TARGET, "");
  await page.waitForSelector('[data-state="empty"]');
  await page.click(".stages li:nth-child(2) button");
  expect(await page.textContent(".stage h2")).toContain("Scores");
});

test("typing traces after a pause, with its tokens under it at once", async () => {
  const page = await openReady();
  await settled(page, () => page.fill(TARGET, "घर है ।"));
  await expect.poll(() => page.locator("#grid-training .row-label").count()).toBeGreaterThan(2);
  expect(await page.locator(".box:nth-of-type(2) .piece").first().textContent()).toContain("घर");
});

test("a sentence that is too long is kept, and both ways out work", async () => {
  const page = await openReady({ expects: /422/ });
  const long = "घर ".repeat(70);
  await page.fill(TARGET, long);
  await page.waitForSelector('[data-notice="too_long"]');
  expect(await page.inputValue(TARGET)).toBe(long);
  await settled(page, () => page.click('[data-notice="too_long"] button:first-of-type'));
  await page.waitForSelector('[data-notice="cut"]');
  expect(await page.locator("#grid-training canvas").count()).toBeGreaterThan(0);
  await page.fill(TARGET, `${long}घर`);
  await page.waitForSelector('[data-notice="too_long"]');
  await settled(page, () => page.click('[data-notice="too_long"] button:last-of-type'));
  await page.waitForSelector('[data-notice="too_long"]', { state: "detached" });
  expect(await page.locator('[data-notice="cut"]').count()).toBe(0);
  expect(await page.getAttribute("#grid-training", "aria-rowcount").then(Number)).toBeGreaterThan(
    65,
  );
});

test("letters the model never saw are named, and the sentence still runs", async () => {
  const page = await openReady();
  await settled(page, () => page.fill("#text-source", "Ωhm ☃ home"));
  await expect.poll(() => page.textContent(".strange")).toContain("☃");
  expect(await page.locator(".piece.byte").count()).toBeGreaterThan(0);
  await page.waitForSelector("#grid-training [data-col]");
});

test("markup is text wherever it is shown", async () => {
  const page = await openReady();
  const markup = "<img src=x onerror=alert(1)>";
  await settled(page, () => page.fill(TARGET, markup));
  await expect.poll(() => page.textContent("#grid-training")).toContain("<");
  expect(await page.locator("main img").count()).toBe(0);
});

test("a slow answer shows a bar, then a way to cancel", async () => {
  const page = await openReady();
  await page.route("**/api/trace", async (route) => {
    await new Promise((done) => setTimeout(done, 4000));
    await route.abort().catch(() => {});
  });
  await page.fill(TARGET, "घर");
  await page.waitForSelector(".lanes > .progress");
  await page.click('[data-notice="long"] button');
  await page.waitForSelector('[data-notice="cancelled"]');
});

test("a lost server is said, the last trace stays usable, and it comes back by itself", async () => {
  const page = await openReady({ expects: /ERR_INTERNET_DISCONNECTED/ });
  await page.context().setOffline(true);
  await page.keyboard.press("m");
  await page.waitForSelector('[data-notice="offline"]');
  await page.keyboard.press("2");
  expect(await page.locator("#grid-training [data-state=causal]").count()).toBeGreaterThan(0);
  expect(await page.locator(".switches input[type=checkbox]:enabled").count()).toBe(0);
  await page.context().setOffline(false);
  await page.waitForSelector('[data-notice="offline"]', { state: "detached" });
  await expect.poll(() => page.locator("#grid-training [data-state=causal]").count()).toBe(0);
});

test("while the model loads, its name and what is being done are shown", async () => {
  let isReady = false;
  const page = await open({
    before: (page) =>
      page.route("**/api/model", async (route) => {
        const answer = await route.fetch();
        const state = await answer.json();
        const loading = {
          ...state,
          state: "loading",
          phase: "reading weights 34 of 38 MB",
          models: [],
        };
        await route.fulfill({ response: answer, json: isReady ? state : loading });
      }),
  });
  await expect
    .poll(() => page.textContent("[role=status]"))
    .toContain("reading weights 34 of 38 MB");
  isReady = true;
  await page.waitForSelector("[role=gridcell]");
});

test("bad numbers are outlined and explained, with the way to the audit", async () => {
  const page = await openReady({
    before: (page) =>
      page.route("**/api/trace", async (route) => {
        const answer = await route.fetch();
        const trace = await answer.json();
        trace.head.training.weights[2] = trace.head.training.weights[2].map(() => null);
        await route.fulfill({ response: answer, json: trace });
      }),
  });
  expect(await page.textContent('[data-notice="bad"]')).toContain("row 3");
  await page.click('[data-notice="bad"] button');
  await page.waitForSelector("dialog[open]");
});

test("a model that writes nothing has one lane, says why, and guesses a covered word", async () => {
  const page = await openReady({ address: prepared.others });
  await settled(page, () => page.selectOption(".model select", "reader"));
  expect(await page.textContent(".lane.inference .reason")).toContain("all words at once");
  const audit = page.locator(".bar .doors button", { hasText: "Audit" });
  expect(await audit.isDisabled()).toBe(true);
  expect(await audit.getAttribute("title")).toContain("not meant for an encoder");
  await settled(page, () => page.click("button.piece >> nth=1"));
  await page.keyboard.press("5");
  await page.waitForSelector(".losses .share", { state: "attached" });
  expect(await page.locator(".choices li").count()).toBeGreaterThan(3);
});

test("a decoder-only model has one text box and both lanes", async () => {
  const page = await openReady({ address: prepared.others });
  expect(await page.locator(".box").count()).toBe(1);
  await page.waitForSelector("#grid-inference [data-col]");
});

test("another known model is opened from the menu; one that has gone is named", async () => {
  const page = await openReady({ expects: /400/ });
  await page.selectOption(".model select", "runs/gone");
  await expect.poll(() => page.textContent('[data-notice="open"]')).toContain("does not exist");
  expect(await page.locator(".box").count()).toBe(2);
  await settled(page, () => page.selectOption(".model select", "runs/writer"));
  await expect.poll(() => page.locator(".box").count()).toBe(1);
  expect(await page.textContent(".facts")).toContain("decoder-only");
  expect(await page.locator('[data-notice="open"]').count()).toBe(0);
  await page.selectOption(".model select", "main");
  await expect.poll(() => page.locator(".box").count()).toBe(2);
  expect(await page.inputValue("#text-source")).toBe(prepared.source);
});

test("a link made with another model says so; a damaged one says that", async () => {
  const fragment = await pack(
    { ...START, source: "home", target: "घर", stage: 2 },
    "other",
    "77ab77ab",
  );
  const page = await openReady({ path: `#${fragment}` });
  expect(await page.textContent('[data-notice="link"]')).toContain("made with other (77ab…)");
  expect(await page.inputValue(TARGET)).toBe("घर");
  expect(await page.textContent(".stage h2")).toContain("Scores");
  const damaged = await openReady({ path: "#v1.AAAA" });
  await damaged.waitForSelector('[data-notice="link"]');
});

test("padding columns are hidden in another way than the future", async () => {
  const page = await openReady();
  await page.keyboard.press("1");
  await settled(page, () => page.selectOption(".mask-parts select", "2"));
  await expect
    .poll(() => page.locator("#grid-training [data-state=padding]").count())
    .toBeGreaterThan(0);
});
