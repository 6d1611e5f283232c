// How this number came: one weight from query and key to what is read with it, step by step, with the real numbers.

import { element } from "../draw.js";
import { largestPlaces, rowOf } from "../arithmetic.js";
import { chooser, numeral, pieceOptions, pressable, spelled, tickBox, toldFailures, within } from "../parts.js";
import { figuresOf } from "./number_figures.js";
import { checkLine, stepsOf } from "./number_steps.js";
import { chosenPlace, placeChoosers, placeIn, quoted, tellsItsScores } from "./place.js";

const numberPage = { step: 0, all: false, turn: null, root: null }; // `turn(by)` goes so many steps on

export const numberView = {
  name: "number",
  title: "How this number came",
  key: "7",
  controls: ["attention", "layer"],
  fits: tellsItsScores,
  async draw(root, look, state, change) {
    await toldFailures(root, async (latest) => {
      const place = await wholePlace(look, state);
      const figures = await figuresOf(look, place.attention, place);
      if (latest()) fillNumberPage(root, { look, state, change, place, figures });
    });
  },
};

async function wholePlace(look, state) {
  const place = placeIn(look, state);
  const key = chosenPlace.key ?? (await strongestKey(look, place));
  return { ...place, key: within(key, place.attention.layers[place.layer].keys) };
}

async function strongestKey(look, { attention, layer, head, query }) {
  const weights = await look.block(`${attention.name}/${layer}/weights`);
  return largestPlaces(rowOf(weights, head, query), 1)[0];
}

function fillNumberPage(root, { look, state, change, place, figures }) {
  const again = () => numberView.draw(root, look, state, change);
  const chooseKey = (key) => {
    chosenPlace.key = Number(key);
    again();
  };
  const steps = stepsOf(figures, namesOf(look, place), chooseKey);
  const turnTo = (step) => {
    numberPage.step = within(step, steps.length);
    again();
  };
  numberPage.step = within(numberPage.step, steps.length);
  Object.assign(numberPage, { root, turn: (by) => turnTo(numberPage.step + by) });
  const keys = chooser("key", pieceOptions(look, place.attention.keys), place.key, chooseKey);
  const page = element("div", { class: "number-page" });
  root.replaceChildren(element("div", { class: "choices" }, placeChoosers(look, state, change, place), keys), page);
  page.append(headline(look, place, figures), stepTrail(steps, turnTo), stepButtons(steps, again));
  steps.forEach((step, i) => (numberPage.all || i === numberPage.step) && stepCard(page, step, i));
  page.append(checkLine(figures));
}

function namesOf(look, { attention, query, key }) {
  return {
    queryName: quoted(look, attention.queries, query),
    keyName: quoted(look, attention.keys, key),
    keys: look.header.sides[attention.keys].shown,
    causal: attention.causal,
  };
}

function headline(look, { attention, layer, head, query, key }, { softmax }) {
  const where = `${attention.title}, layer ${layer + 1}, head ${head + 1}`;
  const [asks, answers] = [quoted(look, attention.queries, query), quoted(look, attention.keys, key)];
  const weight = numeral(softmax.weights[key], 4, { class: "answer" });
  const said = `${asks} looks at ${answers} with the weight `;
  return element("p", { class: "headline" }, said, weight, element("small", {}, where));
}

/** Every step with the number it ends with: the whole way at a glance. */
function stepTrail(steps, turnTo) {
  const items = steps.map((step, i) => {
    const value = step.value === null ? null : element("b", {}, spelled(step.value, 3));
    const attributes = { "aria-current": i === numberPage.step ? "step" : null };
    const inside = [element("span", {}, step.name), value];
    return element("li", {}, pressable(`step ${i}`, inside, () => turnTo(i), attributes));
  });
  return element("ol", { class: "trail", "aria-label": "Steps" }, items);
}

function stepButtons(steps, again) {
  const { step, all, turn } = numberPage;
  const showAll = (every) => {
    numberPage.all = every;
    again();
  };
  return element("div", { class: "stepping" },
    pressable("previous", "Previous", () => turn(-1), { disabled: step === 0, title: "key P" }),
    pressable("next", "Next", () => turn(1), { disabled: step === steps.length - 1, title: "key N" }),
    element("span", { role: "status" }, `Step ${step + 1} of ${steps.length}`),
    tickBox("all steps on one page", all, showAll));
}

function stepCard(page, step, i) {
  const current = i === numberPage.step;
  const title = element("h3", {}, `${i + 1}. ${step.title}`);
  const card = element("section", { class: current ? "card current" : "card", dataset: { step: step.name } },
    title, element("p", { class: "formula" }, step.formula));
  page.append(card);
  step.tell(card);
  if (current && numberPage.all && i > 0) card.scrollIntoView({ block: "nearest" });
}

// one listener for the page's life: N goes on and P goes back while the view is shown and nobody types
document.addEventListener("keydown", (event) => {
  const by = { n: 1, p: -1 }[event.key];
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (!by || typing || event.ctrlKey || event.metaKey || event.altKey || !shownNow()) return;
  event.preventDefault();
  numberPage.turn(by);
});

function shownNow() {
  return numberPage.root?.isConnected && numberPage.root.querySelector(".number-page") !== null;
}
