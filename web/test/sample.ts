import type {
  Kind,
  MaskParts,
  ModelCard,
  Token,
  Trace,
  WireHead,
  WireLane,
} from "../src/data/types";
import { softmax } from "../src/logic/softmax";

/** A sentence of three tokens and one head, worked out here: "घर" is two pieces of one word. */

export function token(text: string, more: Partial<Token> = {}): Token {
  return {
    id: text.length,
    piece: text || "<s>",
    text,
    role: text ? "text" : "start",
    start: 0,
    end: 0,
    byte_start: 0,
    byte_end: 0,
    word: null,
    byte: null,
    is_unknown: false,
    starts_with_sign: false,
    ...more,
  };
}

export const COLUMNS = [
  token(""),
  token("घ", { start: 0, end: 1, word: 0 }),
  token("र", { start: 1, end: 2, word: 0 }),
];

const SCORES = [
  [0.5, 2, 3],
  [1, -1, 4],
  [0.25, 0.5, 0.75],
];

function lane(isRagged: boolean, isMasked: boolean): WireLane {
  const masked = SCORES.map((row, r) => row.map((x, c) => (c <= r || !isMasked ? x : null)));
  const cut = <T>(rows: T[][]) => (isRagged ? rows.map((row, r) => row.slice(0, r + 1)) : rows);
  const weights = masked.map((row) => [...softmax(row.map((x) => x ?? Number.NEGATIVE_INFINITY))]);
  const vectors = [
    [1, 2],
    [3, 4],
    [5, 6],
  ];
  return {
    q: vectors,
    k: vectors,
    v: vectors,
    scores: cut(SCORES),
    masked: cut(masked),
    weights: cut(weights),
    out: vectors,
    bias: null,
  };
}

export function wireHead(kind: Kind = "decoder_self", isMasked = true): WireHead {
  return {
    kind,
    layer: 0,
    head: 0,
    kv_head: 0,
    scale: 1 / Math.sqrt(2),
    trace: "t1",
    training: lane(false, isMasked),
    inference: kind === "encoder_self" ? null : lane(true, true),
    rows: COLUMNS,
    columns: COLUMNS,
  };
}

const CARD: ModelCard = {
  key: "main",
  name: "tiny",
  family: "encoder-decoder",
  is_cheater: false,
  mask: "causal",
  n_encoder_layers: 1,
  n_decoder_layers: 1,
  n_heads: 1,
  n_kv_heads: 1,
  d_model: 2,
  head_dim: 2,
  vocab_size: 9,
  n_parameters: 99,
  hash: "abcdef0123456789",
  training: null,
  source_lang: "en",
  target_lang: "hi",
  kinds: [{ kind: "decoder_self", n_layers: 1, n_heads: 1, is_masked: true }],
  has_tokenizer: true,
  can: { inference: true, beam: true, cover: false, mask_off: true, audit: true },
  why_not: { cover: "no" },
  limits: { tokens: 64, hard_tokens: 256, characters: 4000, max_new: 64 },
};

/** The trace around that head. */
export function sampleTrace(change: Partial<Trace> = {}): Trace {
  const allowed = COLUMNS.map((_, r) => COLUMNS.map((_, c) => c <= r));
  const padding = COLUMNS.map(() => COLUMNS.map(() => true));
  const mask: MaskParts = { causal: allowed, padding, allowed };
  const wanted = [COLUMNS[1]!, COLUMNS[2]!, token("</s>", { role: "end" })];
  const chosen = { id: 1, text: "घ", prob: 0.7, log_prob: Math.log(0.7) };
  const tokens = {
    text: "घर",
    lang: "hi",
    tokens: COLUMNS.slice(1),
    n: 2,
    limit: 64,
    hard_limit: 256,
    strange: [],
  };
  return {
    version: 1,
    id: "t1",
    model: CARD,
    settings: {
      target: "typed",
      inputs: "same",
      forced: [],
      is_masked: true,
      is_cached: true,
      cover: [],
      pad: 0,
      n_given: 1,
      long: "refuse",
    },
    cut: null,
    source: {
      ...tokens,
      text: "home",
      lang: "en",
      tokens: [token("home", { end: 4, word: 0 })],
      n: 1,
    },
    target: tokens,
    columns: COLUMNS,
    wanted,
    masks: { decoder_self: mask, cross: mask },
    training: {
      rows: [0, 1, 2].map((row) => ({
        row,
        target: 1,
        log_prob: -0.5,
        loss: 0.5,
        prob: Math.exp(-0.5),
        rank: 0,
        is_counted: true,
        candidates: [chosen],
      })),
      loss: 0.5,
      n_targets: 3,
      ms: 1,
      passes: 1,
      scores: 9,
    },
    inference: {
      columns: COLUMNS,
      steps: [0, 1, 2].map((step) => ({
        step,
        row: step,
        is_given: true,
        cache_length: step + 1,
        reused: step,
        cache_bytes: 100,
        ms: 1,
        scores: step + 1,
        chosen,
        is_forced: false,
        candidates: [chosen],
        is_end: step === 2,
        next: COLUMNS[step + 1] ?? null,
      })),
      stopped: "rows",
      ms: 3,
      passes: 3,
      scores: 6,
      scores_cached: 6,
      scores_uncached: 14,
      text: null,
    },
    sameness: {
      tolerance: 1e-5,
      is_same: true,
      largest: 3e-7,
      n_rows: 3,
      rows: [1e-7, 2e-7, 3e-7].map((largest, row) => ({
        row,
        weights: largest,
        probs: 0,
        largest,
      })),
      first_difference: null,
      measured: "weights and probabilities",
    },
    heads: [],
    problems: [],
    head: wireHead(),
    ...change,
  };
}
