// A picture, lit where one of its patches, or a token before them, looks: in one layer, and through all layers below.

import { attentionOf, canvas, element, fourDigits, headsOf, largest, layerOf, onlyLatest, overHeads, themeColour, tooltip, weightsOf, withHeads } from "../draw.js";
import { captionOf, noHeads } from "./matrix.js";

const DARKEST = 0.12; // light on a patch that is not looked at
const LARGEST_SIDE = 460; // pixels of a picture on the page
const BETWEEN = 24;
const LIT =
  "Patches are as bright as the square root of their weight, the strongest as it is. " +
  "Click a patch to see where it looks.";

export const pictureView = {
  name: "picture",
  title: "Picture",
  key: "0",
  controls: ["attention", "layer", "heads", "join"],
  fits: (look) => look.header.attentions.some(({ keys }) => look.header.pictures?.[keys]),
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const attention = attentionOf(look, state);
    const [heads, layer] = [headsOf(look, state), layerOf(attention, state)];
    const [pixels, weights, rollout] = await Promise.all([
      look.block(`picture/${attention.keys}`), weightsOf(look, state),
      attention.rollout ? look.block(`${attention.name}/rollout`) : null,
    ]);
    if (!latest()) return;
    if (!heads.length) return noHeads(root);
    const query = [...state.tokens].at(-1) ?? 0;
    const about = look.header.pictures[attention.keys];
    const pick = (piece) => change({ tokens: new Set([piece]) });
    root.append(queryChooser(look, attention, about, query, pick));
    const panels = element("div", { class: "panels" });
    root.append(panels);
    const joinedHeads = overHeads(withHeads(weights, heads), state.join);
    const shown = [{ title: captionOf(look, state, heads), row: lookedAt(joinedHeads, 0, query) }];
    if (rollout) shown.push({ title: `Rollout up to layer ${layer + 1}`, row: lookedAt(rollout, layer, query) });
    const side = Math.min(LARGEST_SIDE, Math.max(160, (root.clientWidth - BETWEEN) / (root.clientWidth > 560 ? 2 : 1)));
    for (const one of shown) litPanel(panels, { ...one, pixels, about, side, query, pick });
    root.append(element("p", { class: "hint" }, LIT));
  },
};

// What one token looks at, of (…, Q, K).
function lookedAt({ shape, data }, layer, query) {
  const [Q, K] = shape.slice(-2);
  return data.subarray((layer * Q + query) * K, (layer * Q + query + 1) * K);
}

// The tokens before the patches, which no place in the picture stands for; and which token is chosen.
function queryChooser(look, attention, { first }, query, pick) {
  const { shown } = look.header.sides[attention.queries];
  const buttons = shown.slice(0, first).map((text, piece) => element("button", {
    type: "button", "aria-pressed": String(piece === query), dataset: { key: `token ${piece}` },
    onclick: () => pick(piece),
  }, text));
  const patch = query < first ? "" : `patch ${shown[query]}, row:column`;
  return element("div", { class: "caption" },
    element("div", { class: "segments", role: "group", "aria-label": "Token that looks" }, buttons),
    element("p", {}, query < first ? `${shown[query]} looks at:` : `${patch}, looks at:`));
}

function litPanel(panels, { title, row, pixels, about, side, query, pick }) {
  const [high, wide] = pixels.shape;
  const scale = side / Math.max(high, wide);
  const [width, height] = [Math.round(wide * scale), Math.round(high * scale)];
  const panel = element("section", { style: { maxWidth: `${side}px` } }, element("h3", {}, title));
  const frame = element("div", { class: "heatmap", style: { width: `${width}px`, height: `${height}px` } });
  panel.append(frame);
  panels.append(panel);
  const name = `${title}: the picture, lit where it is looked at`;
  const pen = canvas(frame, width, height, { role: "img", "aria-label": name });
  const patches = row.subarray(about.first);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(litPicture(pixels, about, patches), 0, 0, width, height);
  if (query >= about.first) outlinePatch(pen, about, query - about.first, width, height);
  followPatches(frame, pen.canvas, about, patches, { width, height, pick });
  const before = row.subarray(0, about.first).reduce((sum, weight) => sum + weight, 0);
  panel.append(element("p", { class: "hint" }, `${fourDigits(before)} of it on the tokens before the patches`));
}

// The pixels of a picture times the light on the patch that each is in.
function litPicture({ shape, data }, { rows, columns }, patches) {
  const [high, wide] = shape;
  const most = largest(patches) || 1;
  const image = new ImageData(wide, high);
  for (let y = 0; y < high; y++) {
    const line = Math.floor((y * rows) / high) * columns;
    for (let x = 0; x < wide; x++) {
      const weight = patches[line + Math.floor((x * columns) / wide)] / most;
      const light = 255 * (DARKEST + (1 - DARKEST) * Math.sqrt(Math.max(weight, 0)));
      const at = y * wide + x;
      for (let c = 0; c < 3; c++) image.data[4 * at + c] = data[3 * at + c] * light;
      image.data[4 * at + 3] = 255;
    }
  }
  const node = new OffscreenCanvas(wide, high);
  node.getContext("2d").putImageData(image, 0, 0);
  return node;
}

function outlinePatch(pen, { rows, columns }, patch, width, height) {
  const [wide, high] = [width / columns, height / rows];
  pen.strokeStyle = themeColour("mark");
  pen.lineWidth = 2;
  pen.strokeRect((patch % columns) * wide + 1, Math.floor(patch / columns) * high + 1, wide - 2, high - 2);
}

function followPatches(frame, node, { rows, columns, first }, patches, { width, height, pick }) {
  const tip = tooltip(frame);
  const patchAt = (event) => {
    const column = Math.min(columns - 1, Math.max(0, Math.floor((event.offsetX / width) * columns)));
    return Math.min(rows - 1, Math.max(0, Math.floor((event.offsetY / height) * rows))) * columns + column;
  };
  node.addEventListener("pointermove", (event) => {
    const patch = patchAt(event);
    const place = `row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`;
    tip.show(event.offsetX, event.offsetY, `${place}: ${fourDigits(patches[patch])}`);
  });
  node.addEventListener("pointerleave", () => tip.hide());
  node.addEventListener("click", (event) => pick(first + patchAt(event)));
}
