// What is to be looked at: a model, a text, and what else the kind of model reads. A file has no form.

import { element } from "./draw.js";
import { access } from "./look.js";

const EXAMPLE = "The animal did not cross the street because it was too tired.";

/** A form over `models`; it calls `ask(request)`, and shows its error. Gives {node, submit}. */
export function lookForm(models, ask) {
  const fields = formFields(models);
  const button = element("button", { type: "submit", class: "primary" }, "Look");
  const problem = element("p", { class: "error", role: "alert", hidden: true });
  const submit = async () => {
    button.disabled = true;
    problem.hidden = true;
    try {
      await ask(Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, valueOf(field)])));
    } catch (error) {
      Object.assign(problem, { textContent: error.message, hidden: false });
    }
    button.disabled = false;
  };
  const node = element("form", { class: "ask", onsubmit: (event) => (event.preventDefault(), submit()) },
    Object.values(fields).map(({ node }) => node), button, problem);
  fields.text.input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
  });
  return { node, submit };
}

// {name: {node, input}}; those that the chosen model does not read are hidden.
function formFields(models) {
  const area = (id, rows, text = "") => element("textarea", { id, rows, spellcheck: "false" }, text);
  const model = element("select", { id: "model" }, models.map(({ name }) => element("option", { value: name }, name)));
  model.value = (models.find(({ kind }) => kind === "encoder") ?? models[0]).name;
  const write = element("input", { id: "write", type: "number", min: 0, max: 200, value: 0 });
  const fields = {
    model: labelled("Model", model),
    text: labelled("Text", area("text", 3, EXAMPLE)),
    second: labelled("Second text, if it is a pair", area("second", 2)),
    target: labelled("Translation, if not the model’s own", area("target", 2)),
    write: labelled("Tokens to write on first", write),
  };
  const fit = () => {
    const fitting = fieldsOf(models.find(({ name }) => name === model.value));
    for (const name of ["second", "target", "write"]) fields[name].node.hidden = !fitting.includes(name);
  };
  model.addEventListener("change", fit);
  fit();
  return fields;
}

function valueOf({ node, input }) {
  if (node.hidden) return null;
  return input.type === "number" ? Number(input.value) || null : input.value;
}

function fieldsOf({ kind, tasks = [] }) {
  if (kind === "encoder-decoder" || tasks.includes("translate")) return ["target"];
  if (kind === "decoder" || tasks.includes("generate") || tasks.includes("complete")) return ["write"];
  return kind === "encoder" ? ["second"] : [];
}

function labelled(title, input) {
  return { input, node: element("label", { class: "field" }, element("span", { class: "label" }, title), input) };
}

/** A field for the server's key, for one that asks for it; `retry()` is called when one is given. */
export function keyForm(retry) {
  const input = element("input", { type: "password", id: "key", autocomplete: "off" });
  const take = (event) => {
    event.preventDefault();
    access.key = input.value;
    retry();
  };
  return element("form", { class: "ask", onsubmit: take },
    labelled("The server’s key", input).node, element("button", { type: "submit", class: "primary" }, "Use it"));
}
