import { Matrix } from "./matrix";
import type { Kind, Numbers, Token, WireHead, WireLane } from "./types";

/** One lane of one head. A place that does not exist in this lane is NaN. */
export interface LaneNumbers {
  q: Matrix;
  k: Matrix;
  v: Matrix;
  scores: Matrix;
  masked: Matrix;
  weights: Matrix;
  out: Matrix;
  bias: Matrix | null;
  lengths: number[]; // how many columns each row really has
}

export interface Head {
  kind: Kind;
  layer: number;
  head: number;
  scale: number;
  rows: Token[];
  columns: Token[];
  training: LaneNumbers;
  inference: LaneNumbers | null;
}

/** Numbers in rows of unlike length -> a full matrix; `none` stands for null, NaN for what is not there. */
export function matrix(rows: Numbers, width: number, none = Number.NaN): Matrix {
  return Matrix.from(rows.length, width, (r, c) => {
    const row = rows[r]!;
    return c < row.length ? (row[c] ?? none) : Number.NaN;
  });
}

function lane(wire: WireLane, columns: number): LaneNumbers {
  const width = (m: Numbers) => Math.max(0, ...m.map((row) => row.length));
  return {
    q: matrix(wire.q, width(wire.q)),
    k: matrix(wire.k, width(wire.k)),
    v: matrix(wire.v, width(wire.v)),
    scores: matrix(wire.scores, columns),
    masked: matrix(wire.masked, columns, Number.NEGATIVE_INFINITY),
    weights: matrix(wire.weights, columns),
    out: matrix(wire.out, width(wire.out)),
    bias: wire.bias && matrix(wire.bias, columns),
    lengths: wire.weights.map((row) => row.length),
  };
}

/** The head as the page uses it. */
export function readHead(wire: WireHead): Head {
  return {
    kind: wire.kind,
    layer: wire.layer,
    head: wire.head,
    scale: wire.scale,
    rows: wire.rows,
    columns: wire.columns,
    training: lane(wire.training, wire.columns.length),
    inference: wire.inference && lane(wire.inference, wire.columns.length),
  };
}

/** A thumbnail's bytes as weights from 0 to 1. */
export function readThumbnail(data: string): Float64Array {
  return Float64Array.from(atob(data), (c) => c.charCodeAt(0) / 255);
}
