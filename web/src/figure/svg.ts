import { INK, type Mark, type Scene } from "./scene";

const FAMILY = "'Noto Sans Devanagari Variable', 'Nirmala UI', Mangal, Kohinoor, sans-serif";

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

function element(mark: Mark): string {
  if (mark.mark === "text") {
    const { x, y, text, size, fill, anchor } = mark;
    return `<text x="${x}" y="${y}" font-size="${size}" fill="${fill}" text-anchor="${anchor}">${escaped(text)}</text>`;
  }
  const box = `x="${mark.x}" y="${mark.y}" width="${mark.w}" height="${mark.h}"`;
  if (mark.mark === "box") return `<rect ${box} fill="${mark.fill}"/>`;
  if (mark.mark === "hatch") return `<rect ${box} fill="url(#hatch)"/>`;
  return `<rect ${box} fill="none" stroke="${INK.line}" stroke-dasharray="2 3"/>`;
}

/** The scene as an SVG file with real text. `font`: a woff2 as base64, to look the same everywhere. */
export function svgOf({ width, height, marks }: Scene, font: string | null = null): string {
  const face = font
    ? `<style>@font-face{font-family:'Noto Sans Devanagari Variable';src:url(data:font/woff2;base64,${font})}</style>`
    : "";
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FAMILY}">`,
    face,
    `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`,
    `<rect width="6" height="6" fill="${INK.ground}"/><line x1="0" y1="0" x2="0" y2="6" stroke="${INK.line}" stroke-width="1.5"/></pattern></defs>`,
    `<rect width="${width}" height="${height}" fill="${INK.ground}"/>`,
    ...marks.map(element),
    "</svg>\n",
  ].join("\n");
}
