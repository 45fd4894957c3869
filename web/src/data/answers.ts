import type { Author, Inputs, Kind, ModelCard, Token, Trace, WireHead } from "./types";

/** What the routes beside the trace take and give. */

export interface Example {
  source: string | null;
  target: string | null;
  difficulty: number;
}

export interface ModelState {
  version: number;
  state: "ready" | "loading" | "failed";
  name: string;
  phase: string | null;
  message: string | null;
  models: ModelCard[];
  examples: Example[];
  first: Record<string, Example>; // by model: the sentence it begins with
  known: string[]; // models that can be opened too
  command: string;
  lookleft: string;
}

export interface TraceRequest {
  model: string;
  source: string | null;
  target: string | null;
  target_from: Author;
  inputs: Inputs;
  forced: number[]; // ids that the first steps are taken to say
  is_masked: boolean | null; // null: as the model was trained
  is_cached: boolean;
  cover: number[];
  pad: number;
  long: "refuse" | "cut" | "window";
  kind: Kind;
  layer: number;
  head: number;
}

export interface Proof {
  tries: number;
  row: number;
  column: number;
  is_hidden: boolean;
  moved: number;
  head_moved: number;
  control_moved: number | null;
  control_row: number | null;
  replacements: string[];
  sentence: string;
}

export interface BeamNode {
  id: number;
  parent: number | null;
  step: number;
  token: { id: number; text: string };
  log_prob: number;
  score: number;
  state: "open" | "ended" | "dropped";
  is_best: boolean;
}

export interface Beam {
  size: number;
  nodes: BeamNode[];
  best: number[];
  hypotheses: { text: string; log_prob: number; score: number; node: number }[];
}

export interface Audit {
  verdict: "VERIFIED" | "DISPROVED" | "INCONCLUSIVE";
  sentence: string;
  seconds: number;
  tokens: Token[];
  moved: (number | null)[][];
  allowed: boolean[][];
  worst: { output: number; input: number; moved: number } | null;
  module: string | null;
  findings: { check: string; title: string; verdict: string; reason: string }[];
  pytest: string;
}

export interface FileData {
  version: number;
  command: string;
  lookleft: string;
  models: ModelCard[];
  scope: "head" | "layer" | "all";
  views: { trace: Trace; heads: WireHead[] }[];
  audit: Audit | null;
  beam: Beam | null;
}

/** An error with the code and details that the server sent, or "offline" when none answered. */
export class Refusal extends Error {
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(code: string, message: string, details: Record<string, unknown> = {}) {
    super(message);
    this.name = "Refusal";
    this.code = code;
    this.details = details;
  }
}
