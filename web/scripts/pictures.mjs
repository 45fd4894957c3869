// Takes the pictures of the page that the documentation shows.
// Usage: npm run pictures -- http://127.0.0.1:7070/   (with --cheater, else two of three)
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FOLDER = join(import.meta.dirname, "../../docs/images");
const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";
const WIDTH = 1120;

const url = process.argv[2];
if (!url) {
  console.error("give the address of a page that `lookleft explain` serves");
  process.exit(1);
}
mkdirSync(FOLDER, { recursive: true });
const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });

async function opened(options) {
  const context = await browser.newContext({
    viewport: { width: WIDTH, height: 900 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForSelector("#grid-training [data-col]");
  await page.click('[data-notice="tour"] button:last-child');
  return page;
}

/** A picture from the top of one element to the end of another. */
async function picture(page, name, from, to) {
  const begin = await page.locator(from).boundingBox();
  const end = await page.locator(to).boundingBox();
  await page.screenshot({
    path: join(FOLDER, `${name}.png`),
    fullPage: true,
    animations: "disabled",
    clip: {
      x: 0,
      y: Math.max(0, begin.y - 8),
      width: WIDTH,
      height: end.y + end.height - begin.y + 16,
    },
  });
}

const first = await opened({});
await first.mouse.move(0, 0);
await picture(first, "explorer", ".bar", ".lanes");

const dark = await opened({ colorScheme: "dark", locale: "hi-IN" });
await dark.keyboard.press("2");
await picture(dark, "explorer-hindi", ".rail", ".sameness");

if (await first.locator(".model option[value=cheater]").count()) {
  const answer = first.waitForResponse((response) => response.url().includes("/api/trace"));
  await first.selectOption(".model select", "cheater");
  await answer;
  for (let i = 0; i < 2; i++) await first.keyboard.press("ArrowDown");
  await first.waitForSelector(".answer[data-same=false]");
  await picture(first, "explorer-cheater", ".lanes", ".sameness");
}
await browser.close();
