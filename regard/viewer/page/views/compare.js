// Two looks side by side, of two models on one text or of two heads of one model; their difference, and how far apart.
// Letters: Q queries, K keys.

import { attentionOf, element, joined, layerOf, overHeads, placeOf, renormalised, tokensOf } from "../draw.js";
import { divergencesOf, largestSize, matrixOf, sumOf } from "../arithmetic.js";
import { barRow, chooser, numberedOptions, numeral, spelled, toldFailures, within } from "../parts.js";
import { pictureRow } from "./compare_pictures.js";
import { secondForm } from "./compare_form.js";

const ALL_HEADS = -1; // the mean over heads
const comparePage = { heads: [null, null], layer: null, apart: false }; // null: not chosen; apart: heads of one model

export const compareView = {
  name: "compare",
  title: "Side by side",
  key: "8",
  controls: ["attention", "unit", "specials"],
  fits: (look) => look.header.attentions.length > 0,
  async draw(root, look, state, change) {
    await toldFailures(root, async (latest) => {
      const sides = comparedSides(look, state);
      const shown = await Promise.all(sides.map((side) => shownSide(side, state)));
      if (latest()) fillComparison(root, { look, state, change, shown });
    });
  },
};

/** The two things compared, each {look, attention, layer, head}. */
function comparedSides(look, state) {
  const second = comparePage.apart ? undefined : secondLook(look, state);
  const first = comparedSide(look, state, state.layer, comparePage.heads[0] ?? (second ? ALL_HEADS : 0));
  const layer = comparePage.layer ?? first.layer;
  return [first, comparedSide(second ?? look, state, layer, comparePage.heads[1] ?? (second ? ALL_HEADS : 1))];
}

function secondLook(look, state) {
  return state.looks.find((other) => other !== look && other.header.attentions.length);
}

function comparedSide(look, state, layer, head) {
  const attention = attentionOf(look, state);
  const number = layerOf(attention, { layer });
  const { heads } = attention.layers[number];
  return { look, attention, layer: number, head: head === ALL_HEADS ? head : within(head, heads) };
}

async function shownSide(side, state) {
  const { look, attention, layer, head } = side;
  const weights = await look.block(`${attention.name}/${layer}/weights`);
  const queries = tokensOf(look, attention.queries, state);
  const keys = tokensOf(look, attention.keys, state);
  const one = head === ALL_HEADS ? overHeads(weights, "mean") : matrixOf(weights, head);
  return { ...side, queries, keys, matrix: joined(one, queries, keys, renormalised(state)), title: sideTitle(side) };
}

function sideTitle({ look, layer, head }) {
  return `${look.header.model}, layer ${layer + 1}, ${head === ALL_HEADS ? "mean of its heads" : `head ${head + 1}`}`;
}

function fillComparison(root, { look, state, change, shown }) {
  const again = () => compareView.draw(root, look, state, change);
  root.replaceChildren(element("div", { class: "choices" }, compareChoosers(look, state, change, shown, again)));
  const form = element("div", {});
  root.append(form);
  secondForm(form, look, state, change);
  const alike = sameShape(shown);
  const pictures = [...shown, ...(alike ? [differenceOf(shown)] : [])];
  const bits = alike ? divergencesOf(shown[0].matrix, shown[1].matrix) : null;
  const at = placeOf(shown[0].queries, [...state.tokens].at(-1) ?? state.hovered);
  const query = at < 0 ? null : at;
  const status = element("p", { class: "readout", role: "status" }, saidQuery(shown[0].queries[query], bits?.[query]));
  const holder = pictureRow(root, pictures, { query, status, hovered: (hovered) => change({ hovered }) });
  if (alike) distanceBetween(holder, shown[0], bits, query);
  const note = alike ? sameTokensNote(shown) : differentNote(shown);
  if (note) root.append(element("p", { class: "hint" }, note));
}

function saidQuery(query, bits) {
  if (!query || bits === undefined) return "Point at a picture to read its numbers.";
  return `${query.text}: the two are ${spelled(bits, 4)} bits apart.`;
}

function compareChoosers(look, state, change, shown, again) {
  const set = (name, value) => {
    comparePage[name] = value;
    again();
  };
  const second = secondLook(look, state);
  const whom = [{ value: "", text: second?.header.model }, { value: "apart", text: "another head of this model" }];
  const between = chooser("with", whom, comparePage.apart ? "apart" : "", (value) => set("apart", value === "apart"));
  const turned = (side) => (head) => set("heads", comparePage.heads.with(side, Number(head)));
  const layers = [(layer) => change({ layer: Number(layer) }), (layer) => set("layer", Number(layer))];
  const pair = shown.map((one, side) => element("fieldset", {}, element("legend", {}, side ? "right" : "left"),
    chooser("layer", numberedOptions("layer", one.attention.layers.length), one.layer, layers[side], `layer ${side}`),
    chooser("head", headOptions(one), one.head, turned(side), `head ${side}`)));
  return [...pair, second ? between : null];
}

function headOptions({ attention, layer }) {
  return [{ value: ALL_HEADS, text: "mean of heads" }, ...numberedOptions("head", attention.layers[layer].heads)];
}

function sameShape([one, other]) {
  return one.queries.length === other.queries.length && one.keys.length === other.keys.length;
}

function differenceOf([one, other]) {
  const data = one.matrix.data.map((weight, i) => weight - other.matrix.data[i]);
  return { ...one, matrix: { shape: one.matrix.shape, data }, title: "left − right", signed: true };
}

function sameTokensNote(shown) {
  const [one, other] = shown.map(({ queries, keys }) => [...queries, ...keys].map(({ text }) => text).join("\n"));
  return one === other ? "" : "The two cut the text differently, into as many tokens: the difference is by place.";
}

function differentNote([one, other]) {
  const size = ({ queries, keys }) => `${queries.length} × ${keys.length}`;
  return `One has ${size(one)} tokens and the other ${size(other)}, so they have no difference by place. `
    + "Words instead of pieces, or special tokens hidden, may make them alike.";
}

/** Jensen and Shannon's divergence: the mean over queries, and each query's; marked is the chosen or the furthest. */
function distanceBetween(holder, { queries }, bits, query) {
  const mean = bits.length ? sumOf(bits) / bits.length : 0;
  const told = element("section", { class: "distance" }, element("h3", {}, "How far apart"),
    element("p", {}, numeral(mean, 4, { class: "answer" }), " bits: the mean over queries of Jensen and Shannon's "
      + "divergence, which is 0 where both look alike and 1 where they share no key. Each query:"));
  holder.append(told);
  const labels = queries.map(({ text }) => text);
  const chosen = query ?? bits.indexOf(largestSize(bits));
  barRow(told, { numbers: Array.from(bits), labels, chosen, name: "divergence of each query" });
}
