// What a model did with one text: its header, and its blocks of numbers, fetched from the server or read from the page.

const KEPT_BYTES = 64 * 2 ** 20; // of blocks a Look keeps: about five layers of 12 heads over 512 tokens
export const access = { key: "" }; // what the server asks for, where it asks for a key

export class Look {
  #blocks = new Map(); // in the order of their last use
  #asked = new Map();
  #source;

  constructor(header, source) {
    this.header = header;
    this.#source = source;
  }

  /** Bytes of blocks kept now. */
  get kept() {
    let bytes = 0;
    for (const block of this.#blocks.values()) bytes += block.data.byteLength;
    return bytes;
  }

  /** One block as {shape, data}: `encoder/0/weights` is (heads, queries, keys). */
  async block(name) {
    const block = this.#blocks.get(name);
    if (block) {
      this.#keep(name, block);
      return block;
    }
    if (!this.#asked.has(name)) {
      const answer = this.#source(name).then((found) => this.#keep(name, found));
      this.#asked.set(name, answer.finally(() => this.#asked.delete(name)));
    }
    return this.#asked.get(name);
  }

  #keep(name, block) {
    this.#blocks.delete(name);
    this.#blocks.set(name, block);
    for (const oldest of this.#blocks.keys()) {
      if (this.kept <= KEPT_BYTES || oldest === name) break;
      this.#blocks.delete(oldest);
    }
    return block;
  }
}

/** The looks that a file carries; null on a served page. */
export function embeddedLooks() {
  const script = document.getElementById("looks");
  if (!script) return null;
  return JSON.parse(script.textContent).map((header, n) => new Look(header, (name) => embeddedBlock(n, name)));
}

async function embeddedBlock(n, name) {
  const script = document.getElementById(`block-${n}-${name}`);
  if (!script) {
    throw new Error(`This file does not hold “${name}”. A shorter text, or “regard serve”, shows it.`);
  }
  const bytes = Uint8Array.from(atob(script.textContent.trim()), (letter) => letter.charCodeAt(0));
  const data =
    script.dataset.type === "uint16"
      ? Float32Array.from(new Uint16Array(bytes.buffer), (weight) => weight / 65535)
      : new Float32Array(bytes.buffer);
  return checkedBlock(name, script.dataset.shape, data);
}

function checkedBlock(name, shape, data) {
  const sizes = (shape || "").split(",").map(Number);
  if (sizes.reduce((a, b) => a * b, 1) !== data.length) {
    throw new Error(`“${name}” should have the shape ${shape} but has ${data.length} numbers.`);
  }
  return { shape: sizes, data };
}

/** Asks the server to look: {model, text, second, target, write}; what is empty is not sent. */
export async function servedLook(request) {
  const body = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== "" && value != null));
  const ask = () => answered("attention", { method: "POST", body: JSON.stringify(body) }).then((reply) => reply.json());
  const first = await ask();
  let { id } = first;
  return new Look(first.look, async (name) => {
    try {
      return await servedBlock(id, name);
    } catch (error) {
      if (error.status !== 404) throw error;
      ({ id } = await ask()); // the server keeps only the last few looks: this one was dropped, so it is made again
      return servedBlock(id, name);
    }
  });
}

/** The looks that the server was started with; none where it has no such thing. */
export async function startedLooks() {
  try {
    const looks = await (await answered("looks")).json();
    return looks.map(({ id, look }) => new Look(look, (name) => servedBlock(id, name)));
  } catch (error) {
    if (error.status === 404) return [];
    throw error;
  }
}

/** The models that the server has: [{name, kind, tasks}]. */
export async function servedModels() {
  try {
    return (await (await answered("models")).json()).models;
  } catch (error) {
    if (error.status === 404) return [];
    throw error;
  }
}

async function servedBlock(id, name) {
  const reply = await answered(`attention/${encodeURIComponent(id)}/${name}`);
  return checkedBlock(name, reply.headers.get("X-Shape"), new Float32Array(await reply.arrayBuffer()));
}

async function answered(address, options = {}) {
  const headers = { "Content-Type": "application/json" };
  if (access.key) headers.Authorization = `Bearer ${access.key}`;
  let reply;
  try {
    reply = await fetch(address, { ...options, headers });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (reply.ok) return reply;
  const body = await reply.json().catch(() => null);
  const message = body?.error?.message || `The server answered ${reply.status} ${reply.statusText}.`;
  throw Object.assign(new Error(message), { status: reply.status });
}
