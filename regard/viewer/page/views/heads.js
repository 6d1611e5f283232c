// Two columns of tokens and lines between them, as thick as the weight and coloured by head (Vaswani et al. 2017,
// figures 3 to 5; Vig 2019). Only what is in sight is drawn, so a long text costs no more than a screen.

import { FONT, canvas, colourOfHead, element, fittedText, fourDigits, onlyLatest, shownWeights, themeColour, tooltip } from "../draw.js";
import { captionOf, keptPlaces, noHeads, toggled } from "./matrix.js";

const MOST_LINES = 3000; // at once: more are neither seen nor smooth
const MOST_HOVERED = 400;
const LEAST_WEIGHT = 0.01;
const WIDEST_LINE = 7;

export const headsView = {
  name: "heads",
  title: "Heads",
  key: "2",
  controls: ["attention", "layer", "heads", "unit", "specials"],
  fits: (look) => look.header.attentions.length > 0,
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const seen = await shownWeights(look, state);
    if (!latest()) return;
    if (!seen.heads.length) return noHeads(root);
    const caption = captionOf(look, { ...state, join: null }, seen.heads);
    root.append(element("div", { class: "caption" }, element("p", {}, caption)));
    const kept = keptPlaces(seen.queries, state);
    const from = kept.length ? kept : seen.queries.map((_, place) => place);
    const each = Math.max(2, Math.floor(MOST_LINES / Math.max(from.length, 1)));
    const { lines, left } = strongestLines(seen, from, each);
    drawColumns(root, { ...seen, lines, kept }, state, change);
    root.append(element("p", { class: "hint" }, saidLines(left, each, kept.length)));
  },
};

function saidLines(left, each, kept) {
  const count = left.toLocaleString("en");
  const strongest = `For each token only the ${each} strongest lines are drawn: ${count} more are not. `;
  const how = kept
    ? "Click a kept token to let it go; Esc lets all go."
    : "Hover a token to see only its lines; click to keep it, and others with it.";
  return `${left ? strongest : ""}Lines below ${LEAST_WEIGHT} are left out. ${how}`;
}

// ---- which lines ---------------------------------------------------------------------------------------------------

// The `each` strongest lines of every query in `from`, weakest first; `left` counts those that found no place.
function strongestLines({ weights, heads }, from, each) {
  const [H, Q, K] = weights.shape;
  const lines = [];
  let left = 0;
  for (const query of from) {
    const found = []; // weakest first
    for (let h = 0; h < H; h++) {
      for (let key = 0, at = (h * Q + query) * K; key < K; key++, at++) {
        const weight = weights.data[at];
        if (weight < LEAST_WEIGHT) continue;
        if (found.length === each) left += 1;
        if (found.length === each && weight <= found[0].weight) continue;
        insertLine(found, { query, key, head: heads[h], weight }, each);
      }
    }
    lines.push(...found);
  }
  return { lines: lines.sort((a, b) => a.weight - b.weight), left };
}

function insertLine(found, line, most) {
  const after = found.findIndex(({ weight }) => weight > line.weight);
  found.splice(after < 0 ? found.length : after, 0, line);
  if (found.length > most) found.shift();
}

// The strongest lines that reach a key, weakest first.
function linesInto({ weights, heads }, key) {
  const [H, Q, K] = weights.shape;
  const lines = [];
  for (let h = 0; h < H; h++) {
    for (let query = 0; query < Q; query++) {
      const weight = weights.data[(h * Q + query) * K + key];
      if (weight >= LEAST_WEIGHT) lines.push({ query, key, head: heads[h], weight });
    }
  }
  return lines.sort((a, b) => a.weight - b.weight).slice(-MOST_HOVERED);
}

function linesOf(seen, at) {
  if (at === null) return [];
  return at.side === "queries" ? strongestLines(seen, [at.place], MOST_HOVERED).lines : linesInto(seen, at.place);
}

// ---- the columns ---------------------------------------------------------------------------------------------------

function drawColumns(root, seen, state, change) {
  const plan = columnsPlan(root, seen);
  const { box, pane } = columnsBox(root, plan);
  const under = canvas(pane, plan.width, plan.height, { class: "under" });
  const over = canvas(pane, plan.width, plan.height, { class: "over" });
  const tip = tooltip(pane);
  const paintUnder = () => paintLines(under, plan, seen.lines, box.scrollTop);
  const paintOver = (at, own) => {
    under.canvas.classList.toggle("faded", at !== null);
    paintLines(over, plan, own, box.scrollTop);
    paintTokens(over, plan, seen, at, own, box.scrollTop);
  };
  const hover = (at) => {
    const own = linesOf(seen, at);
    change({ hovered: at?.side === "queries" ? seen.queries[at.place].first : null });
    paintOver(at, own);
    if (!own.length) return tip.hide();
    tip.show(plan.width / 2 - 60, plan.rowAt(at.place) - box.scrollTop, saidStrongest(seen, own.at(-1)));
  };
  const keep = ({ side, place }) => {
    if (side === "queries") change({ tokens: toggled(state.tokens, seen.queries[place].first) });
  };
  listenToTokens(over.canvas, (event) => tokenUnder(event, plan, seen, box.scrollTop), hover, keep);
  box.scrollTop = state.scrolled; // what is drawn anew must not lose the reader's place
  box.addEventListener("scroll", () => requestAnimationFrame(() => {
    change({ scrolled: box.scrollTop });
    paintUnder();
    paintOver(null, []);
  }));
  paintUnder();
  paintOver(null, []);
}

// A box that scrolls over `total` pixels, and in it a pane that stays in sight.
function columnsBox(root, plan) {
  const pane = element("div", { class: "pane", style: { height: `${plan.height}px` } });
  const box = element("div", {
    class: "columns", tabindex: "0", role: "group", "aria-label": "Tokens and the lines between them",
    style: { height: `${plan.height}px`, maxWidth: `${plan.width}px` },
  }, element("div", { style: { height: `${plan.total}px` } }, pane));
  root.append(box);
  return { box, pane };
}

function listenToTokens(node, tokenAt, hover, keep) {
  let last = "";
  const move = (token) => {
    const name = token ? `${token.side} ${token.place}` : "";
    if (name !== last) hover(token);
    last = name;
  };
  node.addEventListener("pointermove", (event) => move(tokenAt(event)));
  node.addEventListener("pointerleave", () => move(null));
  node.addEventListener("click", (event) => tokenAt(event) && keep(tokenAt(event)));
}

function saidStrongest({ queries, keys }, { query, key, head, weight }) {
  return `${queries[query].text} → ${keys[key].text}  ${fourDigits(weight)} (head ${head + 1})`;
}

function columnsPlan(root, { queries, keys }) {
  const width = Math.min(root.clientWidth, 820);
  const rows = Math.max(queries.length, keys.length);
  const row = rows > 60 ? 18 : 25;
  const total = rows * row + 16;
  const label = Math.min(170, width * 0.3);
  const height = Math.min(total, Math.max(360, Math.round(window.innerHeight * 0.78)));
  return { width, height, total, row, label, rowAt: (place) => 8 + (place + 0.5) * row };
}

function tokenUnder(event, plan, { queries, keys }, scrolled) {
  const place = Math.floor((event.offsetY + scrolled - 8) / plan.row);
  const inside = (tokens) => place >= 0 && place < tokens.length;
  if (event.offsetX <= plan.label + 12 && inside(queries)) return { side: "queries", place };
  if (event.offsetX >= plan.width - plan.label - 12 && inside(keys)) return { side: "keys", place };
  return null;
}

// ---- painting ------------------------------------------------------------------------------------------------------

function paintLines(context, plan, lines, scrolled) {
  context.clearRect(0, 0, plan.width, plan.height);
  const [from, to] = [plan.label + 8, plan.width - plan.label - 8];
  const bend = (to - from) * 0.4;
  const colours = new Map();
  for (const { query, key, head, weight } of lines) {
    const [y, end] = [plan.rowAt(query) - scrolled, plan.rowAt(key) - scrolled];
    if (Math.max(y, end) < 0 || Math.min(y, end) > plan.height) continue;
    if (!colours.has(head)) colours.set(head, colourOfHead(head));
    context.beginPath();
    context.moveTo(from, y);
    context.bezierCurveTo(from + bend, y, to - bend, end, to, end);
    context.lineWidth = Math.max(0.5, WIDEST_LINE * weight);
    context.globalAlpha = Math.min(0.95, 0.12 + 0.9 * weight);
    context.strokeStyle = colours.get(head);
    context.stroke();
  }
  context.globalAlpha = 1;
}

function paintTokens(context, plan, { queries, keys, kept }, at, own, scrolled) {
  const far = at?.side === "queries" ? "key" : "query";
  const strongest = new Map();
  for (const line of own) strongest.set(line[far], line.weight); // the strongest comes last
  const hovered = (side, place) => at?.side === side && at.place === place;
  const reached = (place) => 0.35 + 0.65 * Math.min(1, 3 * (strongest.get(place) ?? 0));
  const lightness = (side, place) => (!at || at.side === side ? 1 : reached(place));
  const first = Math.max(0, Math.floor((scrolled - 8) / plan.row));
  const last = Math.ceil((scrolled + plan.height) / plan.row);
  queries.slice(first, last).forEach(({ text }, i) => {
    const isKept = kept.includes(first + i);
    const bold = isKept || hovered("queries", first + i);
    const alpha = lightness("queries", first + i);
    paintToken(context, plan, text, plan.label, first + i, scrolled, { align: "right", bold, alpha, kept: isKept });
  });
  keys.slice(first, last).forEach(({ text }, i) => {
    const [bold, alpha] = [hovered("keys", first + i), lightness("keys", first + i)];
    paintToken(context, plan, text, plan.width - plan.label, first + i, scrolled, { align: "left", bold, alpha });
  });
}

function paintToken(context, plan, text, x, place, scrolled, { align, bold, alpha, kept }) {
  context.textAlign = align;
  context.font = bold ? `600 ${FONT}` : FONT;
  context.globalAlpha = alpha;
  context.fillStyle = themeColour(kept ? "mark" : "ink");
  context.fillText(fittedText(context, text, plan.label - 6), x, plan.rowAt(place) - scrolled);
  context.globalAlpha = 1;
}
