// What all views draw with: elements, canvases, colours, and tokens and weights in the unit that is chosen.

/** An element; attributes named on… are listeners, `style` is an object; children may be lists or nothing. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") styled(node, value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function styled(node, style) {
  for (const [name, value] of Object.entries(style)) {
    if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.style[name] = value; // by the object model: the content security policy forbids style in markup
  }
}

/** A canvas of width x height CSS pixels, sharp on the device: its 2D context (`context.canvas` is the element). */
export function canvas(root, width, height, attributes = {}) {
  const node = element("canvas", attributes);
  const ratio = window.devicePixelRatio || 1;
  node.width = Math.max(1, Math.round(width * ratio));
  node.height = Math.max(1, Math.round(height * ratio));
  styled(node, { width: `${width}px`, height: `${height}px` });
  root.append(node);
  const context = node.getContext("2d");
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  context.font = FONT;
  return context;
}

export const FONT = "13px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** A function that is true until `onlyLatest` is called for the same root again. */
export function onlyLatest(root) {
  const turn = (turns.get(root) ?? 0) + 1;
  turns.set(root, turn);
  return () => turns.get(root) === turn;
}
const turns = new WeakMap();

// ---- colours -------------------------------------------------------------------------------------------------------

/** "light" or "dark", as the page is shown. */
export function themeShown() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** A colour of the style sheet by its name: `themeColour("ink")`. */
export function themeColour(name) {
  return PAPER[themeShown()][name];
}

const PAPER = {
  light: { paper: "#ffffff", ink: "#1c2127", soft: "#5d6670", line: "#dcdad4", accent: "#0a5ea8", mark: "#d55e00" },
  dark: { paper: "#1a1e24", ink: "#e8eaed", soft: "#9da7b2", line: "#363c45", accent: "#7dbdf0", mark: "#ff9a52" },
};

// Okabe and Ito (2008), told apart with every kind of colour blindness; black is grey where the page is dark, and
// yellow is deeper where it is light.
const HEAD_COLOURS = {
  light: ["#e69f00", "#56b4e9", "#009e73", "#d8c400", "#0072b2", "#d55e00", "#cc79a7", "#3b3f45"],
  dark: ["#e69f00", "#56b4e9", "#17b98b", "#f0e442", "#4a9fdc", "#f0742a", "#dd90ba", "#c9ced4"],
};
// of each further eight: towards black or white
const HEAD_TINTS = { light: [0, -0.4, 0.45, -0.65], dark: [0, 0.5, -0.4, 0.75] };

export function colourOfHead(head) {
  const theme = themeShown();
  const colours = HEAD_COLOURS[theme];
  const tint = HEAD_TINTS[theme][Math.floor(head / colours.length) % 4];
  return mixed(colours[head % colours.length], tint < 0 ? "#000000" : "#ffffff", Math.abs(tint));
}

function mixed(from, to, share) {
  const [a, b] = [channels(from), channels(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(" ")})`;
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Lightness alone orders these, so they are read in grey and by every eye.
const SEQUENTIAL = {
  light: ["#ffffff", "#e6eff8", "#bcd6ec", "#86b6dc", "#4c90c6", "#1f68a8", "#124a82", "#0b2d57"],
  dark: ["#1a1e24", "#20303f", "#274a66", "#2f6a92", "#4490bb", "#72b6d8", "#b4dbec", "#f6fcff"],
};
// Blue below zero, orange above.
const SIGNED = {
  light: ["#0b3c78", "#2f74b5", "#8dbbe0", "#ffffff", "#f3b27a", "#d4691e", "#8a3a04"],
  dark: ["#a8d4ff", "#4c97d8", "#285a8a", "#1a1e24", "#8a4c1c", "#dd7d32", "#ffcb9a"],
};
const tables = new Map();

// 256 colours, each a pixel of ImageData as one number (red in the lowest byte).
function colourTable(palette, stops) {
  const key = `${palette} ${themeShown()}`;
  if (!tables.has(key)) {
    const parts = stops[themeShown()].map(channels);
    const bytes = new Uint8Array(256 * 4).fill(255);
    for (let i = 0; i < 256; i++) {
      const at = (i / 255) * (parts.length - 1);
      const low = Math.min(Math.floor(at), parts.length - 2);
      for (let c = 0; c < 3; c++) bytes[4 * i + c] = parts[low][c] + (parts[low + 1][c] - parts[low][c]) * (at - low);
    }
    tables.set(key, new Uint32Array(bytes.buffer));
  }
  return tables.get(key);
}

// The square root keeps small weights, which are most of them, from vanishing beside one that is nearly 1.
const sequentialPlace = (weight) => (weight > 0 ? (255 * Math.sqrt(Math.min(weight, 1)) + 0.5) | 0 : 0);
const divergingPlace = (value) => (127.5 * (1 + Math.min(Math.max(value || 0, -1), 1)) + 0.5) | 0;

function tableColour(pixel) {
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}

/** The colour of a weight from 0 to 1, by its square root. */
export function shade(weight) {
  return tableColour(colourTable("sequential", SEQUENTIAL)[sequentialPlace(weight)]);
}

/** The colour of a value from -1 (blue) to 1 (orange). */
export function signedShade(value) {
  return tableColour(colourTable("diverging", SIGNED)[divergingPlace(value)]);
}

/** Black or white, whichever is read better on `shade(weight)`: at least 4.5 to 1, as WCAG 2 wants. */
export function inkOn(weight) {
  const pixel = colourTable("sequential", SEQUENTIAL)[sequentialPlace(weight)];
  const [red, green, blue] = [0, 8, 16].map((bits) => luminousness(((pixel >> bits) & 255) / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

const luminousness = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);

/** A (rows, columns) array as a picture, one pixel a value, each divided by `scale`; `signed` for values about zero. */
export function picture(data, rows, columns, { scale = 1, signed = false, offset = 0 } = {}) {
  const table = signed ? colourTable("diverging", SIGNED) : colourTable("sequential", SEQUENTIAL);
  const place = signed ? divergingPlace : sequentialPlace;
  const image = new ImageData(Math.max(columns, 1), Math.max(rows, 1));
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0, n = rows * columns; i < n; i++) pixels[i] = table[place(data[offset + i] / scale)];
  const node = new OffscreenCanvas(image.width, image.height);
  node.getContext("2d").putImageData(image, 0, 0);
  return node;
}

// ---- tokens and weights --------------------------------------------------------------------------------------------

/** The attention that is chosen, or the look's first; undefined where it has none. */
export function attentionOf(look, state) {
  const { attentions } = look.header;
  return attentions.find(({ name }) => name === state.attention) ?? attentions[0];
}

/** The chosen layer's number, within what the attention has. */
export function layerOf(attention, state) {
  return Math.min(Math.max(state.layer, 0), attention.layers.length - 1);
}

/** The chosen heads' numbers in order, of those the chosen layer has. */
export function headsOf(look, state) {
  const attention = attentionOf(look, state);
  const count = attention.layers[layerOf(attention, state)].heads;
  return [...state.heads].filter((head) => head < count).sort((a, b) => a - b);
}

/** A side's tokens in the chosen unit: {text, first, pieces, special, energy}; without specials where they are hidden. */
export function tokensOf(look, side, state) {
  const { shown, words, special, energy } = look.header.sides[side];
  const tokens = [];
  shown.forEach((text, piece) => {
    const last = tokens.at(-1);
    const goesOn = state.unit === "words" && last && words[piece] === words[piece - 1];
    if (goesOn) {
      last.text += text;
      last.pieces.push(piece);
    } else tokens.push({ text, first: piece, pieces: [piece], special: special[piece], energy: energy?.[piece] });
  });
  return state.specials ? tokens : tokens.filter((token) => !token.special);
}

/** The place among `tokens` of the one that holds a piece; -1 where none does. */
export function placeOf(tokens, piece) {
  return tokens.findIndex((token) => token.pieces.includes(piece));
}

/** (…, Q, K) over pieces to tokens: the mean of a query's, the sum of a key's; rows sum to 1 if `renormalise`. */
export function joined(matrix, queryTokens, keyTokens, renormalise = false) {
  const [rows, columns] = matrix.shape.slice(-2);
  const [Q, K] = [queryTokens.length, keyTokens.length];
  const all = (tokens, count) => tokens.length === count && tokens.every((token, i) => token.first === i);
  if (all(queryTokens, rows) && all(keyTokens, columns)) return matrix;
  const layers = matrix.data.length / (rows * columns);
  const data = new Float32Array(layers * Q * K);
  for (let n = 0; n < layers; n++) {
    for (let q = 0; q < Q; q++) {
      const row = data.subarray((n * Q + q) * K, (n * Q + q + 1) * K);
      for (const piece of queryTokens[q].pieces) addKeys(row, matrix.data, (n * rows + piece) * columns, keyTokens);
      let sum = queryTokens[q].pieces.length;
      if (renormalise) sum = row.reduce((total, weight) => total + weight, 0);
      if (sum > 0 && sum !== 1) for (let k = 0; k < K; k++) row[k] /= sum;
    }
  }
  return { shape: [...matrix.shape.slice(0, -2), Q, K], data };
}

function addKeys(row, data, start, keyTokens) {
  for (let k = 0; k < row.length; k++) {
    const { pieces } = keyTokens[k];
    for (let i = 0; i < pieces.length; i++) row[k] += data[start + pieces[i]];
  }
}

/** Whether rows are made to sum to one again: only where specials are hidden. */
export function renormalised(state) {
  return !state.specials && state.renormalise;
}

/** The chosen attention's and layer's weights, (H, Q, K), of all heads and pieces. */
export async function weightsOf(look, state) {
  const attention = attentionOf(look, state);
  return look.block(`${attention.name}/${layerOf(attention, state)}/weights`);
}

/** The weights of the chosen heads in the chosen unit: {attention, layer, heads, queries, keys, weights (H, Q, K)}. */
export async function shownWeights(look, state) {
  const attention = attentionOf(look, state);
  const heads = headsOf(look, state);
  const queries = tokensOf(look, attention.queries, state);
  const keys = tokensOf(look, attention.keys, state);
  const layer = layerOf(attention, state);
  const weights = joined(withHeads(await weightsOf(look, state), heads), queries, keys, renormalised(state));
  return { attention, layer, heads, queries, keys, weights };
}

/** (H, Q, K) of some heads. */
export function withHeads(matrix, heads) {
  const [count, Q, K] = matrix.shape;
  if (heads.length === count) return matrix;
  const data = new Float32Array(heads.length * Q * K);
  heads.forEach((head, i) => data.set(matrix.data.subarray(head * Q * K, (head + 1) * Q * K), i * Q * K));
  return { shape: [heads.length, Q, K], data };
}

/** (H, Q, K) -> (Q, K), the mean or the maximum over heads. */
export function overHeads(matrix, join) {
  const [H, Q, K] = matrix.shape;
  const size = Q * K;
  if (H === 1) return { shape: [Q, K], data: matrix.data };
  const data = matrix.data.slice(0, size);
  for (let h = 1; h < H; h++) {
    for (let i = 0, at = h * size; i < size; i++, at++) {
      if (join === "mean") data[i] += matrix.data[at];
      else if (matrix.data[at] > data[i]) data[i] = matrix.data[at];
    }
  }
  if (join === "mean") for (let i = 0; i < size; i++) data[i] /= H;
  return { shape: [Q, K], data };
}

// ---- words about numbers -------------------------------------------------------------------------------------------

/** A weight to four digits. */
export function fourDigits(weight) {
  return Number.isFinite(weight) ? weight.toFixed(4) : String(weight);
}

/** The largest of an array, at least `least`. */
export function largest(data, least = 0) {
  let most = least;
  for (let i = 0; i < data.length; i++) if (data[i] > most) most = data[i];
  return most;
}

/** `text` cut with … to fit `width` pixels in the context's font. */
export function fittedText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text].slice(0, 80);
  while (letters.length && context.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

/** A line of text that follows the pointer over `root`, and is read out: {show(x, y, text), hide()}. */
export function tooltip(root) {
  const node = element("div", { class: "tooltip", role: "status", hidden: true });
  root.append(node);
  return {
    node,
    show(x, y, text) {
      node.hidden = false;
      node.textContent = text;
      const right = root.clientWidth - node.offsetWidth - 4;
      styled(node, { left: `${Math.max(4, Math.min(x + 14, right))}px`, top: `${y + 18}px` });
    },
    hide() {
      node.hidden = true;
    },
  };
}
