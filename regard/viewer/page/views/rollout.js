// Through the whole stack: rollout and flow, which count the residual (Abnar and Zuidema 2020), beside the raw mean;
// and for one token what its output rests on, by four accounts that need not agree (Jain and Wallace 2019).

import { FONT, attentionOf, canvas, element, fittedText, fourDigits, joined, layerOf, onlyLatest, placeOf, renormalised, themeColour, tokensOf, tooltip } from "../draw.js";
import { colourScale, heatmap } from "../heatmap.js";

const MOST_ROWS = 40; // tokens with bars; the strongest are shown
const WARNING =
  "Attention alone is not an explanation. A weight says where a model looked, not what its output rests on: " +
  "compare the accounts below.";
const NO_ROLLOUT = "rollout and flow go through layers of self attention, and this is none.";
const CHOOSE =
  "Click a row, or press the right arrow key, to choose a token: four accounts say what its output rests on.";
const ACCOUNTS = {
  attention: "Weights, mean over layers and heads",
  rollout: "Weights through all layers",
  "gradient x attention": "Weights times how much each matters",
  occlusion: "What changes when a token is hidden",
};

export const rolloutView = {
  name: "rollout",
  title: "Rollout",
  key: "5",
  controls: ["attention", "layer", "unit", "specials"],
  fits: (look) => look.header.attentions.some(({ rollout, explain }) => rollout || explain?.length),
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const attention = attentionOf(look, state);
    const sides = { queries: tokensOf(look, attention.queries, state), keys: tokensOf(look, attention.keys, state) };
    const chosen = placeOf(sides.queries, [...state.tokens].at(-1) ?? -1);
    const wanted = stackPictures(attention, layerOf(attention, state));
    const blocks = await Promise.all(wanted.map(({ block }) => look.block(block).catch((error) => error)));
    if (!latest()) return;
    const panels = element("div", { class: "panels" });
    root.append(element("p", { class: "warning" }, WARNING), panels);
    const room = panelRoom(root.clientWidth, wanted.length);
    wanted.forEach((one, i) => stackPanel(panels, one, blocks[i], sides, room, chosen, state, change));
    if (!attention.rollout) panels.append(element("p", { class: "hint" }, `${attention.title}: ${NO_ROLLOUT}`));
    if (attention.explain?.length) drawAccounts(root, look, attention, sides, chosen);
  },
};

// What is drawn: of blocks over layers, one layer.
function stackPictures({ name, rollout, flow }, layer) {
  const raw = { title: `Raw weights, layer ${layer + 1}`, text: "mean over heads", block: `${name}/mean`, layer };
  if (!rollout) return [raw];
  const text = "layers multiplied, with residuals";
  const rolled = { title: `Rollout up to layer ${layer + 1}`, text, block: `${name}/rollout`, layer };
  const flowing = { title: "Flow", text: "from last layer to input, with residuals", block: `${name}/flow`, layer: 0 };
  return flow ? [rolled, flowing, raw] : [rolled, raw];
}

function panelRoom(width, count) {
  const beside = width >= 270 * count ? count : width >= 540 ? 2 : 1;
  return Math.floor((width - 24 * (beside - 1)) / beside);
}

function stackPanel(panels, { title, text, layer }, block, { queries, keys }, room, chosen, state, change) {
  const panel = element("section", { style: { maxWidth: `${room}px` } }, element("h3", {}, title));
  panel.append(element("p", { class: "hint" }, text));
  panels.append(panel);
  if (block instanceof Error) return panel.append(element("p", { class: "error" }, block.message));
  const [Q, K] = block.shape.slice(-2);
  const whole = { shape: [Q, K], data: block.data.subarray(layer * Q * K, (layer + 1) * Q * K) };
  const matrix = joined(whole, queries, keys, renormalised(state));
  const pick = (query) => change({ tokens: new Set([queries[query].first]) });
  const selected = chosen < 0 ? [] : [chosen];
  panel.append(colourScale(heatmap(panel, { matrix, queries, keys, room, name: title, selected, pick }).scale));
}

// ---- accounts ------------------------------------------------------------------------------------------------------

// They cost the server some work, so they are asked for when a token is chosen, and drawn when they come.
function drawAccounts(root, look, attention, { queries, keys }, chosen) {
  const section = element("section", { class: "accounts" });
  root.append(section);
  if (chosen < 0) return section.append(element("p", { class: "hint" }, CHOOSE));
  const { text, first } = queries[chosen];
  const waiting = element("p", { class: "hint", role: "status" }, "Being computed…");
  const what = `What the output at “${text}” (${attention.explain.join(", ")}) rests on`;
  section.append(element("h3", {}, what), waiting);
  look.block(`${attention.name}/explain/${first}`).then(
    (block) => {
      waiting.remove();
      const rows = Array.from({ length: block.shape[0] }, (_, row) => ({ first: row, pieces: [row] }));
      drawBars(section, look.header.explanations, joined(block, rows, keys), keys);
    },
    (error) => waiting.replaceWith(element("p", { class: "error" }, error.message)),
  );
}

// (4, K) as four columns of bars, one row a token.
function drawBars(section, names, { data }, keys) {
  const K = keys.length;
  const size = (row, key) => Math.abs(data[row * K + key]);
  const strength = keys.map((_, key) => Math.max(...names.map((_, row) => size(row, key))));
  const strongest = keys.map((_, key) => key).sort((a, b) => strength[b] - strength[a]).slice(0, MOST_ROWS);
  const rows = strongest.sort((a, b) => a - b);
  const frame = element("div", { class: "accountbars" });
  section.append(frame);
  const plan = barsPlan(frame.clientWidth || 600, names.length, rows.length);
  const context = canvas(frame, plan.width, plan.height, { role: "img", "aria-label": "Four accounts as bars" });
  rows.forEach((key, line) => paintBarLabel(context, plan, keys[key].text, line));
  names.forEach((name, row) => {
    const scale = Math.max(...keys.map((_, key) => size(row, key)), 1e-9);
    paintAccount(context, plan, name, row);
    rows.forEach((key, line) => paintBar(context, plan, row, line, data[row * K + key] / scale));
  });
  const say = (row, key) => `${keys[key].text}  ${fourDigits(data[row * K + key])}`;
  hoverBars(frame, context.canvas, plan, rows, names, say);
  const left = K - rows.length ? ` The ${rows.length} strongest tokens are shown, ${K - rows.length} are not.` : "";
  const what = "Each account is scaled to sum to 1 without signs; orange is against the output.";
  section.append(element("p", { class: "hint" }, what + left));
}

function barsPlan(width, count, rows) {
  const label = Math.min(120, width * 0.2);
  const column = Math.min(240, Math.floor((width - label) / count));
  return { label, column, row: 20, top: 30, width: label + column * count, height: 34 + rows * 20 };
}

function paintAccount(context, plan, name, column) {
  const narrow = plan.column < 130;
  const lines = narrow ? name.split(/(?<= x) /) : [name];
  context.font = `600 ${FONT.replace("13px", narrow ? "10px" : "12px")}`;
  context.fillStyle = themeColour("ink");
  context.textAlign = "left";
  const x = plan.label + column * plan.column + 6;
  lines.forEach((line, i) => context.fillText(fittedText(context, line, plan.column - 6), x, 10 + 12 * i));
}

function paintBarLabel(context, plan, text, line) {
  context.font = FONT;
  context.fillStyle = themeColour("soft");
  context.textAlign = "right";
  context.fillText(fittedText(context, text, plan.label - 12), plan.label - 4, plan.top + (line + 0.5) * plan.row);
}

// Zero lies a quarter into the column, so that what speaks against the output has room.
function paintBar(context, plan, column, line, share) {
  const [left, room] = [plan.label + column * plan.column + 8, plan.column - 20];
  const zero = left + room / 4;
  const y = plan.top + line * plan.row + 4;
  context.fillStyle = themeColour("line");
  context.fillRect(zero, y - 4, 1, plan.row);
  context.fillStyle = themeColour(share < 0 ? "mark" : "accent");
  const length = Math.abs(share) * (share < 0 ? room / 4 : (room * 3) / 4);
  context.fillRect(share < 0 ? zero - length : zero + 1, y, length, plan.row - 8);
}

function hoverBars(frame, node, plan, rows, names, say) {
  const tip = tooltip(frame);
  node.addEventListener("pointermove", (event) => {
    const column = Math.floor((event.offsetX - plan.label) / plan.column);
    const line = Math.floor((event.offsetY - plan.top) / plan.row);
    if (!names[column] || rows[line] === undefined) return tip.hide();
    const about = ACCOUNTS[names[column]] ?? "";
    tip.show(event.offsetX, event.offsetY, `${names[column]}: ${say(column, rows[line])}\n${about}`);
  });
  node.addEventListener("pointerleave", () => tip.hide());
}
