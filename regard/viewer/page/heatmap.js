// A matrix of weights as a picture: queries down, keys across; what is hovered is drawn on an overlay.

import { FONT, canvas, element, fittedText, fourDigits, largest, picture, shade, themeColour, tooltip } from "./draw.js";

const LARGEST_CELL = 28;
const LABELLED_CELL = 9; // pixels a label needs
const WIDEST_LABEL = 110;
const STRIP = 26; // pixels between labels and cells for how loud a frame of sound is

/**
 * Draws `matrix` (Q, K) within `room` pixels of width. `pick(query, key)` is called by a click or Enter; `hover(query)`
 * with a place or null; `say(query, key, weight)` words the tooltip. Gives {scale}, the largest weight.
 */
export function heatmap(root, { matrix, queries, keys, room, name, selected = [], pick, hover, say = saidWeight }) {
  const plan = heatmapPlan(queries, keys, room);
  const scale = largest(matrix.data) || 1;
  const { frame, base, over } = heatmapFrame(root, plan, name);
  paintMatrix(base, plan, picture(matrix.data, queries.length, keys.length, { scale }));
  paintLabels(base, plan, queries, keys);
  if (plan.strip) paintEnergy(base, plan, queries, keys);
  const tip = tooltip(frame);
  const show = (query, key) => {
    paintOverlay(over, plan, queries, keys, selected, query, key);
    hover?.(query);
    if (query === null || key === null) return tip.hide();
    const at = [plan.left + (key + 0.5) * plan.cellWidth, plan.top + (query + 0.5) * plan.cellHeight];
    tip.show(...at, say(queries[query], keys[key], matrix.data[query * keys.length + key]));
  };
  const move = followPointer(over.canvas, plan, queries.length, keys.length, show, pick);
  over.canvas.addEventListener("focus", () => over.canvas.matches(":focus-visible") && move(...reached));
  show(null, null);
  return { scale };
}

// Two canvases: the picture, and over it what changes when the pointer moves.
function heatmapFrame(root, plan, name) {
  const frame = element("div", { class: "heatmap", style: { width: `${plan.width}px`, height: `${plan.height}px` } });
  root.append(frame);
  const base = canvas(frame, plan.width, plan.height, { "aria-hidden": "true" });
  const over = canvas(frame, plan.width, plan.height, {
    class: "over", tabindex: "0", role: "application", "aria-label": `${name}: arrow keys go from cell to cell`,
    dataset: { key: `heatmap-${name.split(" ")[0]}` },
  });
  return { frame, base, over };
}

function saidWeight(query, key, weight) {
  return `${query.text} → ${key.text}  ${fourDigits(weight)}`;
}

// Where everything lies: cells from (left, top) on, labels before them.
function heatmapPlan(queries, keys, room) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.font = `600 ${FONT}`;
  const widths = (tokens) => tokens.map(({ text }) => pen.measureText(text.slice(0, 80)).width);
  const longest = (tokens) => Math.min(WIDEST_LABEL, Math.max(14, ...widths(tokens)));
  const strip = keys.some(({ energy }) => energy !== undefined) ? STRIP : 0;
  const left = Math.ceil(Math.min(longest(queries), room * 0.3)) + 12 + strip;
  const top = Math.ceil(longest(keys)) + 12 + strip;
  const cell = Math.min(LARGEST_CELL, (room - left - 2) / Math.max(keys.length, 1));
  const whole = cell > 3 ? Math.floor(cell) : cell; // whole pixels look even; below three they would waste the room
  const [width, height] = [left + whole * keys.length, top + whole * queries.length];
  const size = { cellWidth: whole, cellHeight: whole, width: Math.ceil(width) + 2, height: Math.ceil(height) + 2 };
  return { left, top, strip, ...size };
}

function paintMatrix(context, plan, image) {
  const [width, height] = [image.width * plan.cellWidth, image.height * plan.cellHeight];
  context.imageSmoothingEnabled = plan.cellWidth < 1;
  context.drawImage(image, plan.left, plan.top, width, height);
  context.fillStyle = themeColour("paper");
  if (plan.cellWidth >= 9) {
    for (let k = 1; k < image.width; k++) context.fillRect(plan.left + k * plan.cellWidth - 1, plan.top, 1, height);
    for (let q = 1; q < image.height; q++) context.fillRect(plan.left, plan.top + q * plan.cellHeight - 1, width, 1);
  }
  context.strokeStyle = themeColour("line");
  context.strokeRect(plan.left - 0.5, plan.top - 0.5, width + 1, height + 1);
}

function paintLabels(context, plan, queries, keys) {
  context.fillStyle = themeColour("soft");
  context.font = FONT;
  const step = (cell) => Math.ceil(LABELLED_CELL / cell);
  if (plan.cellHeight < 15) context.font = FONT.replace("13px", plan.cellHeight < 12 ? "10px" : "11px");
  for (let q = 0; q < queries.length; q += step(plan.cellHeight)) queryLabel(context, plan, q, queries[q].text);
  for (let k = 0; k < keys.length; k += step(plan.cellWidth)) keyLabel(context, plan, k, keys[k].text);
}

// How loud each frame is: bars that grow from the cells.
function paintEnergy(context, plan, queries, keys) {
  context.fillStyle = themeColour("mark");
  const bar = (token) => (plan.strip - 8) * (token.energy ?? 0);
  queries.forEach((token, q) => {
    context.fillRect(plan.left - 3, plan.top + q * plan.cellHeight, -bar(token), Math.max(plan.cellHeight - 1, 0.5));
  });
  keys.forEach((token, k) => {
    context.fillRect(plan.left + k * plan.cellWidth, plan.top - 3, Math.max(plan.cellWidth - 1, 0.5), -bar(token));
  });
}

function queryLabel(context, plan, place, text) {
  context.textAlign = "right";
  const [x, y] = [plan.left - plan.strip - 6, plan.top + (place + 0.5) * plan.cellHeight];
  context.fillText(fittedText(context, text, x - 4), x, y);
}

function keyLabel(context, plan, place, text) {
  context.save();
  context.translate(plan.left + (place + 0.5) * plan.cellWidth, plan.top - plan.strip - 6);
  context.rotate(-Math.PI / 2);
  context.textAlign = "left";
  context.fillText(fittedText(context, text, plan.top - plan.strip - 10), 0, 0);
  context.restore();
}

function paintOverlay(context, plan, queries, keys, selected, query, key) {
  const [width, height] = [keys.length * plan.cellWidth, queries.length * plan.cellHeight];
  context.clearRect(0, 0, plan.width, plan.height);
  context.strokeStyle = themeColour("mark");
  context.lineWidth = 2;
  for (const place of selected) {
    context.strokeRect(plan.left, plan.top + place * plan.cellHeight, width, Math.max(plan.cellHeight, 2));
  }
  if (query === null) return;
  context.strokeStyle = themeColour("ink");
  context.lineWidth = plan.cellHeight < 4 ? 0.5 : 1;
  context.strokeRect(plan.left - 0.5, plan.top + query * plan.cellHeight - 0.5, width + 1, plan.cellHeight);
  onPaper(context, 0, plan.top + (query + 0.5) * plan.cellHeight - 9, plan.left - plan.strip - 2, 18);
  queryLabel(context, plan, query, queries[query].text);
  if (key === null) return;
  context.strokeRect(plan.left + key * plan.cellWidth - 0.5, plan.top - 0.5, plan.cellWidth, height + 1);
  onPaper(context, plan.left + (key + 0.5) * plan.cellWidth - 9, 0, 18, plan.top - plan.strip - 2);
  keyLabel(context, plan, key, keys[key].text);
}

// A piece of paper for a hovered label, which hides the lighter one below.
function onPaper(context, x, y, width, height) {
  context.fillStyle = themeColour("paper");
  context.fillRect(x, y, width, height);
  context.fillStyle = themeColour("ink");
  context.font = `600 ${FONT}`;
}

let reached = [null, null]; // by keys, so that they go on from there when all was drawn anew

// Calls `show` with the cell under the pointer, and the one that keys reach. Gives what goes to a cell.
function followPointer(node, plan, rows, columns, show, pick) {
  let at = [null, null];
  const move = (query, key) => {
    if (query !== at[0] || key !== at[1]) show(query, key);
    at = [query, key];
  };
  node.addEventListener("pointermove", (event) => move(...cellUnder(event, plan, rows, columns)));
  node.addEventListener("pointerleave", () => move(null, null));
  node.addEventListener("blur", () => move(null, null));
  node.addEventListener("click", () => at[0] !== null && pick?.(...at));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && at[0] !== null) pick?.(...at);
    const next = cellAfter(event, at, rows, columns);
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    reached = next;
    move(...next);
  });
  return (query, key) => query !== null && move(Math.min(query, rows - 1), Math.min(key, columns - 1));
}

function cellUnder(event, plan, rows, columns) {
  const query = Math.floor((event.offsetY - plan.top) / plan.cellHeight);
  const key = Math.floor((event.offsetX - plan.left) / plan.cellWidth);
  if (query < 0 || query >= rows || key >= columns) return [null, null];
  return [query, key < 0 ? null : key]; // on its label, a row alone
}

function cellAfter(event, [query, key], rows, columns) {
  if (event.shiftKey || !rows || !columns) return null;
  if (event.key === "Home") return [0, 0];
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  return step ? [placeAfter(query, step[0], rows), placeAfter(key, step[1], columns)] : null;
}

const placeAfter = (place, by, count) => (place === null ? 0 : Math.min(Math.max(place + by, 0), count - 1));

/** What colours mean: a bar from 0 to `scale`. */
export function colourScale(scale) {
  const bar = element("div", { class: "scale" }, element("span", {}, "0"));
  const context = canvas(bar, 120, 10, { "aria-hidden": "true" });
  for (let x = 0; x < 120; x++) {
    context.fillStyle = shade(x / 119);
    context.fillRect(x, 0, 1, 10);
  }
  bar.append(element("span", {}, fourDigits(scale)));
  return bar;
}
