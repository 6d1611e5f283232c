// The arithmetic of attention on plain rows of numbers, in double precision: scores, softmax, weighted sum, divergence.
// Letters: H heads, Q queries, K keys, D size of a head.

const INNER_PRODUCTS = new Set(["dot", "scaled-dot", "cosine", "general"]);

export function isInnerProduct(layer) {
  return INNER_PRODUCTS.has(layer.score);
}

/** The last axis at the given places: rowOf((H, Q, K), head, query) -> (K,). */
export function rowOf(block, ...places) {
  const size = block.shape[block.shape.length - 1];
  const row = places.reduce((at, place, axis) => at * block.shape[axis] + place, 0);
  return block.data.subarray(row * size, (row + 1) * size);
}

/** (H, Q, K) at a head -> (Q, K). */
export function matrixOf(block, place) {
  const [, rows, columns] = block.shape;
  const size = rows * columns;
  return { shape: [rows, columns], data: block.data.subarray(place * size, (place + 1) * size) };
}

export function productsOf(q, k) {
  return Float64Array.from(q, (number, i) => number * k[i]);
}

export function sumOf(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/** Where the largest lie, by size without sign, the largest first. */
export function largestPlaces(numbers, count) {
  const places = Array.from(numbers, (_, i) => i);
  return places.sort((a, b) => Math.abs(numbers[b]) - Math.abs(numbers[a]) || a - b).slice(0, count);
}

/** The largest, without its sign; what is infinite is passed over. */
export function largestSize(numbers) {
  let largest = 0; // by a loop: Math.max(...numbers) fails on a hundred thousand numbers
  for (const number of numbers) if (Number.isFinite(number)) largest = Math.max(largest, Math.abs(number));
  return largest;
}

/** The highest score is taken off first, so that no power overflows; a query without keys looks at nothing. */
export function softmaxOf(scores) {
  const highest = scores.reduce((high, score) => Math.max(high, score), -Infinity);
  const powers = Float64Array.from(scores, (score) => (score === -Infinity ? 0 : Math.exp(score - highest)));
  const total = sumOf(powers);
  return { highest, powers, total, weights: powers.map((power) => (total ? power / total : 0)) };
}

/** (K,), (H, K, D) -> (D,). */
export function weightedSum(weights, values, head) {
  const result = new Float64Array(values.shape[2]);
  weights.forEach((weight, key) => {
    if (weight) rowOf(values, head, key).forEach((value, i) => (result[i] += weight * value));
  });
  return result;
}

/** Jensen and Shannon's, in bits: 0 where both look alike, 1 where they share no key; rows are made to sum to 1. */
export function divergenceOf(p, q) {
  const [wholeP, wholeQ] = [sumOf(p) || 1, sumOf(q) || 1];
  let bits = 0;
  for (let i = 0; i < p.length; i++) {
    const [a, b] = [p[i] / wholeP, q[i] / wholeQ];
    if (a > 0) bits += (a * Math.log2((2 * a) / (a + b))) / 2;
    if (b > 0) bits += (b * Math.log2((2 * b) / (a + b))) / 2;
  }
  return Math.max(0, bits);
}

/** (Q, K), (Q, K) -> (Q,). */
export function divergencesOf(one, other) {
  const bits = (_, query) => divergenceOf(rowOf(one, query), rowOf(other, query));
  return Float64Array.from({ length: one.shape[0] }, bits);
}

export function varianceOf(numbers) {
  const mean = sumOf(numbers) / numbers.length;
  return numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0) / numbers.length;
}
