// What recurrent layers keep and let through: gates and states of every unit over the text (Karpathy et al., 2015).
// Letters: P parts (gates and states), T tokens, W units.

import { colourOfHead, element } from "../draw.js";
import { largestSize, rowOf, sumOf, varianceOf } from "../arithmetic.js";
import { chooser, numberedOptions, toldFailures, within } from "../parts.js";
import { lineChart, statePictures } from "./states_pictures.js";

const GATES = new Set(["input", "forget", "output", "reset", "update"]); // between 0, closed, and 1, open
const CELLS = { lstm: "an LSTM", gru: "a GRU", vanilla: "a plain recurrence" };
const PART_COLOURS = [0, 1, 6, 2, 4, 5]; // no yellow, which is pale as a line; gates far from each other
const statesPage = { name: null, layer: 0, order: "variance", unit: null };

export const statesView = {
  name: "states",
  title: "States and gates",
  key: "9",
  controls: [],
  fits: (look) => look.header.states.length > 0,
  async draw(root, look, state, change) {
    await toldFailures(root, async (latest) => {
      const recurrence = look.header.states.find(({ name }) => name === statesPage.name) ?? look.header.states[0];
      const layer = within(statesPage.layer, recurrence.layers.length);
      const block = await look.block(`states/${recurrence.name}/${layer}`);
      if (!latest()) return;
      const told = statesOf(look, recurrence, layer, block);
      fillStates(root, { look, recurrence, layer, told }, () => statesView.draw(root, look, state, change));
    });
  },
};

/**
 * {parts: [{name, gate, colour, block, units}], tokens}: `units` are the numbers of those shown, in order, and parts
 * that have the same units share the list. A projected state has fewer, of its own (Sak et al., 2014).
 */
function statesOf(look, { parts, side, layers }, layer, block) {
  const [, T, W] = block.shape;
  const { projected } = layers[layer];
  const told = parts.map((name, p) => {
    const data = block.data.subarray(p * T * W, (p + 1) * T * W);
    const colour = colourOfHead(PART_COLOURS[p % PART_COLOURS.length]);
    return { name, gate: GATES.has(name), colour, block: { shape: [T, W], data } };
  });
  const state = told.at(-1);
  const units = orderedUnits(projected ? told.at(-2).block : state.block, W);
  const own = projected ? orderedUnits(state.block, projected) : units;
  const parted = told.map((part) => ({ ...part, units: part === state ? own : units }));
  return { parts: parted, tokens: look.header.sides[side].shown };
}

/** The numbers of one unit over the text, (T,). */
export function unitOf({ shape: [T, W], data }, unit) {
  return Float64Array.from({ length: T }, (_, t) => data[t * W + unit]);
}

function orderedUnits(block, count) {
  const units = Array.from({ length: count }, (_, unit) => unit);
  if (statesPage.order === "number") return units;
  const variance = units.map((unit) => varianceOf(unitOf(block, unit)));
  return units.sort((a, b) => variance[b] - variance[a] || a - b);
}

function fillStates(root, { look, recurrence, layer, told }, again) {
  const set = (name, value) => {
    statesPage[name] = value;
    again();
  };
  root.replaceChildren(element("div", { class: "choices" }, stateChoosers(look, recurrence, layer, told, set)));
  root.append(element("p", { class: "hint" }, explainedStates(recurrence, layer, told)));
  openness(root, told);
  const chart = element("div", { class: "unit" });
  statePictures(root, told, (part, unit) => {
    statesPage.unit = unit;
    fillUnit(chart, told, part, unit);
  });
  root.append(chart);
  fillUnit(chart, told, told.parts[0], unitShown(told));
}

function unitShown({ parts: [{ units }] }) {
  return within(statesPage.unit ?? units[0], units.length);
}

function stateChoosers(look, recurrence, layer, told, set) {
  const names = look.header.states.map(({ name, title }) => ({ value: name, text: title }));
  const layers = numberedOptions("layer", recurrence.layers.length);
  const orders = [{ value: "variance", text: "by variance" }, { value: "number", text: "by number" }];
  const units = numberedOptions("unit", told.parts[0].units.length);
  return [
    names.length > 1 ? chooser("part", names, recurrence.name, (name) => set("name", name)) : null,
    layers.length > 1 ? chooser("layer", layers, layer, (value) => set("layer", Number(value))) : null,
    chooser("order", orders, statesPage.order, (order) => set("order", order)),
    chooser("unit", units, unitShown(told), (value) => set("unit", Number(value))),
  ];
}

function explainedStates({ title, cell, backward, layers }, layer, { parts }) {
  const way = backward ? "It reads from the last token to the first." : "It reads from the first token to the last.";
  const gated = parts.some(({ gate }) => gate);
  const gates = gated ? "Gates are blue where they are closed (0), orange where they are open (1); states" : "States";
  const { projected } = layers[layer];
  const fewer = projected ? ` Its state is projected to ${projected} units of their own.` : "";
  return `${title}: ${CELLS[cell] ?? cell} of ${parts[0].units.length} units, one a line; tokens go across. ${way} `
    + `${gates} are blue below zero and orange above.${fewer} Click a unit to follow it over the text.`;
}

/** The mean over units of each gate, for each token. */
function openness(root, { parts, tokens }) {
  const gates = parts.filter(({ gate }) => gate);
  if (!gates.length) return;
  const lines = gates.map(({ name, block, colour }) => {
    const numbers = tokens.map((_, t) => sumOf(rowOf(block, t)) / block.shape[1]);
    return { name, colour, numbers };
  });
  root.append(element("h3", {}, "How open the gates are, on average"));
  lineChart(root, { lines, tokens, low: 0, high: 1, name: "mean openness of the gates" });
}

function fillUnit(root, { parts, tokens }, { units }, unit) {
  const alike = parts.filter((part) => part.units === units);
  const lines = alike.map((part) => ({ ...part, numbers: Array.from(unitOf(part.block, unit)) }));
  const states = lines.filter(({ gate }) => !gate);
  const gates = lines.filter(({ gate }) => gate);
  const most = Math.max(1, ...states.map(({ numbers }) => largestSize(numbers)));
  root.replaceChildren(element("h3", {}, `Unit ${unit + 1} over the text`));
  const charts = [
    { lines: states, tokens, low: -most, high: most, name: `states of unit ${unit + 1}` },
    { lines: gates, tokens, low: 0, high: 1, name: `gates of unit ${unit + 1}` },
  ].filter(({ lines: some }) => some.length);
  const places = charts.map(() => element("div", {}));
  root.append(element("div", { class: "pair" }, places)); // before they are drawn: each takes the room it has then
  charts.forEach((chart, i) => lineChart(places[i], chart));
}
