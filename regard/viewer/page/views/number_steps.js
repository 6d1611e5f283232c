// The steps from a query and a key to a weight and to what is read with it: each a title, a formula, numbers, a chart.

import { element } from "../draw.js";
import { largestPlaces, largestSize, rowOf, sumOf } from "../arithmetic.js";
import { barRow, cellStrip, numeral, spelled } from "../parts.js";
import { CLOSE } from "./number_figures.js";

const TERMS = 5; // products written out; the rest is summed
const LISTED = 6; // keys written out
const SHOWN = 4; // dimensions of the values
const WHY_SCALED = "Sums over many dimensions grow large, and the softmax of large numbers leaves all but one key with "
  + "nothing; so every score is made smaller alike.";
const GIVEN_BY = {
  additive: "An additive score (Bahdanau et al., 2015) is no sum of products of q and k: both pass through a tanh "
    + "together, so it cannot be taken apart by dimension. The score itself is the model's.",
  location: "A location score (Luong et al., 2015) comes from the query alone: what a key says does not matter, only "
    + "its place.",
};

/** [{name, title, formula, value, tell(card)}] in order; `value` is the number the step ends with. */
export function stepsOf(figures, names, choose) {
  const told = { ...figures, ...names, choose };
  const score = figures.inner ? [meetingStep(told), productStep(told), scalingStep(told)] : [givenStep(told)];
  const bias = figures.inner && figures.bias ? [biasStep(told)] : [];
  const mask = names.causal || figures.allowed.includes(false) ? [maskStep(told)] : [];
  return [...score, ...bias, ...mask, softmaxStep(told), valueStep(told)];
}

function meetingStep(told) {
  const { q, k, layer } = told;
  const most = Math.max(largestSize(q), largestSize(k));
  return {
    name: "q, k",
    title: "A query meets a key",
    formula: ["q", lowered("i"), ", k", lowered("i"), `,  i = 1 … ${layer.size}`],
    value: null,
    tell(card) {
      card.append(sentence(`What ${told.queryName} looks for is its query; what ${told.keyName} offers is its key. `
        + `In this head each is ${layer.size} numbers.`));
      card.append(sentence("q = ", beginning(q)), sentence("k = ", beginning(k)));
      labelledStrip(card, "q", q, most);
      labelledStrip(card, "k", k, most);
    },
  };
}

function productStep(told) {
  const { q, k, products, dots, place } = told;
  const largest = largestPlaces(products, TERMS);
  const rest = sumOf(products) - sumOf(largest.map((i) => products[i]));
  return {
    name: "q · k",
    title: "Multiply number by number, and add",
    formula: ["q · k = Σ", lowered("i"), " q", lowered("i"), " k", lowered("i")],
    value: dots[place.key],
    tell(card) {
      const rows = largest.map((i) => [`i = ${i + 1}`, [numeral(q[i]), " × ", numeral(k[i])], numeral(products[i])]);
      const others = products.length - largest.length;
      if (others > 0) rows.push([`the other ${others}`, "", numeral(rest)]);
      const heads = ["the largest terms", ["q", lowered("i"), " × k", lowered("i")], ""];
      card.append(sumsTable(heads, rows, ["q · k", "", numeral(dots[place.key])]));
      labelledStrip(card, "q × k", products);
      allKeys(card, told, dots, "q · k of this query with every key", true);
    },
  };
}

function scalingStep(told) {
  const { layer, dots, scaled, place } = told;
  const root = Math.abs(layer.scale - 1 / Math.sqrt(layer.size)) < 1e-6;
  const one = layer.scale === 1;
  const size = ["√", layer.size];
  return {
    name: one ? "× 1" : root ? `÷ √${layer.size}` : "× scale",
    title: one ? "This score is not scaled" : "Make it smaller",
    formula: ["s = q · k ", root && !one ? ["/ √D"] : ["× scale"]],
    value: scaled[place.key],
    tell(card) {
      const by = root && !one ? ["/ ", size, " = ", numeral(dots[place.key]), " / ", numeral(1 / layer.scale)] : null;
      const times = by ?? ["× ", numeral(layer.scale)];
      card.append(sentence("s = ", numeral(dots[place.key]), " ", times, " = ", numeral(scaled[place.key])));
      card.append(sentence(one ? "The model was trained without a scale: q · k is the score." : WHY_SCALED));
      allKeys(card, told, scaled, "scaled score with every key", true);
    },
  };
}

function givenStep(told) {
  const { layer, before, place } = told;
  const how = {
    additive: ["s = u · tanh(W q + U k)"],
    location: ["s", lowered("j"), " = (W q)", lowered("j")],
  };
  return {
    name: "score",
    title: "How well query and key match",
    formula: how[layer.score] ?? ["s = score(q, k)"],
    value: before[place.key],
    tell(card) {
      card.append(sentence("s = ", numeral(before[place.key])));
      card.append(sentence(GIVEN_BY[layer.score] ?? `The score “${layer.score}” is taken as the model gave it.`));
      allKeys(card, told, before, "score with every key", true);
    },
  };
}

function biasStep(told) {
  const { scaled, bias, before, place } = told;
  return {
    name: "+ bias",
    title: "Add what their places say",
    formula: ["s = ", "q · k × scale + b"],
    value: before[place.key],
    tell(card) {
      const [from, sum] = [scaled, before].map((numbers) => numeral(numbers[place.key]));
      card.append(sentence("s = ", from, plus(bias[place.key]), " = ", sum));
      card.append(sentence("The model adds a number of its own for this pair, by how far apart the two stand."));
      allKeys(card, told, bias, "bias of every key", true);
      allKeys(card, told, before, "score with its bias", true);
    },
  };
}

function maskStep(told) {
  const { allowed, masked, place } = told;
  const hidden = allowed.filter((may) => !may).length;
  const may = allowed[place.key];
  return {
    name: "mask",
    title: "Hide what may not be seen",
    formula: ["s = −∞ where the query may not look"],
    value: masked[place.key],
    tell(card) {
      const looks = `${told.queryName} ${may ? "may" : "may not"} look at ${told.keyName}: s = `;
      card.append(sentence(looks, numeral(masked[place.key])));
      const why = told.causal ? "What comes later is not yet written: a query sees itself and what comes before." : "";
      card.append(sentence(`Hidden from this query: ${hidden} of ${allowed.length} keys. ${why}`));
      allKeys(card, told, masked, "score with every key; × is −∞", true);
    },
  };
}

function softmaxStep(told) {
  const others = raised(["s", lowered("j"), " − m"]);
  const { masked, softmax, place } = told;
  const { highest, powers, total, weights } = softmax;
  return {
    name: "softmax",
    title: "Share one whole among all keys",
    formula: ["w = e", raised("s − m"), " / Σ", lowered("j"), " e", others, ",  m the highest score"],
    value: weights[place.key],
    tell(card) {
      const power = ["e", raised([spelled(masked[place.key]), plus(-highest)])];
      const [own, weight] = [numeral(powers[place.key]), numeral(weights[place.key], 6)];
      card.append(sentence("w = ", power, " / ", numeral(total), " = ", own, " / ", numeral(total), " = ", weight));
      card.append(weightTable(told));
      allKeys(card, told, weights, "weight of every key", false);
    },
  };
}

/** The keys that are looked at most, and the chosen one. */
function listedKeys(weights, key) {
  return [...new Set([...largestPlaces(weights, LISTED).filter((one) => weights[one] > 0), key])];
}

function weightTable({ masked, softmax, place, keys }) {
  const { powers, total, weights } = softmax;
  const listed = listedKeys(weights, place.key);
  const rows = listed.map((key) => [keys[key], numeral(masked[key]), numeral(powers[key]), numeral(weights[key], 6)]);
  const others = keys.length - listed.length;
  const without = (numbers) => numeral(Math.max(0, sumOf(numbers) - sumOf(listed.map((key) => numbers[key]))), 6);
  if (others > 0) rows.push([`the other ${others}`, "", without(powers), without(weights)]);
  const foot = ["the row", "", numeral(total), numeral(sumOf(weights), 6)];
  const made = sumsTable(["key", "s", ["e", raised("s − m")], "w"], rows, foot);
  made.tBodies[0].rows[listed.indexOf(place.key)].classList.add("chosen");
  return made;
}

function valueStep(told) {
  const { softmax, values, result, place, keys } = told;
  const { weights } = softmax;
  const dimensions = largestPlaces(result, SHOWN).sort((a, b) => a - b);
  return {
    name: "Σ w v",
    title: "Read the values, each by its weight",
    formula: ["out = Σ", lowered("j"), " w", lowered("j"), " v", lowered("j")],
    value: null,
    tell(card) {
      card.append(sentence(`Every key has a value as well. What ${told.queryName} reads is the sum of all values, each `
        + `times its weight; here the ${dimensions.length} dimensions in which it is largest.`));
      card.append(valueTable({ weights, values, result, place, keys, dimensions }));
      labelledStrip(card, "out", result);
    },
  };
}

function valueTable({ weights, values, result, place, keys, dimensions }) {
  const listed = listedKeys(weights, place.key);
  const value = (key, i) => rowOf(values, place.head, key)[i];
  const part = (key, i) => weights[key] * value(key, i);
  const factors = (key, i) => smallText(spelled(weights[key], 2), " × ", spelled(value(key, i), 3));
  const sum = (key, i) => [factors(key, i), numeral(part(key, i))];
  const rows = listed.map((key) => [
    keys[key],
    numeral(weights[key]),
    ...dimensions.map((i) => sum(key, i)),
  ]);
  const others = keys.length - listed.length;
  const rest = (i) => numeral(result[i] - sumOf(listed.map((key) => part(key, i))));
  if (others > 0) rows.push([`the other ${others}`, "", ...dimensions.map(rest)]);
  const heads = ["key", "w", ...dimensions.map((i) => `w × v, i = ${i + 1}`)];
  const made = sumsTable(heads, rows, ["out", "", ...dimensions.map((i) => numeral(result[i]))]);
  made.tBodies[0].rows[listed.indexOf(place.key)].classList.add("chosen");
  return element("div", { class: "scroller" }, made);
}

/** Whether the weights computed here are the model's own. */
export function checkLine({ softmax, own, apart, agrees, place }) {
  const [here, there] = [softmax.weights, own].map((weights) => numeral(weights[place.key], 7));
  const [close, much] = [spelled(CLOSE, 5), spelled(apart, 5)];
  const verdict = agrees
    ? `They agree: no weight of this row is further than ${close} from the model's (the furthest: ${much}).`
    : `They do not agree within ${close}: a weight of this row differs by ${much}. The model may compute in a lower `
      + "precision, or this file may hold rounded weights.";
  const attributes = { class: agrees ? "agreement" : "agreement differs", dataset: { agrees: String(agrees) } };
  return element("p", attributes, "Computed here ", here, ", by the model ", there, ". ", verdict);
}

// ---- what cards are made of ----------------------------------------------------------------------------------------

const lowered = (inside) => element("sub", {}, inside);
const raised = (inside) => element("sup", {}, inside);
const smallText = (...inside) => element("small", {}, inside);
const sentence = (...inside) => element("p", {}, inside);

/** A number that is added, with its sign. */
function plus(number) {
  return `${number < 0 ? " − " : " + "}${spelled(Math.abs(number))}`;
}

function beginning(numbers) {
  const told = Array.from(numbers.slice(0, 4), (number) => spelled(number, 3));
  return `(${[...told, ...(numbers.length > 4 ? ["…"] : [])].join(", ")})`;
}

function sumsTable(heads, rows, foot) {
  const cells = (tag, row) => element("tr", {}, row.map((cell) => element(tag, {}, cell)));
  return element("table", { class: "sums" },
    element("thead", {}, cells("th", heads)),
    element("tbody", {}, rows.map((row) => cells("td", row))),
    element("tfoot", {}, cells("td", foot)));
}

function labelledStrip(card, name, numbers, most) {
  const holder = element("div", { class: "labelled" }, element("span", {}, name));
  card.append(holder);
  cellStrip(holder, { numbers, name, most });
}

function allKeys(card, { keys, place, choose }, numbers, name, signed) {
  card.append(element("h4", {}, name));
  barRow(card, { numbers: Array.from(numbers), labels: keys, chosen: place.key, name, signed, choose });
}
