// Measures what the page may cost and prints it beside its limit; exit code 1 if a limit is broken.
// Usage: npm run budget -- http://127.0.0.1:7070/   (a page that `lookleft explain` serves)
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const STATIC = join(import.meta.dirname, "../../src/lookleft/explore/static/assets");
const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";
const WORDS = "घर जा रहा हूँ मैं ";

let isOver = false;

function report(what, found, limit, unit) {
  const isKept = found <= limit;
  isOver ||= !isKept;
  console.log(
    `${isKept ? "ok  " : "OVER"} ${what.padEnd(44)} ${found.toFixed(1)} ${unit} (limit ${limit})`,
  );
}

/** The middle of several timings, in milliseconds. */
function median(times) {
  return [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)];
}

/** Milliseconds from each key press until the page has drawn the next frame. */
async function pressed(page, key, times) {
  await page.keyboard.press("Escape");
  return page.evaluate(
    async ([key, times]) => {
      const found = [];
      for (let i = 0; i < times; i++) {
        const begun = performance.now();
        window.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        await new Promise((done) => requestAnimationFrame(done));
        document.body.getBoundingClientRect(); // the layout is part of the price
        found.push(performance.now() - begun);
      }
      return found;
    },
    [key, times],
  );
}

/** Types text until the right lane has about `n` steps. */
async function withTokens(page, n) {
  const count = () => page.locator(".counter").last().textContent();
  const text = WORDS.repeat(Math.ceil(n / 5)).split(" ");
  let words = n;
  do {
    await page.fill("#text-target", text.slice(0, words).join(" "));
    await page.waitForTimeout(1500);
    words -= Math.max(1, Math.ceil(words / 12));
  } while (Number.parseInt(await count(), 10) > n && words > 0);
  const wayOut = page.locator('[data-notice="too_long"] button').last();
  if (await wayOut.count()) await wayOut.click();
  await page.waitForTimeout(3000);
  return Number.parseInt(await count(), 10);
}

const app = join(STATIC, "app.js");
if (!existsSync(app)) {
  console.error(`${app} is missing: run npm run build`);
  process.exit(1);
}
report("JavaScript, gzip, without the font", gzipSync(readFileSync(app)).length / 1000, 60, "kB");

const url = process.argv[2];
if (url) {
  const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  const firsts = [];
  for (let i = 0; i < 3; i++) {
    const begun = performance.now();
    await page.goto(url);
    await page.waitForSelector("#grid-training [data-col]");
    firsts.push(performance.now() - begun);
  }
  report("first view, until the grids are drawn", median(firsts), 1000, "ms");
  const few = await withTokens(page, 32);
  await page.keyboard.press("Escape");
  await page.click(".lane.inference button:first-of-type");
  report(
    `one step at ${few} tokens, until the next frame`,
    median(await pressed(page, "ArrowDown", 12)),
    50,
    "ms",
  );
  const middle = await withTokens(page, 64);
  report(`one step at ${middle} tokens`, median(await pressed(page, "ArrowDown", 12)), 50, "ms");
  const many = await withTokens(page, 250);
  report(
    `one step at ${many} tokens (canvas)`,
    median(await pressed(page, "ArrowDown", 12)),
    200,
    "ms",
  );
  await browser.close();
}
process.exit(isOver ? 1 : 0);
