// The state of the page: what is shown, kept in the address so that a link restores it.

import { savedHash } from "./saved_answers.js";

const DEFAULTS = {
  page: "inside",
  run: "",
  group: "",
  layer: 0,
  head: 0, // a number, "mean" or "max"
  words: false,
  special: true,
  punctuation: true,
  threshold: 0, // of the slider, 0 to 100
  view: "lines",
  metric: "maps",
  from: 0,
  to: null, // the last layer
  direction: "to",
  ids: false,
  children: 3, // of the tree
  depth: 2,
  stages: false, // whether the section is open
  lens: false,
  flow: false,
  task: "", // of the page Try; the first of the model
  sampling: "", // the settings of that page, as JSON
  held: null, // {side: "query" or "key", token}
  // Of a comparison. A form is "" for the finished weights, or "checkpoint.100" or
  // "tflite.dynamic_int8".
  formA: "",
  runB: "",
  formB: "",
  grid: "difference",
  number: "entropy",
  chosen: false, // whether layer and head are; otherwise those that differ most are shown
};

// Those that are any text.
const TEXTS = ["formA", "runB", "formB", "grid", "number"];

export const state = { ...DEFAULTS, texts: {} };

const TEXT_PREFIX = "in.";
// Browsers and chats cut longer addresses.
const LONGEST_HASH = 8000;

// Weights are small for long texts: a square gives the slider more room there.
export function thresholdWeight() {
  return (state.threshold / 100) ** 2;
}

export function readHash() {
  const found = new URLSearchParams((location.hash || savedHash).slice(1));
  const number = (name, otherwise) => {
    const value = Number.parseInt(found.get(name) ?? "", 10);
    return Number.isNaN(value) ? otherwise : Math.max(0, value);
  };
  const choice = (name, choices) =>
    choices.includes(found.get(name)) ? found.get(name) : DEFAULTS[name];
  const flag = (name) => (found.has(name) ? found.get(name) === "1" : DEFAULTS[name]);
  const [side, token] = (found.get("held") ?? "").split(".");
  Object.assign(state, {
    page: found.get("page") ?? DEFAULTS.page,
    run: found.get("run") ?? "",
    group: found.get("group") ?? "",
    layer: number("layer", DEFAULTS.layer),
    head: ["mean", "max"].includes(found.get("head")) ? found.get("head") : number("head", 0),
    words: flag("words"),
    special: flag("special"),
    punctuation: flag("punctuation"),
    ids: flag("ids"),
    threshold: Math.min(100, number("threshold", 0)),
    view: choice("view", ["lines", "map", "tree", "radar", "score"]),
    children: Math.min(5, Math.max(1, number("children", DEFAULTS.children))),
    depth: Math.min(4, Math.max(1, number("depth", DEFAULTS.depth))),
    stages: flag("stages"),
    lens: flag("lens"),
    flow: flag("flow"),
    metric: found.get("metric") ?? DEFAULTS.metric,
    from: number("from", 0),
    to: number("to", null),
    direction: choice("direction", ["to", "from"]),
    chosen: flag("chosen"),
    task: found.get("task") ?? DEFAULTS.task,
    sampling: found.get("sampling") ?? DEFAULTS.sampling,
    held: ["query", "key"].includes(side) ? { side, token: Number(token) || 0 } : null,
    ...Object.fromEntries(TEXTS.map((name) => [name, found.get(name) ?? DEFAULTS[name]])),
  });
  state.texts = {};
  for (const [name, value] of found) {
    if (name.startsWith(TEXT_PREFIX)) state.texts[name.slice(TEXT_PREFIX.length)] = value;
  }
}

// Returns whether the address has all of the state: long texts are left out.
export function writeHash() {
  const found = new URLSearchParams();
  for (const [name, otherwise] of Object.entries(DEFAULTS)) {
    let value = state[name];
    if (value === otherwise || value === null) continue;
    if (name === "held") value = `${value.side}.${value.token}`;
    if (typeof value === "boolean") value = value ? 1 : 0;
    found.set(name, value);
  }
  const view = found.toString();
  for (const [name, text] of Object.entries(state.texts)) found.set(TEXT_PREFIX + name, text);
  const whole = found.toString();
  const fits = whole.length <= LONGEST_HASH;
  history.replaceState(null, "", `#${fits ? whole : view}`);
  return fits;
}
