// Pictures of recurrent states: a canvas for each gate and state, pointed at together; and lines over the text.

import { canvas, element, picture, themeColour, tooltip } from "../draw.js";
import { largestSize } from "../arithmetic.js";
import { chartPanel, fillBox, pointed, roomOf, spelled, upright, within } from "../parts.js";

const TALL = 300; // pixels of a picture, whatever the number of units
const FOOT = 60; // pixels of the tokens under it
const READABLE_TOKEN = 12; // pixels a token's label needs

/** One picture for each part: tokens across, its units down; `choose(part, unit)` when one is clicked. */
export function statePictures(root, told, choose) {
  const holder = element("div", { class: "pictures" });
  const status = element("p", { class: "readout", role: "status" }, "Point at a picture to read its numbers.");
  root.append(holder, status);
  const room = roomOf(root);
  const { tokens } = told;
  const side = room < 560 ? 1 : room < 900 || told.parts.length === 4 ? 2 : 3; // pictures in a line
  const drawn = told.parts.map((part) => statePicture(holder, part, tokens, statesPlan(part.units, tokens, room, side)));
  for (const { over, tip, part, plan } of drawn) {
    const unitAt = (y) => part.units[within(Math.floor(y / plan.high), part.units.length)];
    pointed(over.canvas, (x, y) => {
      const token = x === null ? null : within(Math.floor(x / plan.wide), tokens.length);
      const unit = x === null ? null : unitAt(y);
      for (const one of drawn) markUnit(one, token, one.part.units === part.units ? unit : null);
      if (token === null) return tip.hide();
      tip.show(x, y, saidUnit(told, [part], unit, token));
      status.textContent = saidUnit(told, told.parts.filter(({ units }) => units === part.units), unit, token);
    }, (x, y) => choose(part, unitAt(y)));
  }
}

function statesPlan(units, tokens, room, side) {
  const wide = Math.max(2, Math.min(28, Math.floor((room - 20 * (side - 1)) / side / Math.max(1, tokens.length))));
  const high = Math.min(14, TALL / Math.max(1, units.length));
  const foot = wide >= READABLE_TOKEN ? FOOT : 2;
  return { wide, high, width: wide * tokens.length, height: Math.ceil(high * units.length), foot };
}

function statePicture(holder, part, tokens, plan) {
  const { name, gate, block, units } = part;
  const frame = element("div", { class: "frame" });
  const most = gate ? 1 : largestSize(block.data) || 1;
  const range = gate ? "0 to 1" : `±${spelled(most, 2)}`;
  holder.append(element("figure", {}, element("figcaption", {}, name, element("small", {}, range)), frame));
  const size = [plan.width, plan.height + plan.foot];
  const base = canvas(frame, ...size, { role: "img", "aria-label": `${name}, ${units.length} units` });
  base.imageSmoothingEnabled = plan.high < 1;
  const image = picture(downwards(block, units, gate), units.length, tokens.length, { scale: most, signed: true });
  base.drawImage(image, 0, 0, plan.width, plan.height);
  if (plan.foot > 2) tokensUnder(base, tokens, 0, plan.wide, plan.height);
  return { over: canvas(frame, ...size, { class: "over" }), tip: tooltip(frame), part, plan };
}

/** (T, W) -> (W, T) in the order of `units`; gates from -1, closed, to 1, open, so that half open has no colour. */
function downwards({ shape: [T, W], data }, units, gate) {
  const turned = new Float32Array(T * units.length);
  units.forEach((unit, row) => {
    for (let t = 0; t < T; t++) turned[row * T + t] = gate ? 2 * data[t * W + unit] - 1 : data[t * W + unit];
  });
  return turned;
}

function markUnit({ over, part, plan: { wide, high, width, height, foot } }, token, unit) {
  over.clearRect(0, 0, width, height + foot);
  if (token === null) return;
  over.strokeStyle = themeColour("mark");
  over.strokeRect(token * wide, 0.5, Math.max(2, wide), height - 1);
  if (unit !== null) over.strokeRect(0.5, part.units.indexOf(unit) * high, width - 1, Math.max(2, high));
}

function saidUnit({ tokens }, parts, unit, token) {
  const at = ({ shape: [, W], data }) => data[token * W + unit];
  const numbers = parts.map(({ name, block }) => `${name} ${spelled(at(block), 4)}`);
  return `unit ${unit + 1}, ${tokens[token]}: ${numbers.join(", ")}`;
}

/** Lines over the tokens: {lines: [{name, numbers, colour}], tokens, low, high, name}. */
export function lineChart(root, chart) {
  const figure = element("figure", { class: "lines" }, legendOf(chart.lines));
  root.append(figure);
  const { box, scroller, tip } = chartPanel(figure);
  const { tokens, low, high } = chart;
  const step = Math.max(4, Math.min(48, Math.floor((roomOf(box) - 44) / Math.max(1, tokens.length))));
  const frame = { step, left: 40, top: 6, height: 110, bottom: 116, foot: step >= READABLE_TOKEN ? FOOT : 4 };
  const width = frame.left + step * tokens.length;
  const pen = canvas(scroller, width, frame.bottom + frame.foot, { role: "img", "aria-label": chart.name });
  const heightOf = (number) => frame.bottom - ((number - low) / (high - low)) * frame.height;
  paintAxis(pen, frame, width, [low, (low + high) / 2, high], heightOf);
  for (const one of chart.lines) paintLine(pen, frame, one, heightOf);
  if (frame.foot > 4) tokensUnder(pen, tokens, frame.left, step, frame.bottom);
  pointed(pen.canvas, (x, y) => {
    if (x === null || x < frame.left) return tip.hide();
    const t = within(Math.floor((x - frame.left) / step), tokens.length);
    const numbers = chart.lines.map(({ name, numbers }) => `${name} ${spelled(numbers[t], 4)}`);
    tip.show(x - scroller.scrollLeft, y, `${tokens[t]}: ${numbers.join(", ")}`);
  });
}

function tokensUnder(pen, tokens, left, wide, y) {
  tokens.forEach((text, t) => upright(pen, text, left + (t + 0.5) * wide, y + 6, { room: FOOT - 8 }));
}

function legendOf(lines) {
  const patch = (colour) => element("i", { style: { background: colour } });
  const names = lines.map(({ name, colour }) => element("span", {}, patch(colour), name));
  return element("figcaption", { class: "legend" }, names);
}

function paintAxis(pen, { left }, width, marks, heightOf) {
  pen.textAlign = "right";
  for (const mark of marks) {
    const y = Math.round(heightOf(mark));
    fillBox(pen, themeColour("line"), left, y, width - left, 1);
    pen.fillStyle = themeColour("soft");
    pen.fillText(spelled(mark, Math.abs(mark) < 10 ? 1 : 0), left - 6, y);
  }
}

function paintLine(pen, { step, left }, { numbers, colour }, heightOf) {
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  numbers.forEach((number, t) => pen.lineTo(left + (t + 0.5) * step, heightOf(number)));
  pen.stroke();
  const dot = (number, t) => pen.fillRect(left + (t + 0.5) * step - 2.5, heightOf(number) - 2.5, 5, 5);
  if (step >= 8) numbers.forEach(dot);
  pen.lineWidth = 1;
}
