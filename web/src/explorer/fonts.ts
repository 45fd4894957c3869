import { langOf } from "../logic/labels";

const LONGEST_MS = 1500;

/** Waits for the bundled font if the text needs it: widths are measured, and boxes are no letters. */
export async function fontFor(text: string): Promise<void> {
  if (langOf(text) !== "hi") return;
  const late = new Promise((done) => window.setTimeout(done, LONGEST_MS));
  await Promise.race([document.fonts.load('16px "Noto Sans Devanagari Variable"', "क"), late]);
}
