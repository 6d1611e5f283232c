// What can be chosen beside a view: attention, layer, heads, words or pieces, specials, mean or max; and the keys.

import { attentionOf, colourOfHead, element, headsOf, layerOf, placeOf, tokensOf } from "./draw.js";

const ALL_CONTROLS = ["attention", "layer", "heads", "unit", "specials", "join"];
const UNITS = [["pieces", "Pieces"], ["words", "Words"]];
const SPECIALS = [["shown", "Shown"], ["hidden", "Hidden"]];
const JOINS = [["mean", "Mean"], ["max", "Max"]];

/** Builds the controls of a look into `root`; gives update(state, view), which shows what is chosen. */
export function buildControls(root, look, change, state) {
  const parts = look.header.attentions.length ? controlParts(look, change, state) : {};
  root.replaceChildren(...Object.values(parts).map(({ node }) => node));
  return (chosen, view) => {
    for (const [name, { node, update }] of Object.entries(parts)) {
      node.hidden = !(view?.controls ?? ALL_CONTROLS).includes(name);
      update(chosen);
    }
  };
}

function controlParts(look, change, state) {
  const { attentions } = look.header;
  const titles = attentions.map(({ name, title }) => [name, title]);
  const choose = (attention) => change({ attention, tokens: new Set(), ...allHeads(look, { ...state, attention }) });
  const parts = {
    attention: segments("Attention", titles, choose, (chosen) => attentionOf(look, chosen).name),
    layer: layerSlider(look, change),
    heads: headToggles(look, change, state),
    unit: segments("Tokens", UNITS, (unit) => change({ unit }), (chosen) => chosen.unit),
    specials: specialsChoice(change),
    join: segments("Heads together", JOINS, (join) => change({ join }), (chosen) => chosen.join),
  };
  if (attentions.length < 2) delete parts.attention;
  return parts;
}

/** {heads}: all that the chosen attention's widest layer has. */
export function allHeads(look, state) {
  const most = Math.max(0, ...(attentionOf(look, state)?.layers ?? []).map(({ heads }) => heads));
  return { heads: new Set(Array.from({ length: most }, (_, head) => head)) };
}

// A row of buttons of which one is pressed: that of `choice(state)`.
function segments(title, options, choose, choice) {
  const buttons = options.map(([value, text]) =>
    element("button", { type: "button", dataset: { value }, onclick: () => choose(value) }, text));
  const node = element("div", { class: "control" },
    element("span", { class: "label" }, title),
    element("div", { class: "segments", role: "group", "aria-label": title }, buttons));
  const update = (chosen) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === choice(chosen)));
  };
  return { node, update };
}

function layerSlider(look, change) {
  const shown = element("output", { for: "layer" });
  const slide = () => change({ layer: Number(input.value) });
  const input = element("input", { type: "range", id: "layer", min: 0, step: 1, oninput: slide });
  const label = element("label", { class: "label", for: "layer" }, "Layer ", shown);
  const node = element("div", { class: "control" }, label, input);
  const update = (chosen) => {
    const attention = attentionOf(look, chosen);
    const layer = layerOf(attention, chosen);
    input.max = attention.layers.length - 1;
    input.value = layer;
    shown.value = `${layer + 1} of ${attention.layers.length}`;
    input.setAttribute("aria-valuetext", shown.value);
    node.hidden ||= attention.layers.length < 2;
  };
  return { node, update };
}

function headToggles(look, change, state) {
  const toggles = element("div", { class: "toggles", role: "group", "aria-label": "Heads" });
  const link = (text, press) => element("button", { type: "button", class: "link", onclick: press }, text);
  const links = [link("all", () => change(allHeads(look, state))), link("none", () => change({ heads: new Set() }))];
  const title = element("div", { class: "label" }, "Heads", element("span", { class: "links" }, links));
  const node = element("div", { class: "control" }, title, toggles);
  const press = (head, alone) => {
    const heads = new Set(state.heads);
    if (!heads.delete(head)) heads.add(head);
    change({ heads: alone ? new Set([head]) : heads });
  };
  const update = (chosen) => {
    const attention = attentionOf(look, chosen);
    const count = attention.layers[layerOf(attention, chosen)].heads;
    while (toggles.children.length > count) toggles.lastChild.remove();
    while (toggles.children.length < count) toggles.append(headToggle(toggles.children.length, press));
    [...toggles.children].forEach((button, head) => {
      button.setAttribute("aria-pressed", String(chosen.heads.has(head)));
      button.style.setProperty("--colour", colourOfHead(head));
    });
    node.hidden ||= count < 2 && chosen.heads.has(0);
  };
  return { node, update };
}

function headToggle(head, press) {
  return element("button", {
    type: "button", class: "head", "aria-label": `Head ${head + 1}`, title: `Head ${head + 1} (double click: alone)`,
    onclick: () => press(head, false), ondblclick: () => press(head, true),
  }, String(head + 1));
}

function specialsChoice(change) {
  const choose = (value) => change({ specials: value === "shown" });
  const row = segments("Special tokens", SPECIALS, choose, ({ specials }) => (specials ? "shown" : "hidden"));
  const check = () => change({ renormalise: box.checked });
  const box = element("input", { type: "checkbox", id: "renormalise", onchange: check });
  const again = element("label", { class: "check", for: "renormalise" }, box, "rows sum to 1 again");
  row.node.append(again);
  const update = (chosen) => {
    row.update(chosen);
    again.hidden = chosen.specials;
    box.checked = chosen.renormalise;
  };
  return { node: row.node, update };
}

// ---- keys ----------------------------------------------------------------------------------------------------------

const KEYS = [
  ["1 … 9, 0", "choose the view"],
  ["← →", "the token before, after"],
  ["↑ ↓", "the layer above, below"],
  ["Shift ← →", "one head alone: before, after"],
  ["A", "all heads"],
  ["W", "words or pieces"],
  ["S", "special tokens shown or hidden"],
  ["M", "mean or max over heads"],
  ["N P", "the next, the previous step of how a number came"],
  ["T", "light or dark"],
  ["Esc", "let go of what is selected"],
  ["?", "these keys"],
];

/** A window that lists the keys. */
export function keysDialog() {
  const row = ([keys, meaning]) => element("div", {},
    element("dt", {}, element("kbd", {}, keys)), element("dd", {}, meaning));
  const dialog = element("dialog", { class: "keys", "aria-labelledby": "keys-title" },
    element("h2", { id: "keys-title" }, "Keys"),
    element("dl", {}, KEYS.map(row)),
    element("p", { class: "hint" }, "In a matrix or text that has the focus, arrow keys go by cells or words."),
    element("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  document.body.append(dialog);
  return dialog;
}

/** What a key changes, as a part of the state; null where it means nothing. */
export function keyChange(event, look, state) {
  const attention = attentionOf(look, state);
  const letter = event.key.toLowerCase();
  if (event.key === "Escape") return { tokens: new Set() };
  if (!attention) return null;
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const layer = layerOf(attention, state) + (event.key === "ArrowUp" ? 1 : -1);
    return { layer: Math.min(Math.max(layer, 0), attention.layers.length - 1) };
  }
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) return event.shiftKey ? nextHead(look, attention, state, step) : nextToken(look, attention, state, step);
  if (letter === "a") return allHeads(look, state);
  if (letter === "w") return { unit: state.unit === "words" ? "pieces" : "words" };
  if (letter === "s") return { specials: !state.specials };
  if (letter === "m") return { join: state.join === "mean" ? "max" : "mean" };
  return null;
}

function nextToken(look, attention, state, step) {
  const tokens = tokensOf(look, attention.queries, state);
  const at = placeOf(tokens, [...state.tokens].at(-1) ?? -1);
  const next = at < 0 ? (step > 0 ? 0 : tokens.length - 1) : (at + step + tokens.length) % tokens.length;
  return tokens.length ? { tokens: new Set([tokens[next].first]) } : null;
}

function nextHead(look, attention, state, step) {
  const count = attention.layers[layerOf(attention, state)].heads;
  const heads = headsOf(look, state);
  const next = heads.length === 1 ? (heads[0] + step + count) % count : step > 0 ? 0 : count - 1;
  return { heads: new Set([next]) };
}
