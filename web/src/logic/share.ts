import { type Lang, START, type Stage, type View } from "./view";

/** The link holds the state in the fragment, which browsers never send to a server. */

/** What two people must have in common to see the same: which model, and what is looked at. */
export interface Shared {
  name: string;
  hash: string;
  view: Partial<View>;
}

const KEPT = [
  "model",
  "source",
  "target",
  "author",
  "cover",
  "pad",
  "kind",
  "stage",
  "heads",
  "row",
  "col",
  "rows",
  "step",
  "inputs",
  "forced",
  "isMasked",
  "isCached",
  "isGrouped",
  "isTable",
  "lane",
  "lang",
] as const satisfies readonly (keyof View)[];

export const LONGEST = 2000;

async function through(
  bytes: Uint8Array<ArrayBuffer>,
  stream: GenericTransformStream,
): Promise<Uint8Array> {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

/** The fragment for this view: what differs from the start, deflated, in letters a URL may hold. */
export async function pack(view: View, name: string, hash: string): Promise<string> {
  const kept = KEPT.filter((key) => JSON.stringify(view[key]) !== JSON.stringify(START[key]));
  const shared: Shared = {
    name,
    hash,
    view: Object.fromEntries(kept.map((key) => [key, view[key]])),
  };
  const raw = new TextEncoder().encode(JSON.stringify(shared));
  const small = await through(raw, new CompressionStream("deflate-raw"));
  const letters = btoa(String.fromCharCode(...small));
  return `v1.${letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

type Test = (value: unknown) => boolean;
const isText: Test = (v) => typeof v === "string" && v.length <= 4000;
const isFlag: Test = (v) => typeof v === "boolean";
const isCount: Test = (v) => Number.isInteger(v) && (v as number) >= 0;
const among =
  (...words: unknown[]): Test =>
  (v) =>
    words.includes(v);
const listOf =
  (test: Test): Test =>
  (v) =>
    Array.isArray(v) && v.length <= 256 && v.every(test);

const TESTS: Record<(typeof KEPT)[number], Test> = {
  model: isText,
  source: isText,
  target: isText,
  author: among("typed", "model"),
  cover: listOf(isCount),
  pad: isCount,
  kind: among("decoder_self", "encoder_self", "cross"),
  stage: among(1, 2, 3, 4, 5 satisfies Stage),
  heads: (v) =>
    listOf(
      (h) => isCount((h as { layer: unknown }).layer) && isCount((h as { head: unknown }).head),
    )(v) && (v as unknown[]).length > 0,
  row: isCount,
  col: isCount,
  rows: listOf(isCount),
  step: isCount,
  inputs: among("same", "own"),
  forced: listOf(isCount),
  isMasked: isFlag,
  isCached: isFlag,
  isGrouped: isFlag,
  isTable: isFlag,
  lane: among("training", "inference"),
  lang: among("en", "hi" satisfies Lang),
};

/** What a fragment says, or null if it is none of ours. A stranger wrote it: each field is tested. */
export async function unpack(fragment: string): Promise<Shared | null> {
  const letters = /^#?v1\.([\w-]+)$/.exec(fragment)?.[1];
  if (!letters) return null;
  try {
    const bytes = Uint8Array.from(atob(letters.replaceAll("-", "+").replaceAll("_", "/")), (c) =>
      c.charCodeAt(0),
    );
    const raw = await through(bytes, new DecompressionStream("deflate-raw"));
    const { name, hash, view } = JSON.parse(new TextDecoder().decode(raw)) as Shared;
    if (!isText(name) || !isText(hash)) return null;
    const good = KEPT.filter((key) => key in view && TESTS[key](view[key]));
    return { name, hash, view: Object.fromEntries(good.map((key) => [key, view[key]])) };
  } catch {
    return null; // cut off or altered on the way
  }
}
