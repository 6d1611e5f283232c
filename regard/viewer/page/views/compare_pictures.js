// Matrices side by side that are pointed at together: what is under the pointer in one is marked in all.

import { canvas, element, fittedText, largest, picture, themeColour, tooltip } from "../draw.js";
import { largestSize } from "../arithmetic.js";
import { pointed, roomOf, spelled, upright, within } from "../parts.js";

const LABEL = 74; // pixels for the longest label
const READABLE = 12; // pixels a label needs
const LARGEST = 30; // pixels of a cell

/**
 * Draws pictures, each {title, queries, keys, matrix, signed}, and marks the row of a query (null: none); `status` is
 * told what is pointed at and `hovered(piece)` its query. Gives the element that holds them.
 */
export function pictureRow(root, pictures, { query: marked, status, hovered }) {
  const holder = element("div", { class: "pictures" });
  root.append(holder, status);
  const scale = Math.max(...pictures.filter(({ signed }) => !signed).map(({ matrix }) => largest(matrix.data))) || 1;
  const room = pictureRoom(roomOf(root), pictures);
  const drawn = pictures.map((one) => onePicture(holder, one, room, one.signed ? largestSize(one.matrix.data) : scale));
  const mark = (query, key) => drawn.forEach(({ over, plan }) => markCell(over, plan, query, key));
  drawn.forEach(({ over, plan, tip, one }) => pointed(over.canvas, (x, y) => {
    const [query, key] = cellAt(plan, x, y);
    mark(query, key);
    hovered(query === null ? null : one.queries[query].first);
    if (query === null) return tip.hide();
    tip.show(x, y, saidCell(one, query, key));
    status.textContent = saidCells(pictures, query, key);
  }));
  mark(marked, null);
  return holder;
}

/** The width of one picture: all in one line, or two, or one, so that labels can be read where that is possible. */
function pictureRoom(room, pictures) {
  const widths = [1, 2, pictures.length].map((side) => Math.floor((room - 20 * (side - 1)) / side));
  const most = Math.max(...pictures.map(({ keys }) => keys.length));
  const readable = widths.filter((width) => (width - LABEL - 2) / most >= READABLE);
  return readable.at(-1) ?? (room >= 900 ? widths[2] : room >= 560 ? widths[1] : widths[0]);
}

function onePicture(holder, one, room, scale) {
  const plan = picturePlan(one, room);
  const frame = element("div", { class: "frame" });
  const style = { width: `${Math.max(200, plan.width)}px` };
  holder.append(element("figure", { style }, element("figcaption", {}, one.title), frame));
  const base = canvas(frame, plan.width, plan.height, { role: "img", "aria-label": one.title });
  base.imageSmoothingEnabled = plan.cell < 1;
  const how = { scale: scale || 1, signed: Boolean(one.signed) };
  const image = picture(one.matrix.data, one.queries.length, one.keys.length, how);
  base.drawImage(image, plan.left, plan.top, plan.cell * one.keys.length, plan.cell * one.queries.length);
  base.strokeStyle = themeColour("line");
  base.strokeRect(plan.left - 0.5, plan.top - 0.5, plan.cell * one.keys.length + 1, plan.cell * one.queries.length + 1);
  if (plan.cell >= READABLE) pictureLabels(base, one, plan);
  const over = canvas(frame, plan.width, plan.height, { class: "over" });
  return { over, plan, tip: tooltip(frame), one };
}

function picturePlan({ queries, keys }, room) {
  const fair = Math.min(LARGEST, (room - LABEL - 2) / Math.max(1, keys.length));
  const readable = fair >= READABLE;
  const left = readable ? LABEL : 1;
  const free = readable ? fair : Math.min(READABLE - 1, (room - 2) / Math.max(1, keys.length));
  const cell = free >= 3 ? Math.floor(free) : free;
  const size = { width: Math.ceil(left + cell * keys.length) + 1, height: Math.ceil(left + cell * queries.length) + 1 };
  return { cell, left, top: left, rows: queries.length, columns: keys.length, ...size };
}

function pictureLabels(pen, { queries, keys }, { cell, left, top }) {
  pen.textAlign = "right";
  pen.fillStyle = themeColour("soft");
  queries.forEach(({ text }, i) => pen.fillText(fittedText(pen, text, left - 8), left - 6, top + (i + 0.5) * cell));
  const how = { room: top - 8, turned: -1 };
  keys.forEach(({ text }, i) => upright(pen, text, left + (i + 0.5) * cell, top - 6, how));
}

function cellAt({ cell, left, top, rows, columns }, x, y) {
  if (x === null || x < left || y < top) return [null, null];
  return [within(Math.floor((y - top) / cell), rows), within(Math.floor((x - left) / cell), columns)];
}

function markCell(pen, { cell, left, top, rows, columns, width, height }, query, key) {
  pen.clearRect(0, 0, width, height);
  if (query === null || query >= rows) return;
  pen.strokeStyle = themeColour("mark");
  pen.strokeRect(left, top + query * cell, cell * columns, Math.max(2, cell));
  if (key === null || key >= columns) return;
  pen.strokeRect(left + key * cell, top, Math.max(2, cell), cell * rows);
}

function saidCell({ queries, keys, matrix }, query, key) {
  return `${queries[query].text} → ${keys[key].text}: ${spelled(matrix.data[query * keys.length + key], 4)}`;
}

function saidCells(pictures, query, key) {
  const told = pictures.filter(({ queries, keys }) => query < queries.length && key < keys.length);
  return told.map((one) => `${one.title}: ${saidCell(one, query, key)}`).join("  |  ");
}
