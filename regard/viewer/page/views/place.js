// Which query, key and head the views of single numbers tell of: the page's choice, and what is chosen in the view.

import { attentionOf, headsOf, layerOf } from "../draw.js";
import { chooser, numberedOptions, pieceOptions, within } from "../parts.js";

export const chosenPlace = { head: 0, key: null }; // a key that is null: the one that the query looks at most

/** Whether queries and keys are known; of somebody's plain weights they are not. */
export function tellsItsScores(look) {
  return look.header.attentions.some(({ layers }) => layers.some(({ size }) => size > 0));
}

/** {attention, layer, head, query}: of the page's tokens the last that was selected, of its heads one that is on. */
export function placeIn(look, state) {
  const attention = attentionOf(look, state);
  const layer = layerOf(attention, state);
  const { heads, queries } = attention.layers[layer];
  const on = headsOf(look, state);
  const head = on.length && !on.includes(chosenPlace.head) ? on[0] : within(chosenPlace.head, heads);
  const selected = [...state.tokens].at(-1) ?? telling(look, attention);
  return { attention, layer, head, query: within(selected, queries) };
}

/** A query that has something to tell: the first word; where later words are hidden, the last. */
function telling(look, { queries, causal }) {
  const { special } = look.header.sides[queries];
  return Math.max(0, causal ? special.lastIndexOf(false) : special.indexOf(false));
}

/** Choosers of the query token and the head; both are the page's too. */
export function placeChoosers(look, state, change, place) {
  const { attention, layer, head, query } = place;
  const turnTo = (value) => {
    chosenPlace.head = Number(value);
    change({ heads: new Set([...state.heads, chosenPlace.head]) });
  };
  const ask = (value) => change({ tokens: new Set([Number(value)]) });
  const heads = numberedOptions("head", attention.layers[layer].heads);
  return [
    chooser("query", pieceOptions(look, attention.queries), query, ask),
    heads.length > 1 ? chooser("head", heads, head, turnTo) : null,
  ];
}

/** A piece in quotation marks. */
export function quoted(look, side, piece) {
  return `“${look.header.sides[side].shown[piece]}”`;
}
