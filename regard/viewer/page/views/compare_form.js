// A form for the second model of a comparison, where a server can answer it.

import { element } from "../draw.js";
import { embeddedLooks, servedLook, servedModels } from "../look.js";
import { chooser, pressable } from "../parts.js";

let modelsAsked = null; // asked for once

/** Fills `root` with the form, once the models are known; a file, or a server without models, has none. */
export async function secondForm(root, look, state, change) {
  if (embeddedLooks()) return;
  modelsAsked ??= servedModels().catch(() => []);
  const able = (await modelsAsked).filter(({ tasks }) => !tasks || tasks.includes("look"));
  if (!able.length || !root.isConnected) return;
  const asked = { model: able.find(({ name }) => name !== look.header.model)?.name ?? able[0].name };
  const options = able.map(({ name }) => ({ value: name, text: name }));
  const names = chooser("second model", options, asked.model, (name) => (asked.model = name));
  const text = element("input", { type: "text", "aria-label": "text for the second model" });
  text.value = textOf(look, state);
  const failure = element("p", { class: "error", role: "alert", hidden: true });
  const press = () => compareWith({ ...state.request, model: asked.model, text: text.value }, look, change, failure);
  const alone = state.looks.length > 1 ? pressable("remove", "Remove it", () => change({ looks: [look] })) : null;
  const button = pressable("compare", "Compare", press);
  root.replaceChildren(element("div", { class: "choices second" }, names, text, button, alone), failure);
}

async function compareWith(request, look, change, failure) {
  failure.hidden = true;
  try {
    const second = await servedLook(request);
    change({ looks: [look, second] });
  } catch (error) {
    failure.hidden = false;
    failure.textContent = error.message;
  }
}

/** The text that was looked at: as it was given, or word by word as the model read it. */
function textOf(look, state) {
  if (state.request?.text) return state.request.text;
  const side = look.header.sides.source ?? look.header.sides.text;
  const words = new Map();
  side.shown.forEach((piece, i) => {
    const word = side.words[i];
    if (!side.special[i]) words.set(word, (words.get(word) ?? "") + piece);
  });
  return [...words.values()].join(" ");
}
