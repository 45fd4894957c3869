import type { Trace } from "../data/types";

/** The lanes compared as far as the right one has got. */
export interface Agreement {
  rows: number; // rows of the right lane that are compared
  largest: number;
  tolerance: number;
  isSame: boolean;
  parting: number | null; // first row that reads another word, once it is reached
}

/** How far the rows so far agree; null when there is no second lane. */
export function agreement(trace: Trace, step: number): Agreement | null {
  const measured = trace.sameness;
  if (!measured) return null;
  const compared = measured.rows.slice(0, step).filter((row) => row !== null);
  const largest = compared.reduce(
    (most, row) => (row.largest > most || Number.isNaN(row.largest) ? row.largest : most),
    0,
  );
  const parting = measured.first_difference;
  return {
    rows: compared.length,
    largest,
    tolerance: measured.tolerance,
    isSame: largest <= measured.tolerance,
    parting: parting !== null && parting < step ? parting : null,
  };
}
