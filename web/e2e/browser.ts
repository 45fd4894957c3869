import { readFileSync } from "node:fs";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";

/** What the Python side prepared: a running server, a one-file page, and numbers of its own. */
export interface Prepared {
  url: string; // translators
  others: string; // a decoder-only and an encoder-only model
  file: string;
  chromium: string;
  weights: number[][]; // decoder self-attention, layer 1, head 2 of the default sentence, masked
  scores: number[][];
  unmasked: number[][]; // the same weights without the mask
  source: string;
  target: string;
}

export const prepared = JSON.parse(
  readFileSync(process.env.LOOKLEFT_PREPARED ?? "", "utf8"),
) as Prepared;

let browser: Browser;
const strayed: string[] = [];
const complaints: string[] = [];

beforeAll(async () => {
  browser = await chromium.launch({ executablePath: prepared.chromium, args: ["--no-sandbox"] });
});
afterAll(async () => {
  await browser.close();
});
afterEach(() => {
  // After every test, whatever it was about: nothing left the origin, nothing broke on the way.
  expect(strayed.splice(0)).toEqual([]);
  expect(complaints.splice(0)).toEqual([]);
});

export interface Opening {
  path?: string; // after the address of the server
  address?: string; // instead of it
  options?: BrowserContextOptions;
  before?: (page: Page) => Promise<unknown>;
  expects?: RegExp; // complaints of the browser that belong to the test
}

/** A page in a fresh context. Requests to any other place and complaints are written down. */
export async function open({
  path = "",
  address,
  options,
  before,
  expects,
}: Opening = {}): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1400, height: 1000 },
    reducedMotion: "reduce",
    ...options,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const home = address ?? prepared.url;
  page.on("request", (request) => {
    const url = request.url();
    const isOwn = url.startsWith(home) || url.startsWith("data:") || url.startsWith("blob:");
    if (!isOwn) strayed.push(url);
  });
  page.on("console", (message) => {
    if (message.type() === "error" && !expects?.test(message.text()))
      complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  await before?.(page);
  await page.goto(home + path);
  return page;
}

/** A page whose grids are drawn. */
export async function openReady(opening: Opening = {}): Promise<Page> {
  const page = await open(opening);
  await page.waitForSelector("[role=gridcell]", { state: "attached" });
  return page;
}

/** All numbers of a lane as its cells hold them; NaN where a cell does not exist. */
export async function cells(page: Page, lane: "training" | "inference"): Promise<number[][]> {
  return page.$$eval(`#grid-${lane} [role=row]:has([data-col])`, (rows) =>
    rows.map((row) =>
      [...row.querySelectorAll<HTMLElement>("[data-col]")].map((cell) =>
        Number(cell.dataset.value ?? "NaN"),
      ),
    ),
  );
}

/** Waits until the page shows a trace with these settings. */
export async function settled(page: Page, action: () => Promise<unknown>): Promise<void> {
  const answer = page.waitForResponse((response) => response.url().includes("/api/trace"));
  await action();
  await answer;
  await page.waitForTimeout(60);
}
