/** The trace, version 1, as the Python side writes it. `null` in a matrix is −∞ or a bad number. */

export type Kind = "decoder_self" | "encoder_self" | "cross";
export type Family = "encoder-decoder" | "decoder-only" | "encoder-only";
export type Inputs = "same" | "own";
export type Author = "typed" | "model";
export type Numbers = (number | null)[][];

export interface Token {
  id: number;
  piece: string;
  text: string;
  role: "text" | "start" | "end" | "special" | "mask" | "pad";
  start: number;
  end: number;
  byte_start: number;
  byte_end: number;
  word: number | null;
  byte: string | null;
  is_unknown: boolean;
  starts_with_sign: boolean;
}

export interface Strange {
  text: string;
  start: number;
  end: number;
  n_bytes: number;
  is_lost: boolean;
}

export interface Tokens {
  text: string;
  lang: string | null;
  tokens: Token[];
  n: number;
  limit: number;
  hard_limit: number;
  strange: Strange[];
}

export interface KindCard {
  kind: Kind;
  n_layers: number;
  n_heads: number;
  is_masked: boolean;
}

export type Skill = "inference" | "beam" | "cover" | "mask_off" | "audit";

export interface ModelCard {
  key: string;
  name: string;
  family: Family;
  is_cheater: boolean;
  mask: "causal" | "none" | null;
  n_encoder_layers: number | null;
  n_decoder_layers: number | null;
  n_heads: number;
  n_kv_heads: number;
  d_model: number;
  head_dim: number;
  vocab_size: number;
  n_parameters: number;
  hash: string;
  training: { step: number | null; data: string | null } | null;
  source_lang: string | null;
  target_lang: string | null;
  kinds: KindCard[];
  has_tokenizer: boolean;
  can: Record<Skill, boolean>;
  why_not: Partial<Record<Skill, string>>;
  limits: { tokens: number; hard_tokens: number; characters: number; max_new: number };
}

export interface Candidate {
  id: number;
  text: string;
  prob: number;
  log_prob: number;
}

export interface TrainingRow {
  row: number;
  target: number;
  log_prob: number;
  loss: number;
  prob: number;
  rank: number;
  is_counted: boolean;
  candidates: Candidate[];
}

export interface Step {
  step: number;
  row: number;
  is_given: boolean;
  cache_length: number;
  reused: number;
  cache_bytes: number;
  ms: number;
  scores: number;
  chosen: Candidate; // what the step is taken to say
  is_forced: boolean; // the reader chose it, not the model
  candidates: Candidate[];
  is_end: boolean;
  next: Token | null;
}

export interface Inference {
  columns: Token[];
  steps: Step[];
  stopped: "end" | "rows";
  ms: number;
  passes: number;
  scores: number;
  scores_cached: number;
  scores_uncached: number;
  text: string | null;
}

export interface Sameness {
  tolerance: number;
  is_same: boolean;
  largest: number;
  n_rows: number;
  rows: ({ row: number; weights: number; probs: number; largest: number } | null)[];
  first_difference: number | null;
  measured: string;
}

export interface MaskParts {
  causal: boolean[][] | null;
  padding: boolean[][];
  allowed: boolean[][];
}

export interface HeadCard {
  kind: Kind;
  layer: number;
  head: number;
  tag: "previous" | "self" | "first" | "spread" | "aligned" | "mixed";
  entropy: number;
  thumbnail: { rows: number; columns: number; data: string };
}

export interface Problem {
  kind: Kind;
  layer: number;
  head: number;
  row: number;
  what: "not_finite" | "row_sum" | "sees_nothing";
  message: string;
}

export interface Settings {
  target: Author;
  inputs: Inputs;
  forced: number[];
  is_masked: boolean;
  is_cached: boolean;
  cover: number[];
  pad: number;
  n_given: number;
  long: "refuse" | "cut" | "window";
}

export interface Trace {
  version: number;
  id: string;
  model: ModelCard;
  settings: Settings;
  cut: { side: "source" | "target"; kept: number; of: number } | null;
  source: Tokens | null;
  target: Tokens;
  columns: Token[];
  wanted: Token[];
  masks: Partial<Record<Kind, MaskParts>>;
  training: {
    rows: TrainingRow[];
    loss: number | null; // null: no row is counted
    n_targets: number;
    ms: number;
    passes: number;
    scores: number;
  };
  inference: Inference | null;
  sameness: Sameness | null;
  heads: HeadCard[];
  problems: Problem[];
  head: WireHead;
}

export interface WireLane {
  q: Numbers;
  k: Numbers;
  v: Numbers;
  scores: Numbers;
  masked: Numbers;
  weights: Numbers;
  out: Numbers;
  bias: Numbers | null;
}

export interface WireHead {
  kind: Kind;
  layer: number;
  head: number;
  kv_head: number;
  scale: number;
  trace: string;
  training: WireLane;
  inference: WireLane | null;
  rows: Token[];
  columns: Token[];
}
