// The text as it reads: a word that is hovered, or reached by keys, lights what it looks at.

import { element, fourDigits, inkOn, onlyLatest, overHeads, shade, shownWeights } from "../draw.js";
import { captionOf, keptPlaces, noHeads, toggled } from "./matrix.js";

const TOP = 6; // words named with their numbers
const SPACE_MARK = /^[▁Ġ]/u; // SentencePiece and byte-level BPE begin a word with one

export const textView = {
  name: "text",
  title: "Text",
  key: "4",
  fits: (look) => look.header.attentions.length > 0,
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const seen = await shownWeights(look, state);
    if (!latest()) return;
    const incoming = state.direction === "in";
    if (!seen.heads.length) return noHeads(root);
    const caption = element("p", {}, captionOf(look, state, seen.heads));
    root.append(element("div", { class: "caption" }, caption, directions(incoming, change)));
    const page = readingOf(look, seen, overHeads(seen.weights, state.join), incoming);
    root.append(page.node);
    listenTo(page, state, change);
    page.light(keptPlaces(page.asking, state));
  },
};

function directions(incoming, change) {
  const choice = (direction, title, pressed) => element("button", {
    type: "button", "aria-pressed": String(pressed), onclick: () => change({ direction, tokens: new Set() }),
  }, title);
  return element("div", { class: "choice", role: "group", "aria-label": "Direction" },
    choice("out", "looks at", !incoming), choice("in", "is looked at by", incoming));
}

// The paragraphs, and what lights them: {node, asking (tokens), spans, light(places)}.
function readingOf(look, { attention, queries, keys }, matrix, incoming) {
  const outward = [{ side: attention.queries, tokens: queries }, { side: attention.keys, tokens: keys }];
  const [asks, answers] = incoming ? outward.reverse() : outward;
  const self = attention.queries === attention.keys;
  const first = paragraphOf(look, asks.side, asks.tokens, true);
  const second = self ? first : paragraphOf(look, answers.side, answers.tokens, false);
  const numbers = element("div", { class: "numbers", role: "status" });
  const titled = (side, { node }) => element("section", {}, element("h3", {}, side), node);
  const texts = self ? first.node : [titled(asks.side, first), titled(answers.side, second)];
  const light = (places) => {
    const weights = meanOf(places.map((place) => lineOf(matrix, place, incoming)), answers.tokens.length);
    paint(second.spans, weights, places.length > 0);
    first.spans.forEach((span, place) => span.classList.toggle("asking", places.includes(place)));
    const named = places.map((place) => asks.tokens[place]);
    numbers.replaceChildren(...(named.length ? strongestOf(named, answers.tokens, weights) : [readingHint(incoming)]));
    numbers.append(...predictedAt(look, asks.side, named.at(-1)));
  };
  return { node: element("div", { class: "reading" }, texts, numbers), asking: asks.tokens, spans: first.spans, light };
}

// (Q, K): a row, or a column where what looks at a word is asked for.
function lineOf({ shape: [Q, K], data }, place, incoming) {
  if (!incoming) return data.subarray(place * K, (place + 1) * K);
  return Float32Array.from({ length: Q }, (_, query) => data[query * K + place]);
}

function readingHint(incoming) {
  const what = incoming ? "what looks at it" : "what it looks at";
  return element("p", { class: "hint" },
    `Hover a word, or go from word to word with the arrow keys, to light ${what}. `,
    "A click or Enter keeps it, and several together.");
}

// Several words at once light the mean of what they light.
function meanOf(rows, length) {
  const mean = new Float32Array(length);
  for (const row of rows) row.forEach((weight, i) => (mean[i] += weight / rows.length));
  return mean;
}

function paint(spans, weights, any) {
  const most = Math.max(...weights, 1e-9);
  spans.forEach((span, i) => {
    const share = any ? weights[i] / most : 0;
    span.style.backgroundColor = share > 0.003 ? shade(share) : "";
    span.style.color = share > 0.003 ? inkOn(share) : "";
  });
}

function paragraphOf(look, side, tokens, asks) {
  const node = element("p", { class: "prose", dir: "auto" });
  const spans = tokens.map(({ text, special, first }, place) => element("span", {
    class: special ? "word special" : "word",
    role: asks ? "button" : null,
    tabindex: asks ? (place ? "-1" : "0") : null, // one stop of the tab key for all; arrow keys go on from there
    dataset: { place, key: `word-${side}-${first}` },
  }, text));
  const marked = look.header.sides[side].pieces.some((piece) => SPACE_MARK.test(piece));
  tokens.forEach((token, place) => {
    if (place && spaceBefore(look.header.sides[side], marked, tokens[place - 1], token)) node.append(" ");
    node.append(spans[place]);
  });
  return { node, spans };
}

// Word pieces of a text that marks its spaces (▁, Ġ) stand apart where it marks them; others as people write.
function spaceBefore({ pieces, words }, marked, before, token) {
  if (before.special || token.special) return true;
  if (marked) return SPACE_MARK.test(pieces[token.first]);
  if (words[before.pieces.at(-1)] === words[token.first]) return false;
  return !/^[.,;:!?%)\]}’”»…]+$/u.test(token.text) && !/^[([{‘“«¿¡]+$/u.test(before.text);
}

function strongestOf(named, answering, weights) {
  const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]).slice(0, TOP);
  const most = weights[order[0]] || 1;
  const bars = order.map((place) => element("li", {},
    element("span", { class: "name" }, answering[place].text),
    element("span", { class: "bar" }, element("span", { style: { width: `${(100 * weights[place]) / most}%` } })),
    element("span", { class: "value" }, fourDigits(weights[place]))));
  return [element("h3", {}, named.map(({ text }) => text).join(" ")), element("ol", { class: "bars" }, bars)];
}

// What the model held probable at a token, where it says so.
function predictedAt(look, side, token) {
  const { output } = look.header;
  const found = token && output?.side === side && output.predictions.find(({ at }) => token.pieces.includes(at));
  if (!found) return [];
  const said = found.top.map(([text, chance]) => `${text} ${Math.round(100 * chance)}%`).join(" · ");
  return [element("p", { class: "hint" }, `Most probable here: ${said}`)];
}

// One listener for all words: what is hovered or focused is lit instead of what is kept.
function listenTo({ node, asking, spans, light }, state, change) {
  const placeAt = ({ target }) => (target.getAttribute("role") === "button" ? Number(target.dataset.place) : null);
  const show = (place) => {
    change({ hovered: place === null ? null : asking[place].first });
    light(place === null ? keptPlaces(asking, state) : [place]);
  };
  const keep = (place) => change({ tokens: toggled(state.tokens, asking[place].first) });
  for (const kind of ["pointerover", "focusin"]) node.addEventListener(kind, (event) => show(placeAt(event)));
  for (const kind of ["pointerleave", "focusout"]) node.addEventListener(kind, () => show(null));
  node.addEventListener("click", (event) => placeAt(event) !== null && keep(placeAt(event)));
  node.addEventListener("keydown", (event) => {
    const place = placeAt(event);
    if (place === null || event.shiftKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -spans.length, End: spans.length }[event.key];
    if (event.key === "Enter" || event.key === " ") keep(place);
    else if (step) goTo(spans, place, step);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function goTo(spans, place, step) {
  const next = spans[Math.min(Math.max(place + step, 0), spans.length - 1)];
  spans[place].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
