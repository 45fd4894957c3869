export const FONT =
  '"Noto Sans Devanagari Variable", "Nirmala UI", Mangal, Kohinoor, system-ui, sans-serif';

let pen: CanvasRenderingContext2D | null = null;

/** The width of a text in the page's font, in pixels. */
export function textWidth(text: string, size: number): number {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return text.length * size;
  pen.font = `${size}px ${FONT}`;
  return pen.measureText(text).width;
}

/** The bundled font's file as base64; null where the page came without it. */
export async function fontData(): Promise<string | null> {
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (!(rule instanceof CSSFontFaceRule)) continue;
      const address = /url\("?([^")]+)/.exec(rule.style.getPropertyValue("src"))?.[1];
      if (address) return base64(new URL(address, sheet.href ?? document.baseURI).href);
    }
  }
  return null;
}

async function base64(address: string): Promise<string> {
  const inside = /^data:[^,]*;base64,(.*)$/s.exec(address)?.[1];
  if (inside) return inside; // a one-file page has the font in its style sheet
  const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters);
}
