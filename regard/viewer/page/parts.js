// Small parts that several views are made of: choosers, numbers, rows of bars and strips of cells.

import { canvas, element, fittedText, onlyLatest, shade, signedShade, themeColour, tooltip } from "./draw.js";
import { largestSize } from "./arithmetic.js";

const SMALL = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** A number as people write it; what would be rounded away is told by its power of ten. */
export function spelled(number, digits = 4) {
  if (number === -Infinity) return "−∞";
  if (!Number.isFinite(number)) return String(number);
  if (number !== 0 && Math.abs(number) < 0.5 * 10 ** -digits) return powered(number);
  return number.toFixed(digits).replace("-", "−");
}

function powered(number) {
  const [digits, power] = number.toExponential(1).split("e");
  const above = (letter) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(letter)];
  return `${digits.replace("-", "−")}·10${[...power].map(above).join("")}`;
}

/** A number short for the eye and whole for whoever points at it. */
export function numeral(number, digits = 4, attributes = {}) {
  return element("data", { value: String(number), title: String(number), ...attributes }, spelled(number, digits));
}

/** A labelled list of choices, options being {value, text}; `name` tells apart those that have one label. */
export function chooser(label, options, value, choose, name = label) {
  const items = options.map((option) => element("option", { value: String(option.value) }, option.text));
  const list = element("select", { dataset: { key: `choose ${name}` }, onchange: () => choose(list.value) }, items);
  list.value = String(value);
  return element("label", { class: "chooser" }, element("span", {}, label), list);
}

/** A button; `key` is by what it is known when the page is drawn again. */
export function pressable(key, text, press, attributes = {}) {
  return element("button", { type: "button", onclick: press, dataset: { key }, ...attributes }, text);
}

export function tickBox(label, checked, choose) {
  const box = element("input", { type: "checkbox", dataset: { key: label }, onchange: () => choose(box.checked) });
  box.checked = checked;
  return element("label", { class: "tickbox" }, box, element("span", {}, label));
}

/** A side's pieces as choices, numbered from 1. */
export function pieceOptions(look, side) {
  return look.header.sides[side].shown.map((text, i) => ({ value: i, text: `${i + 1}  ${text}` }));
}

export function numberedOptions(word, count) {
  return Array.from({ length: count }, (_, i) => ({ value: i, text: `${word} ${i + 1}` }));
}

/** A number held between 0 and count - 1. */
export function within(value, count) {
  return Math.max(0, Math.min(count - 1, Number.isFinite(value) ? value : 0));
}

export function roomOf(root, least = 260) {
  return Math.max(least, Math.floor(root.clientWidth));
}

/** Does the work of drawing a root, which is busy meanwhile; a block that is not there is told instead. */
export async function toldFailures(root, work) {
  const latest = onlyLatest(root);
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  root.setAttribute("aria-busy", "true");
  try {
    await work(latest);
  } catch (error) {
    if (latest()) root.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
  }
  if (!latest()) return;
  root.removeAttribute("aria-busy");
  if (focused) [...root.querySelectorAll("[data-key]")].find(({ dataset }) => dataset.key === focused)?.focus();
}

/** A place for canvases with a line of text at the pointer; `wide` things scroll inside of it. */
export function chartPanel(root, attributes = {}) {
  const scroller = element("div", { class: "scroller" });
  const box = element("div", { class: "panel", ...attributes }, scroller);
  root.append(box);
  return { box, scroller, tip: tooltip(box) };
}

/** Calls `over(x, y)` while the pointer is over a canvas, `over(null)` when it leaves; `press(x, y)` when clicked. */
export function pointed(node, over, press = null) {
  const at = (event) => {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  node.addEventListener("pointermove", (event) => over(...at(event)));
  node.addEventListener("pointerleave", () => over(null, null));
  if (press) node.addEventListener("click", (event) => press(...at(event)));
}

/** Numbers as bars above their labels, to be pointed at: {numbers, labels, chosen, signed, name, high, choose(i)}. */
export function barRow(root, bars) {
  const { box, scroller, tip } = chartPanel(root, { class: "panel barrow" });
  const count = bars.numbers.length;
  const wide = Math.max(5, Math.min(64, Math.floor(roomOf(box) / count)));
  const frame = { wide, high: bars.high ?? 72, foot: wide >= 12 ? 64 : 4 };
  const attributes = { role: "img", "aria-label": bars.name, class: bars.choose ? "choosing" : null };
  const pen = canvas(scroller, wide * count, frame.high + frame.foot, attributes);
  paintBarRow(pen, bars, frame);
  const barAt = (x) => within(Math.floor(x / wide), count);
  const over = (x, y) => {
    if (x === null) return tip.hide();
    const i = barAt(x);
    tip.show(x - scroller.scrollLeft, y, `${bars.labels[i]}: ${spelled(bars.numbers[i], 6)}`);
  };
  pointed(pen.canvas, over, bars.choose ? (x) => bars.choose(barAt(x)) : null);
  scroller.scrollLeft = (bars.chosen + 0.5) * wide - roomOf(box) / 2;
  return pen;
}

function paintBarRow(pen, bars, { wide, high, foot }) {
  const most = largestSize(bars.numbers) || 1;
  const below = bars.numbers.some((number) => number < 0 && number !== -Infinity);
  const zero = below ? high / 2 : high - 1;
  const tall = below ? high / 2 - 3 : high - 5;
  pen.font = SMALL;
  bars.numbers.forEach((number, i) => {
    const chosen = i === bars.chosen;
    if (chosen) fillBox(pen, themeColour("line"), i * wide, 0, wide, high + foot);
    const barred = number === -Infinity;
    const length = barred ? 0 : (number / most) * tall;
    pen.fillStyle = bars.signed ? signedShade(0.75 * Math.sign(number)) : shade(0.45);
    pen.fillRect(i * wide + 1, length > 0 ? zero - length : zero, Math.max(1, wide - 2), Math.abs(length));
    if (barred) crossOut(pen, i * wide + wide / 2, zero - 8, Math.min(5, wide / 3));
    if (wide >= 12) upright(pen, bars.labels[i], i * wide + wide / 2, high + 6, { strong: chosen });
  });
  fillBox(pen, themeColour("soft"), 0, zero, wide * bars.numbers.length, 1);
}

export function fillBox(pen, colour, ...box) {
  pen.fillStyle = colour;
  pen.fillRect(...box);
}

function crossOut(pen, x, y, size) {
  pen.strokeStyle = themeColour("soft");
  pen.beginPath();
  pen.moveTo(x - size, y - size);
  pen.lineTo(x + size, y + size);
  pen.moveTo(x + size, y - size);
  pen.lineTo(x - size, y + size);
  pen.stroke();
}

/** A label that reads downwards from (x, y); upwards if it is turned by -1. */
export function upright(pen, text, x, y, { strong = false, room = 54, turned = 1 } = {}) {
  pen.save();
  pen.translate(x, y);
  pen.rotate((turned * Math.PI) / 2);
  pen.font = strong ? `600 ${SMALL}` : SMALL;
  pen.fillStyle = themeColour(strong ? "ink" : "soft");
  pen.textAlign = "left";
  pen.fillText(fittedText(pen, text, room), 0, 0);
  pen.restore();
}

/** A vector as a strip of cells, blue below zero and orange above: {numbers, name, most, say(i)}. */
export function cellStrip(root, { numbers, name, most, say = null }) {
  const { box, scroller, tip } = chartPanel(root, { class: "panel cells" });
  const wide = Math.max(2, Math.min(24, Math.floor(roomOf(box) / numbers.length)));
  const label = `${name}, ${numbers.length} numbers`;
  const pen = canvas(scroller, wide * numbers.length, 22, { role: "img", "aria-label": label });
  drawCells(pen, numbers, { x: 0, y: 0, wide, high: 22, most: most ?? largestSize(numbers) });
  pointed(pen.canvas, (x, y) => {
    if (x === null) return tip.hide();
    const i = within(Math.floor(x / wide), numbers.length);
    tip.show(x - scroller.scrollLeft, y, say ? say(i) : `${name}, dimension ${i + 1}: ${spelled(numbers[i], 6)}`);
  });
  return pen;
}

/** Cells of one row, each `wide` pixels, coloured by their share of `most`. */
export function drawCells(pen, numbers, { x, y, wide, high, most }) {
  const gap = wide >= 5 ? 1 : 0;
  fillBox(pen, themeColour("line"), x - 1, y - 1, wide * numbers.length + 2 - gap, high + 2);
  for (let i = 0; i < numbers.length; i++) {
    fillBox(pen, signedShade(numbers[i] / (most || 1)), x + i * wide, y, wide - gap, high);
  }
}
