// The matrix of weights: what is written down, what it looks at across. An alignment is the cross attention's
// (Bahdanau et al. 2015, figure 3).

import { attentionOf, element, layerOf, onlyLatest, overHeads, placeOf, shownWeights } from "../draw.js";
import { colourScale, heatmap } from "../heatmap.js";

export const matrixView = {
  name: "matrix",
  title: "Matrix",
  key: "1",
  fits: (look) => look.header.attentions.length > 0,
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const { attention, heads, queries, keys, weights } = await shownWeights(look, state);
    if (!latest()) return;
    if (!heads.length) return noHeads(root);
    const name = captionOf(look, state, heads);
    const caption = element("div", { class: "caption" }, element("p", {}, name));
    root.append(caption);
    const pick = (query) => change({ tokens: toggled(state.tokens, queries[query].first) });
    const hover = (query) => change({ hovered: query === null ? null : queries[query].first });
    const [matrix, selected] = [overHeads(weights, state.join), keptPlaces(queries, state)];
    const { scale } = heatmap(root, { matrix, queries, keys, room: root.clientWidth, name, selected, pick, hover });
    caption.append(colourScale(scale));
    root.append(element("p", { class: "hint" }, `${saidSides(attention)} Click a row to keep it.`));
  },
};

function saidSides({ queries, keys }) {
  if (queries === keys) return "Each row is a token, its columns what it looks at.";
  return `Rows are the ${queries}, columns the ${keys}.`;
}

/** In words: which attention, layer and heads are shown, and how; without `join` heads stay apart. */
export function captionOf(look, state, heads) {
  const attention = attentionOf(look, state);
  const layers = attention.layers.length;
  const words = [attention.title];
  if (layers > 1) words.push(`layer ${layerOf(attention, state) + 1} of ${layers}`);
  if (heads.length === 1) words.push(`head ${heads[0] + 1}`);
  else words.push(`${{ mean: "mean of ", max: "largest of " }[state.join] ?? ""}${heads.length} heads`);
  if (!state.specials) words.push(`specials hidden, rows ${state.renormalise ? "sum to 1 again" : "as they were"}`);
  return words.join(" · ");
}

export function noHeads(root) {
  root.append(element("p", { class: "hint" }, "No head is chosen. Choose one or more beside “Heads”."));
}

/** The places among `tokens` of those that are selected. */
export function keptPlaces(tokens, state) {
  return [...state.tokens].map((piece) => placeOf(tokens, piece)).filter((place) => place >= 0);
}

/** A set with one more, or one fewer. */
export function toggled(set, member) {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}
