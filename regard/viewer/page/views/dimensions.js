// Queries and keys dimension by dimension: where in q and k a score comes from (after Vig 2019, the neuron view).
// Letters: K keys, D size of a head.

import { canvas, element, fittedText, shade, themeColour } from "../draw.js";
import { isInnerProduct, largestPlaces, largestSize, productsOf, rowOf, sumOf } from "../arithmetic.js";
import { chartPanel, chooser, drawCells, fillBox, pointed, roomOf, spelled, toldFailures, within } from "../parts.js";
import { chosenPlace, placeChoosers, placeIn, quoted, tellsItsScores } from "./place.js";

const MOST_DIMENSIONS = 128; // cells of a row; of larger heads those that matter most
const ROW = 34; // pixels: k above, its products with q below
const TALLEST = 20 * ROW; // pixels of rows on the page at once; the rest scrolls
const HEAD = 46; // of the query and the names of columns
const COLUMN = 80;
const WIDEST_CELL = 24;
const dimensionsPage = { order: "text" };

// What the second strip of a row holds, by the score's name; a score that is no inner product has no sum of products.
const TOGETHER = { additive: (q, k) => Float64Array.from(q, (number, i) => Math.tanh(number + k[i])) };
const ASIDE = {
  additive: "An additive score is u · tanh(q + k): each row shows k, and below it tanh(q + k), from which the "
    + "learned u makes the score; there are no products of q and k to add.",
  location: "A location score comes from the query alone: keys have no part in it, so only scores and weights "
    + "are shown.",
};

export const dimensionsView = {
  name: "dimensions",
  title: "Queries and keys",
  key: "6",
  controls: ["attention", "layer"],
  fits: tellsItsScores,
  async draw(root, look, state, change) {
    await toldFailures(root, async (latest) => {
      const place = placeIn(look, state);
      const told = await dimensionsOf(look, place);
      if (latest()) fillDimensions(root, { look, state, change, place, told });
    });
  },
};

/** {q, rows: [{key, text, k, both, dot, score, weight}], kept}: `kept` are the dimensions shown, in their order. */
async function dimensionsOf(look, { attention, layer, head, query }) {
  const settings = attention.layers[layer];
  const ask = (part) => look.block(`${attention.name}/${layer}/${part}`);
  const [qs, ks, scores, weights] = await Promise.all(["q", "k", "scores", "weights"].map(ask));
  const [score, weight] = [rowOf(scores, head, query), rowOf(weights, head, query)];
  const inner = isInnerProduct(settings);
  const together = inner ? productsOf : TOGETHER[settings.score];
  const q = rowOf(qs, head, query);
  const rows = Array.from(look.header.sides[attention.keys].shown, (text, key) => {
    const k = rowOf(ks, head, key);
    const both = together ? together(q, k) : null;
    return { key, text, k, both, dot: inner ? sumOf(both) : null, score: score[key], weight: weight[key] };
  });
  return { settings, inner, q, rows, kept: together ? keptDimensions(rows, q.length) : [] };
}

function keptDimensions(rows, size) {
  if (size <= MOST_DIMENSIONS) return Array.from({ length: size }, (_, i) => i);
  const mean = new Float64Array(size);
  for (const { both } of rows) both.forEach((number, i) => (mean[i] += Math.abs(number)));
  return largestPlaces(mean, MOST_DIMENSIONS).sort((a, b) => a - b);
}

function fillDimensions(root, { look, state, change, place, told }) {
  const again = () => dimensionsView.draw(root, look, state, change);
  const orders = [{ value: "text", text: "as in the text" }, { value: "weight", text: "by weight" }];
  const reorder = (order) => {
    dimensionsPage.order = order;
    again();
  };
  const choices = [placeChoosers(look, state, change, place), chooser("keys", orders, dimensionsPage.order, reorder)];
  const more = told.rows.length * ROW > TALLEST ? ` There are ${told.rows.length} keys: scroll for the rest.` : "";
  const hint = element("p", { class: "hint" }, explained(told), more);
  root.replaceChildren(element("div", { class: "choices" }, choices), hint);
  if (dimensionsPage.order === "weight") told.rows.sort((a, b) => b.weight - a.weight || a.key - b.key);
  const open = (key) => {
    chosenPlace.key = key;
    change({ view: "number" });
  };
  dimensionChart(root, { ...told, name: quoted(look, place.attention.queries, place.query), open });
}

function explained({ settings, inner, q, kept }) {
  const other = `The score “${settings.score}” is no inner product: only scores and weights are shown.`;
  if (!inner) return ASIDE[settings.score] ?? other;
  const all = kept.length === q.length;
  const cut = all ? "" : ` Of ${q.length} dimensions the ${kept.length} whose products are largest are shown.`;
  return `Each key: its k above, q × k below, blue below zero and orange above. The products add up to q · k, `
    + `which is scaled to the score.${cut} Click a row to see how its weight came.`;
}

/** The query's strip, and under it a row for every key; only rows in sight are drawn. */
function dimensionChart(root, chart) {
  const plan = dimensionPlan(chart, roomOf(root));
  const { head, body, scroller, tip } = dimensionCanvases(root, chart, plan);
  const at = { dimension: null, row: null };
  const paint = () => {
    paintQuery(head, chart, plan, at.dimension);
    paintRows(body, chart, plan, at, scroller.scrollTop);
  };
  scroller.addEventListener("scroll", paint);
  const rowAt = (y) => within(Math.floor((y + scroller.scrollTop) / ROW), chart.rows.length);
  const over = (x, y) => {
    Object.assign(at, x === null ? { dimension: null, row: null } : { dimension: dimensionAt(plan, x), row: rowAt(y) });
    paint();
    if (x === null) tip.hide();
    else tip.show(x, y + HEAD, saidRow(chart, chart.rows[at.row], at.dimension));
  };
  pointed(body.canvas, over, (x, y) => chart.open(chart.rows[rowAt(y)].key));
  pointed(head.canvas, (x) => over(null, null) || headTip(chart, plan, tip, x));
  paint();
}

function dimensionCanvases(root, chart, { width, high }) {
  const { box, scroller, tip } = chartPanel(root, { class: "panel dimensions" });
  const head = canvas(box, width, HEAD, { role: "img", "aria-label": `query of ${chart.name}` });
  box.prepend(head.canvas);
  scroller.style.height = `${high}px`;
  const label = `keys of ${chart.name}, row by row`;
  const body = canvas(scroller, width, high, { class: "sticky", role: "img", "aria-label": label });
  scroller.append(element("div", { style: { height: `${chart.rows.length * ROW - high}px` } })); // what is out of sight
  return { head, body, scroller, tip };
}

function headTip(chart, plan, tip, x) {
  const dimension = x === null ? null : dimensionAt(plan, x);
  if (dimension === null) return;
  tip.show(x, 24, `${chart.name}, dimension ${dimension + 1}: q ${spelled(chart.q[dimension], 6)}`);
}

function dimensionPlan({ rows, kept, q }, room) {
  const label = Math.min(110, room * 0.26);
  const columns = room < 560 ? ["weight"] : rows[0]?.dot === null ? ["score", "weight"] : ["q · k", "score", "weight"];
  const free = room - label - columns.length * COLUMN - 24;
  const wide = Math.max(1, Math.min(WIDEST_CELL, free / Math.max(1, kept.length)));
  const cell = wide >= 2 ? Math.floor(wide) : wide;
  const end = label + cell * kept.length + 8;
  const most = {
    q: largestSize(q),
    k: rows.reduce((high, { k }) => Math.max(high, largestSize(k)), 0),
    both: rows.reduce((high, { both }) => Math.max(high, both ? largestSize(both) : 0), 0),
  };
  const [width, high] = [Math.ceil(end + columns.length * COLUMN), Math.min(TALLEST, rows.length * ROW)];
  return { label, columns, cell, end, most, kept, width, high };
}

function dimensionAt({ label, cell, kept }, x) {
  const i = Math.floor((x - label) / cell);
  return i >= 0 && i < kept.length ? kept[i] : null;
}

function paintQuery(pen, { q, name }, plan, dimension) {
  pen.clearRect(0, 0, plan.width, HEAD);
  pen.fillStyle = themeColour("ink");
  pen.textAlign = "left";
  pen.fillText(fittedText(pen, `q of ${name}`, plan.label - 8), 0, 14);
  drawCells(pen, plan.kept.map((i) => q[i]), { x: plan.label, y: 4, wide: plan.cell, high: 20, most: plan.most.q });
  pen.fillStyle = themeColour("soft");
  pen.textAlign = "right";
  plan.columns.forEach((title, i) => pen.fillText(title, plan.end + (i + 1) * COLUMN - 12, 36));
  if (dimension !== null) markDimension(pen, plan, dimension, 2, 24);
}

function paintRows(pen, { rows }, plan, at, scrolled) {
  const { high } = plan;
  pen.clearRect(0, 0, plan.width, high);
  const first = Math.floor(scrolled / ROW);
  for (let i = first; i < rows.length && i * ROW - scrolled < high; i++) {
    const y = i * ROW - scrolled;
    if (i === at.row) fillBox(pen, themeColour("line"), 0, y, plan.width, ROW);
    paintKey(pen, rows[i], plan, y);
  }
  if (at.dimension !== null) markDimension(pen, plan, at.dimension, 0, high);
}

function paintKey(pen, row, plan, y) {
  pen.textAlign = "left";
  pen.fillStyle = themeColour("ink");
  pen.fillText(fittedText(pen, row.text, plan.label - 8), 0, y + ROW / 2);
  const cells = { x: plan.label, wide: plan.cell, high: 13 };
  if (row.both) {
    drawCells(pen, plan.kept.map((i) => row.k[i]), { ...cells, y: y + 3, most: plan.most.k });
    drawCells(pen, plan.kept.map((i) => row.both[i]), { ...cells, y: y + 17, most: plan.most.both });
  }
  const last = plan.end + (plan.columns.length - 1) * COLUMN;
  fillBox(pen, shade(0.12), last + 16, y + 6, (COLUMN - 24) * row.weight, ROW - 12);
  const numbers = { "q · k": row.dot, score: row.score, weight: row.weight };
  pen.textAlign = "right";
  pen.fillStyle = themeColour("ink");
  plan.columns.forEach((title, i) => {
    pen.fillText(spelled(numbers[title], title === "weight" ? 4 : 3), plan.end + (i + 1) * COLUMN - 12, y + ROW / 2);
  });
}

function markDimension(pen, { label, cell, kept }, dimension, y, high) {
  pen.strokeStyle = themeColour("mark");
  pen.strokeRect(label + kept.indexOf(dimension) * cell - 0.5, y + 0.5, Math.max(2, cell), high - 1);
}

function saidRow({ q, settings, inner }, { text, k, both, dot, score, weight }, i) {
  const ends = `score ${spelled(score, 6)}, weight ${spelled(weight, 6)}`;
  if (i === null || !both) return `${text}: ${inner ? `q · k ${spelled(dot, 6)}, ` : ""}${ends}`;
  const numbers = [q[i], k[i], both[i]].map((number) => spelled(number, 6));
  const sum = settings.score === "additive" ? `tanh(${numbers[0]} + ${numbers[1]})` : `${numbers[0]} × ${numbers[1]}`;
  return `${text}, dimension ${i + 1}: ${sum} = ${numbers[2]}; ${ends}`;
}
