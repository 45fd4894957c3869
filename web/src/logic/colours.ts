import { interpolateRgb } from "d3-interpolate";
import { scaleDiverging, scaleSequential } from "d3-scale";
import { interpolateCividis } from "d3-scale-chromatic";

/** A cell's ground and the ink that reads on it. */
export interface Paint {
  ground: string;
  ink: string;
}

export type Ramp = (x: number) => Paint;

// Blue, white, vermillion of the Okabe-Ito set: told apart without red-green vision.
const cool = interpolateRgb("#0072B2", "#F7F7F7");
const warm = interpolateRgb("#F7F7F7", "#D55E00");

function luminance(colour: string): number {
  const parts = colour.startsWith("#")
    ? [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16))
    : (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  const [r = 0, g = 0, b = 0] = parts.map((v) => {
    const s = v / 255;
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The WCAG contrast ratio of two colours. */
export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function painted(ground: string): Paint {
  // One of the two reaches 4.5 on any ground, which no softer black does.
  return { ground, ink: contrast(ground, "#ffffff") >= 4.5 ? "#ffffff" : "#000000" };
}

const NO_NUMBER: Paint = { ground: "#d0d0d0", ink: "#000000" };

const SHADES = 512; // more than an eye tells apart; each is worked out once

/** Shades between `low` and `high`, kept once made: a large grid asks for thousands. */
function shades(low: number, high: number, colour: (x: number) => string): Ramp {
  const kept: Paint[] = [];
  return (x) => {
    if (Number.isNaN(x)) return NO_NUMBER;
    const i = Math.round((SHADES * (Math.max(low, Math.min(high, x)) - low)) / (high - low));
    kept[i] ??= painted(colour(low + (i * (high - low)) / SHADES));
    return kept[i];
  };
}

/** Weights from 0 to 1 on cividis, made for colour-vision deficiency and fine in grey print. */
export function weightRamp(): Ramp {
  const shade = shades(0, 1, scaleSequential(interpolateCividis).domain([0, 1]));
  // The square root lifts small weights out of the dark end: 0.05 and 0 must look different.
  return (x) => shade(Math.sqrt(x));
}

/** Scores around zero: blue below, white at zero, vermillion above. */
export function scoreRamp(low: number, high: number): Ramp {
  const reach = Math.max(Math.abs(low), Math.abs(high), 1e-9);
  const colour = (u: number) => (u < 0.5 ? cool(u * 2) : warm(u * 2 - 1));
  return shades(-reach, reach, scaleDiverging(colour).domain([-reach, 0, reach]));
}
