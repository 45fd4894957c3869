import { Matrix } from "../data/matrix";
import type { Token } from "../data/types";

const DOTTED_CIRCLE = "◌";

/** What to draw for a token: its slice of the text, so that the browser's shaper sees real text. */
export function label(token: Token): string {
  if (token.byte !== null) return token.byte;
  if (token.text === "") return token.piece;
  return token.starts_with_sign ? DOTTED_CIRCLE + token.text : token.text;
}

/** Loose text to draw: a dependent sign that stands first gets its dotted circle too. */
export function standing(text: string): string {
  return /^\p{M}/u.test(text) ? DOTTED_CIRCLE + text : text;
}

/** Tokens that belong together: one word, or one token that belongs to none. */
export interface Group {
  text: string;
  members: number[];
}

/** Tokens joined into words. A word's text is a slice of the sentence, never glued pieces. */
export function words(tokens: readonly Token[], text: string): Group[] {
  const groups: (Group & { word: number | null })[] = [];
  tokens.forEach((token, i) => {
    const last = groups.at(-1);
    if (last && token.word !== null && last.word === token.word) last.members.push(i);
    else groups.push({ text: "", members: [i], word: token.word });
  });
  const letters = [...text];
  return groups.map(({ members }) => {
    const first = tokens[members[0]!]!;
    const last = tokens[members.at(-1)!]!;
    const joined = letters.slice(first.start, last.end).join("").trim();
    return { text: members.length > 1 && joined ? joined : label(first), members };
  });
}

/** Weights between words: summed over the columns of a word, averaged over its rows. */
export function byWord(weights: Matrix, rows: readonly Group[], cols: readonly Group[]): Matrix {
  return Matrix.from(rows.length, cols.length, (r, c) => {
    let total = 0;
    for (const i of rows[r]!.members) {
      for (const j of cols[c]!.members)
        total += Number.isNaN(weights.at(i, j)) ? 0 : weights.at(i, j);
    }
    return total / rows[r]!.members.length;
  });
}

/** The language of a string for the voice that reads it: Hindi where Devanagari stands. */
export function langOf(text: string): "hi" | undefined {
  return /\p{Script=Devanagari}/u.test(text) ? "hi" : undefined;
}
