// The page: its frame, the views, and what redraws them.

import { buildControls, allHeads, keyChange, keysDialog } from "./controls.js";
import { element, onlyLatest, themeShown } from "./draw.js";
import { keyForm, lookForm } from "./form.js";
import { embeddedLooks, servedLook, servedModels, startedLooks } from "./look.js";
import { change, hashOf, onChange, readHash, state } from "./state.js";
import { matrixView } from "./views/matrix.js";
import { headsView } from "./views/heads.js";
import { gridView } from "./views/grid.js";
import { textView } from "./views/text.js";
import { rolloutView } from "./views/rollout.js";
import { dimensionsView } from "./views/dimensions.js";
import { numberView } from "./views/number.js";
import { compareView } from "./views/compare.js";
import { statesView } from "./views/states.js";
import { pictureView } from "./views/picture.js";

const VIEWS = [
  matrixView, headsView, gridView, textView, rolloutView, dimensionsView, numberView, compareView, statesView,
  pictureView,
];
const PARTS = ["top", "side", "about", "views", "stage"];
const page = Object.fromEntries(PARTS.map((id) => [id, document.getElementById(id)]));
const asking = element("div", { id: "asking" });
const choices = element("div", { id: "choices" });
let shownLook = null;
let updateControls = () => {};

/** The view that is chosen, or the first that fits the look. */
function viewShown(look) {
  const fitting = VIEWS.filter((view) => view.fits(look));
  return fitting.find(({ name }) => name === state.view) ?? fitting[0];
}

// ---- drawing -------------------------------------------------------------------------------------------------------

// A view is drawn out of sight and put in the old one's place when it is whole, so that nothing flickers.
async function drawView(look) {
  const latest = onlyLatest(page.stage);
  const view = viewShown(look);
  const root = element("div", { class: "view pending", dataset: { view: view?.name ?? "none" } });
  page.stage.append(root);
  page.stage.setAttribute("aria-busy", "true");
  try {
    if (view) await view.draw(root, look, state, change);
    else root.append(element("p", { class: "hint" }, "There is nothing to look at in this model."));
  } catch (error) {
    root.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
  }
  if (!latest()) return root.remove();
  const focused = page.stage.querySelector("[data-key]:focus-visible")?.dataset.key;
  root.classList.remove("pending");
  page.stage.replaceChildren(root);
  page.stage.setAttribute("aria-busy", "false");
  if (focused) [...root.querySelectorAll("[data-key]")].find(({ dataset }) => dataset.key === focused)?.focus();
}

function redraw() {
  applyTheme();
  const [look] = state.looks;
  if (!look) return;
  if (look !== shownLook) beginLook(look);
  const view = viewShown(look);
  drawAbout(look);
  drawTabs(look, view);
  updateControls(state, view);
  writeHash(look);
  drawView(look);
}

// What a file was written to show first.
function chosenInFile() {
  return document.getElementById("looks")?.dataset.start ?? "";
}

// A new look: what was chosen for the last one is kept as far as it has it.
function beginLook(look) {
  const first = shownLook === null;
  const asked = first ? readHash(location.hash || chosenInFile()) : {};
  shownLook = look;
  Object.assign(state, { tokens: new Set(), hovered: null, scrolled: 0 }, asked);
  if (!asked.heads) Object.assign(state, allHeads(look, state));
  updateControls = buildControls(choices, look, change, state);
}

function writeHash(look) {
  try {
    history.replaceState(null, "", `#${hashOf(state, allHeads(look, state).heads.size)}`);
  } catch {
    // a frame without an address of its own, as in a notebook
  }
}

function drawTabs(look, shown) {
  page.views.replaceChildren(...VIEWS.map((view) => {
    const fits = view.fits(look);
    return element("button", {
      type: "button", disabled: !fits, "aria-current": view === shown ? "page" : null, "aria-keyshortcuts": view.key,
      title: fits ? `${view.title} (${view.key})` : `${view.title}: this model has nothing for it`,
      onclick: () => change({ view: view.name }), dataset: { name: view.name },
    }, element("kbd", {}, view.key), view.title);
  }));
  page.views.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function drawAbout(look) {
  const { model, family, kind, notes = [], sides } = look.header;
  const counts = Object.entries(sides).map(([side, { pieces }]) => `${side}: ${pieces.length} pieces`);
  page.about.replaceChildren(
    element("h1", {}, model || "A model without a name"),
    element("p", { class: "hint" }, [family, kind, ...counts].filter(Boolean).join(" · ")),
    ...(notes.length ? [element("ul", { class: "notes" }, notes.map((note) => element("li", {}, note)))] : []),
    ...(state.looks.length > 1 ? [lookChoice()] : []));
}

// Which of several looks is shown; the others are there to be compared.
function lookChoice() {
  const others = state.looks.slice(1).map(({ header }, i) => element("button", {
    type: "button", class: "link", onclick: () => showFirst(i + 1),
  }, header.model || `look ${i + 2}`));
  return element("p", { class: "hint others" }, "Beside it: ", others);
}

function showFirst(place) {
  const looks = [...state.looks];
  [looks[0], looks[place]] = [looks[place], looks[0]];
  change({ looks });
}

// ---- theme ---------------------------------------------------------------------------------------------------------

function applyTheme() {
  if (state.theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = state.theme;
  document.getElementById("theme").textContent = themeShown() === "dark" ? "Light" : "Dark";
}

function switchTheme() {
  const theme = themeShown() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // a frame that may keep nothing
  }
  change({ theme });
}

function rememberedTheme() {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return "system";
  }
}

// ---- keys and sizes ------------------------------------------------------------------------------------------------

function listen(dialog) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, textarea, select")) return;
    if (event.key === "?") return dialog.showModal();
    if (event.key.toLowerCase() === "t") return switchTheme();
    const [look] = state.looks;
    if (!look) return;
    const view = VIEWS.find(({ key }) => key === event.key);
    const partial = view ? view.fits(look) && { view: view.name } : keyChange(event, look, state);
    if (!partial) return;
    event.preventDefault();
    change(partial);
  });
  addEventListener("hashchange", () => {
    if (shownLook) change({ ...allHeads(shownLook, state), ...readHash(location.hash) });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => change({}));
  redrawWhenResized();
}

function redrawWhenResized() {
  let width = page.stage.clientWidth;
  let timer = 0;
  new ResizeObserver(() => {
    if (page.stage.clientWidth === width) return;
    width = page.stage.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(() => change({}), 120);
  }).observe(page.stage);
}

// ---- beginning -----------------------------------------------------------------------------------------------------

function buildFrame() {
  const dialog = keysDialog();
  const tool = (id, title, onclick, text) => element("button", {
    type: "button", id, title, onclick, "aria-label": title,
  }, text);
  page.top.append(
    element("span", { class: "mark" }, "regard"),
    element("span", { class: "motto" }, "what a model looks at"),
    element("span", { class: "tools" },
      tool("keys", "Keys (?)", () => dialog.showModal(), "?"), tool("theme", "Light or dark (T)", switchTheme)));
  page.side.append(asking, choices);
  listen(dialog);
}

// On a narrow screen the form folds away once there is something to see.
function foldable(form) {
  const box = element("details", { class: "askbox", open: true }, element("summary", {}, "Model and text"), form);
  onChange(({ looks }) => {
    if (looks[0] === box.look) return;
    box.look = looks[0];
    box.open = !matchMedia("(max-width: 820px)").matches;
  });
  return box;
}

async function askServer() {
  try {
    const [models, looks] = await Promise.all([servedModels(), startedLooks()]);
    const able = models.filter(({ tasks }) => !tasks || tasks.includes("look"));
    asking.replaceChildren();
    if (able.length) {
      const form = lookForm(able, async (request) => change({ looks: [await servedLook(request)], request }));
      asking.replaceChildren(foldable(form.node));
      if (!looks.length) form.submit();
    }
    if (looks.length) change({ looks });
    else if (!able.length) asking.append(element("p", { class: "hint" }, "The server has no model to look at."));
  } catch (error) {
    asking.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
    if (error.status === 401) asking.append(keyForm(askServer));
  }
}

function begin() {
  state.theme = rememberedTheme();
  buildFrame();
  onChange(redraw);
  change({});
  applyTheme();
  const embedded = embeddedLooks();
  if (embedded) change({ looks: embedded });
  else askServer();
}

begin();
