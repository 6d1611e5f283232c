// All layers and heads at once, each a small picture (Vig 2019). A layer is fetched when it comes into sight, drawn
// small, and let go; only its pictures stay.

import { attentionOf, element, joined, onlyLatest, picture, renormalised, themeColour, tokensOf } from "../draw.js";

const THUMBNAIL = 72; // pixels, each side, at most; less where a row would not fit

export const gridView = {
  name: "grid",
  title: "Grid",
  key: "3",
  controls: ["attention", "unit", "specials"],
  fits: (look) => look.header.attentions.length > 0,
  async draw(root, look, state, change) {
    const latest = onlyLatest(root);
    const attention = attentionOf(look, state);
    const sides = [tokensOf(look, attention.queries, state), tokensOf(look, attention.keys, state)];
    root.append(gridHead(attention, state, change));
    const rows = attention.layers.map((layer, number) => gridRow(attention, layer, number, state, change));
    const most = Math.max(...attention.layers.map(({ heads }) => heads));
    const size = Math.max(36, Math.min(THUMBNAIL, Math.floor((root.clientWidth - 36) / most) - 8));
    root.append(element("div", { class: "grid", style: { "--size": `${size}px` } }, rows));
    const chosen = { ...state }; // as it was when these rows were drawn
    whenSeen(rows, () => latest() && root.isConnected, (row) => fillRow(row, look, attention, sides, chosen));
  },
};

// Calls `fill` for each row that comes into sight, one after the other, as long as they are `wanted`.
function whenSeen(rows, wanted, fill) {
  let last = Promise.resolve();
  const next = async (row) => {
    await new Promise((done) => setTimeout(done)); // lets the page answer between two layers
    if (!wanted()) return;
    await fill(row).catch((error) => row.append(element("p", { class: "error" }, error.message)));
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      last = last.then(() => next(target));
    }
  }, { rootMargin: "200px" });
  rows.forEach((row) => observer.observe(row));
}

function gridHead(attention, state, change) {
  const choice = (name, title) => element("button", {
    type: "button", "aria-pressed": String(state.opens === name), onclick: () => change({ opens: name }),
  }, title);
  const count = attention.layers.length;
  return element("div", { class: "caption" },
    element("p", {}, `${attention.title} · ${count} ${count === 1 ? "layer" : "layers"}, each head’s weights`),
    element("div", { class: "choice", role: "group", "aria-label": "A click opens" },
      element("span", {}, "A click opens"), choice("matrix", "Matrix"), choice("heads", "Heads")));
}

function gridRow(attention, layer, number, state, change) {
  const open = (head) => () => change({ view: state.opens, layer: number, heads: new Set([head]) });
  const thumbnails = Array.from({ length: layer.heads }, (_, head) =>
    element("button", {
      type: "button", class: "thumbnail", onclick: open(head), dataset: { key: `grid-${number}-${head}` },
      "aria-label": `Layer ${number + 1}, head ${head + 1}`, title: `Layer ${number + 1}, head ${head + 1}`,
    }, element("canvas", { width: THUMBNAIL * 2, height: THUMBNAIL * 2 })));
  return element("div", { class: "gridrow", dataset: { layer: number } },
    element("span", { class: "gridlabel", title: `Layer ${number + 1}` }, String(number + 1)), thumbnails);
}

async function fillRow(row, look, attention, [queries, keys], state) {
  const layer = Number(row.dataset.layer);
  const weights = joined(await look.block(`${attention.name}/${layer}/weights`), queries, keys, renormalised(state));
  const [, Q, K] = weights.shape;
  const self = attention.queries === attention.keys;
  row.querySelectorAll(".thumbnail").forEach((button, head) => {
    paintThumbnail(button.firstChild, weights.data.subarray(head * Q * K, (head + 1) * Q * K), Q, K);
    const habit = self ? habitOf(weights.data, head, keys) : "";
    button.title = `${button.getAttribute("aria-label")}${habit && `: ${habit}`}`;
  });
  row.classList.add("filled");
}

function paintThumbnail(node, data, Q, K) {
  const small = shrunk(data, Q, K, node.width);
  const context = node.getContext("2d");
  const longest = Math.max(Q, K);
  context.fillStyle = themeColour("paper");
  context.fillRect(0, 0, node.width, node.height);
  context.imageSmoothingEnabled = false;
  const image = picture(small.data, small.rows, small.columns, { scale: small.most || 1 });
  context.drawImage(image, 0, 0, (node.width * K) / longest, (node.height * Q) / longest);
}

// At most `most` rows and columns, each the largest of what it stands for: a thin diagonal must not fade away.
function shrunk(data, Q, K, most) {
  const step = Math.ceil(Math.max(Q, K) / most);
  const [rows, columns] = [Math.ceil(Q / step), Math.ceil(K / step)];
  const small = new Float32Array(rows * columns);
  let top = 0;
  for (let q = 0; q < Q; q++) {
    for (let k = 0; k < K; k++) {
      const at = Math.floor(q / step) * columns + Math.floor(k / step);
      const weight = data[q * K + k];
      if (weight > small[at]) small[at] = weight;
      if (weight > top) top = weight;
    }
  }
  return { data: small, rows, columns, most: top };
}

// What a head mostly does, where that is plain (Clark et al. 2019 name these habits): a share of its weight.
function habitOf(data, head, tokens) {
  const N = tokens.length;
  const shares = { itself: 0, "the token before": 0, "the token after": 0, "the first token": 0, specials: 0 };
  for (let q = 0; q < N; q++) {
    const row = data.subarray((head * N + q) * N, (head * N + q + 1) * N);
    shares.itself += row[q];
    shares["the token before"] += row[q - 1] ?? 0;
    shares["the token after"] += row[q + 1] ?? 0;
    shares["the first token"] += row[0];
    for (let k = 0; k < N; k++) if (tokens[k].special) shares.specials += row[k];
  }
  const [name, share] = Object.entries(shares).reduce((a, b) => (b[1] > a[1] ? b : a));
  return share > 0.4 * N ? `${Math.round((100 * share) / N)}% on ${name}` : "";
}
