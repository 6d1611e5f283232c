// What the view "how this number came" tells, computed from the blocks of one layer: every number of one query's row.
// Letters: H heads, Q queries, K keys, D size of a head.

import { isInnerProduct, productsOf, rowOf, softmaxOf, sumOf, weightedSum } from "../arithmetic.js";

export const CLOSE = 1e-6; // how near what is computed here must be to the model's own weights

export async function figuresOf(look, attention, place) {
  // place: {layer, head, query, key}
  const layer = attention.layers[place.layer];
  const ask = (part) => look.block(`${attention.name}/${place.layer}/${part}`);
  const inner = isInnerProduct(layer);
  const parts = ["weights", "scores", "v", ...(inner ? ["q", "k"] : []), ...(inner && layer.bias ? ["bias"] : [])];
  const blocks = Object.fromEntries(await Promise.all(parts.map(async (part) => [part, await ask(part)])));
  const allowed = Array.from(rowOf(blocks.scores, place.head, place.query), (score) => score !== -Infinity);
  const told = inner ? innerScores(blocks, layer, place) : { before: rowOf(blocks.scores, place.head, place.query) };
  const masked = Float64Array.from(told.before, (score, key) => (allowed[key] ? score : -Infinity));
  const softmax = softmaxOf(masked);
  return { layer, inner, place, allowed, masked, softmax, ...told, ...looked(blocks, place, softmax.weights) };
}

function innerScores(blocks, layer, { head, query, key }) {
  const q = rowOf(blocks.q, head, query);
  const keys = Array.from({ length: layer.keys }, (_, j) => rowOf(blocks.k, head, j));
  const dots = Float64Array.from(keys, (k) => sumOf(productsOf(q, k)));
  const scaled = dots.map((dot) => dot * layer.scale);
  const bias = blocks.bias ? rowOf(blocks.bias, head, query) : null;
  const before = bias ? scaled.map((score, j) => score + bias[j]) : scaled;
  return { q, k: keys[key], products: productsOf(q, keys[key]), dots, scaled, bias, before };
}

function looked(blocks, { head, query }, weights) {
  // the weighted sum of the values, and how far these weights are from those the model gave
  const own = rowOf(blocks.weights, head, query);
  const apart = weights.reduce((most, weight, key) => Math.max(most, Math.abs(weight - own[key])), 0);
  return { own, apart, agrees: apart <= CLOSE, values: blocks.v, result: weightedSum(weights, blocks.v, head) };
}
