/** A rectangle of numbers, row by row: the one shape in which the page keeps what the model said. */
export class Matrix {
  readonly rows: number;
  readonly cols: number;
  readonly data: Float64Array;

  constructor(rows: number, cols: number, data: ArrayLike<number>) {
    if (data.length !== rows * cols) {
      throw new RangeError(`${data.length} numbers do not fill ${rows} rows of ${cols}`);
    }
    this.rows = rows;
    this.cols = cols;
    this.data = data instanceof Float64Array ? data : Float64Array.from(data);
  }

  /** The matrix of `cell(row, col)`. */
  static from(rows: number, cols: number, cell: (row: number, col: number) => number): Matrix {
    const data = new Float64Array(rows * cols);
    for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) data[r * cols + c] = cell(r, c);
    return new Matrix(rows, cols, data);
  }

  at(row: number, col: number): number {
    return this.data[row * this.cols + col] ?? Number.NaN;
  }

  row(row: number): Float64Array {
    return this.data.subarray(row * this.cols, (row + 1) * this.cols);
  }

  /** The smallest and the largest finite number: what a colour scale spans. */
  extent(): [number, number] {
    let low = Number.POSITIVE_INFINITY;
    let high = Number.NEGATIVE_INFINITY;
    for (const x of this.data) {
      if (!Number.isFinite(x)) continue;
      if (x < low) low = x;
      if (x > high) high = x;
    }
    return low <= high ? [low, high] : [0, 0];
  }
}

/** The mean of matrices of one shape: several heads looked at together. */
export function mean(matrices: readonly Matrix[]): Matrix {
  const first = matrices[0];
  if (!first) throw new RangeError("the mean of nothing");
  return Matrix.from(first.rows, first.cols, (r, c) => {
    let total = 0;
    for (const m of matrices) total += m.at(r, c);
    return total / matrices.length;
  });
}

/** The sum of chosen rows, as one row. */
export function sumOfRows(matrix: Matrix, rows: Iterable<number>): Float64Array {
  const total = new Float64Array(matrix.cols);
  for (const r of rows)
    matrix.row(r).forEach((x, c) => {
      total[c] = total[c]! + x;
    });
  return total;
}
