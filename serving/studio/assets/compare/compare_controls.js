// Chooses the two models of a comparison, and the text.

import { at, element, fill, readTexts, textFields } from "../base/dom.js";
import { state } from "../base/state.js";
import { TEXT } from "../base/strings.js";

const words = TEXT.compare;

// The form with an id for each of its parts; `go` is called when it is sent.
export function buildControls(go) {
  const form = element(
    "form",
    { id: "compare-ask" },
    element("div", { className: "sides" }, ...["a", "b"].map(side)),
    element("p", { id: "compare-why", className: "notice", hidden: true }),
    element("div", { id: "compare-texts", className: "texts" }),
    element("button", { type: "submit", className: "primary", id: "compare-go", title: TEXT.lookHint }, words.go),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!at("compare-go").disabled) go();
  });
  return form;
}

function side(name) {
  const run = name === "a" ? element("output", { id: "compare-run-a" }) : element("select", { id: "compare-run-b" });
  return element(
    "fieldset",
    { className: `side side-${name}` },
    element("legend", {}, words.sides[name]),
    element("label", { className: "field" }, words.run, run),
    element("label", { className: "field" }, words.form, element("select", { id: `compare-form-${name}` })),
  );
}

// Shows the state for a run; `choose` is called when another model is chosen.
export function showControls(run, runs, choose) {
  if (!runs.some(({ name }) => name === state.runB)) Object.assign(state, firstOther(run, runs));
  at("compare-run-a").textContent = run.name;
  fill(at("compare-run-b"), runs.map(({ name }) => [name, name]), state.runB);
  const other = otherRun(runs);
  showForms("a", run, "formA");
  showForms("b", other, "formB");
  at("compare-run-b").onchange = () => {
    Object.assign(state, { runB: at("compare-run-b").value, formB: "" });
    choose();
  };
  for (const [name, key] of [
    ["a", "formA"],
    ["b", "formB"],
  ]) {
    at(`compare-form-${name}`).onchange = () => {
      state[key] = at(`compare-form-${name}`).value;
      choose();
    };
  }
  const why = whyNot(run, other);
  at("compare-why").hidden = why === null;
  at("compare-why").textContent = why ?? "";
  at("compare-go").disabled = why !== null;
  const known = at("compare-texts").querySelectorAll("textarea");
  if ([...known].map(({ name }) => name).join() !== run.inputs.join() || at("compare-texts").dataset.run !== run.name) {
    at("compare-texts").replaceChildren(...textFields(at("compare-ask"), run, run.inputs, state.texts));
    at("compare-texts").dataset.run = run.name;
  }
  return why === null;
}

export function readControls() {
  Object.assign(state.texts, readTexts(at("compare-texts")));
  return [model(state.run, state.formA), model(state.runB, state.formB)];
}

function otherRun(runs) {
  return runs.find(({ name }) => name === state.runB);
}

function showForms(name, run, key) {
  const forms = [
    ["", words.finished],
    ...run.checkpoints.map((step) => [`checkpoint.${step}`, words.checkpoint(step)]),
    ...run.tflite.map((variant) => [`tflite.${variant}`, words.tflite(variant)]),
  ];
  if (!forms.some(([form]) => form === state[key])) state[key] = "";
  fill(at(`compare-form-${name}`), forms, state[key]);
}

// A comparison to begin with: another run for the same task, or another form of the run.
function firstOther(run, runs) {
  const same = runs.find(
    ({ name, objective, inputs, has_maps: hasMaps }) =>
      name !== run.name &&
      objective === run.objective &&
      inputs.join() === run.inputs.join() &&
      hasMaps === run.has_maps,
  );
  if (same) return { runB: same.name, formB: "" };
  let formB = run.tflite.length ? `tflite.${run.tflite.at(-1)}` : "";
  if (run.checkpoints.length > 1) formB = `checkpoint.${run.checkpoints[0]}`;
  return { runB: run.name, formB };
}

function whyNot(run, other) {
  const names = (inputs) => inputs.map((name) => (TEXT.inputs[name] ?? name).toLowerCase()).join(" and ");
  if ([...run.inputs].sort().join() === [...other.inputs].sort().join()) return null;
  return words.otherInputs(run.name, other.name, names(run.inputs), names(other.inputs));
}

// A model as the API names it.
function model(run, form) {
  const [kind, ...rest] = form.split(".");
  const value = rest.join(".");
  if (kind === "checkpoint") return { run, checkpoint: Number(value) };
  return kind === "tflite" ? { run, tflite: value } : { run };
}
