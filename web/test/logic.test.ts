import { expect, test } from "vitest";
import { Matrix, mean, sumOfRows } from "../src/data/matrix";
import { contrast, scoreRamp, weightRamp } from "../src/logic/colours";
import { bytes, fixed, scientific, short } from "../src/logic/numbers";
import { check, softmax } from "../src/logic/softmax";

const NEVER = Number.NEGATIVE_INFINITY;

test("softmax sums to one, gives a hidden place exactly zero, and a blind row zeros", () => {
  const row = softmax([1, 2, NEVER]);
  expect(row[0]! + row[1]!).toBeCloseTo(1, 15);
  expect(row[2]).toBe(0);
  expect([...softmax([NEVER, NEVER])]).toEqual([0, 0]);
  expect(softmax([1000, 999])[0]).toBeCloseTo(1 / (1 + Math.exp(-1)), 12);
});

test("the page's own check holds for true weights and rings for altered ones", () => {
  const masked = new Matrix(2, 2, [0.3, NEVER, 0.1, 0.7]);
  const weights = new Matrix(2, 2, [...softmax(masked.row(0)), ...softmax(masked.row(1))]);
  expect(check(masked, weights)).toEqual({ difference: 0, badRows: [], holds: true });
  const altered = new Matrix(2, 2, [1, 0, 0.5, 0.51]);
  expect(check(masked, altered).holds).toBe(false);
  expect(check(masked, altered).badRows).toEqual([1]);
  const broken = new Matrix(2, 2, [1, 0, Number.NaN, 0]);
  expect(check(masked, broken).badRows).toEqual([1]);
  expect(check(masked, broken).holds).toBe(false);
});

test("a row that may look at nothing is named, whatever its weights", () => {
  const masked = new Matrix(1, 2, [NEVER, NEVER]);
  expect(check(masked, new Matrix(1, 2, [0, 0])).badRows).toEqual([0]);
});

test("numbers read like numbers in a book", () => {
  expect(fixed(-0.5, 2)).toBe("−0.50");
  expect(fixed(-0.0001, 2)).toBe("0.00");
  expect(fixed(NEVER)).toBe("−∞");
  expect(scientific(4.8e-7)).toBe("4.8·10⁻⁷");
  expect(scientific(0)).toBe("0");
  expect(scientific(0.25)).toBe("0.250");
  expect(short(0.405)).toBe(".41");
  expect(short(1)).toBe("1");
  expect(short(-2.34)).toBe("−2.3");
  expect(bytes(6144)).toBe("6.0 KB");
});

test("ink reads on every ground of both ramps", () => {
  const weights = weightRamp();
  const scores = scoreRamp(-3, 5);
  for (let i = 0; i <= 40; i++) {
    const w = weights(i / 40);
    const s = scores(-5 + i / 4);
    expect(contrast(w.ground, w.ink)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(s.ground, s.ink)).toBeGreaterThanOrEqual(4.5);
  }
  expect(weights(Number.NaN)).toEqual(scores(Number.NaN)); // a bad number has a colour too
});

test("means and sums take the cells they are given", () => {
  const a = new Matrix(2, 2, [1, 2, 3, 4]);
  const b = new Matrix(2, 2, [3, 2, 1, 0]);
  expect([...mean([a, b]).data]).toEqual([2, 2, 2, 2]);
  expect([...sumOfRows(a, [0, 1])]).toEqual([4, 6]);
  expect(() => new Matrix(2, 2, [1])).toThrow(/1 numbers do not fill/);
});
