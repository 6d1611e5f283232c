// What is chosen on the page: one object, changed in one place; the part worth sharing lies in the address.

export const state = {
  looks: [],
  view: "matrix",
  attention: "encoder",
  layer: 0,
  heads: new Set(),
  tokens: new Set(), // the queries selected, each by the number of its first piece, so that words and pieces agree
  hovered: null, // likewise a piece's number
  scrolled: 0, // pixels, of a long list of tokens
  unit: "pieces", // or "words"
  specials: true,
  renormalise: true, // where specials are hidden, the rest of a row sums to one again
  join: "mean", // or "max"
  direction: "out", // what a word looks at; or "in", what looks at it
  opens: "matrix", // the view that a click on a thumbnail opens; or "heads"
  theme: "system", // or "light", "dark"
};

const listeners = [];
let waiting = false;

/** Calls `listener(state)` after changes, once for all that were made together. */
export function onChange(listener) {
  listeners.push(listener);
}

const SILENT = ["hovered", "scrolled"]; // what views show by themselves

/** Merges `partial` and redraws, unless views show all of it by themselves. */
export function change(partial) {
  Object.assign(state, partial);
  const names = Object.keys(partial);
  if (waiting || (names.length && names.every((name) => SILENT.includes(name)))) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    for (const listener of listeners) listener(state);
  });
}

const SHARED = ["view", "attention", "layer", "unit", "join"];

/** The shared part as `view=heads&layer=3&heads=0,2`; `count` heads chosen of `count` are not worth a word. */
export function hashOf(chosen, count) {
  const hash = new URLSearchParams(SHARED.map((name) => [name, String(chosen[name])]));
  if (!chosen.specials) hash.set("specials", chosen.renormalise ? "hidden" : "cut");
  if (chosen.heads.size < count) hash.set("heads", [...chosen.heads].sort((a, b) => a - b).join(","));
  return hash.toString();
}

/** What an address says; unknown names and senseless values are passed over. */
export function readHash(text) {
  const found = {};
  const hash = new URLSearchParams(text.replace(/^#/, ""));
  for (const name of ["view", "attention"]) if (hash.get(name)) found[name] = hash.get(name);
  if (/^\d+$/.test(hash.get("layer"))) found.layer = Number(hash.get("layer"));
  if (["pieces", "words"].includes(hash.get("unit"))) found.unit = hash.get("unit");
  if (["mean", "max"].includes(hash.get("join"))) found.join = hash.get("join");
  if (hash.has("specials")) Object.assign(found, { specials: false, renormalise: hash.get("specials") !== "cut" });
  if (/^[\d,]*$/.test(hash.get("heads") ?? "-")) {
    found.heads = new Set(hash.get("heads").split(",").filter(Boolean).map(Number));
  }
  return found;
}
