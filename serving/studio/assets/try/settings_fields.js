// Fields for the numbers and texts that a request may have besides its texts.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { SETTINGS } from "./try_tasks.js";

// Those that few need, which are folded away until one of them has a value.
const RARE = ["min_p", "repetition_penalty", "no_repeat_ngram_size", "stop"];

// Fields for some settings, with their values; one that is empty is left out of requests.
export function settingsFields(names, values) {
  const usual = names.filter((name) => !RARE.includes(name));
  const rare = names.filter((name) => RARE.includes(name));
  const found = [element("div", { className: "settings" }, ...usual.map((name) => field(name, values)))];
  if (rare.length) {
    const fields = element("div", { className: "settings" }, ...rare.map((name) => field(name, values)));
    const details = element("details", {}, element("summary", TEXT.try.moreSettings), fields);
    details.open = rare.some((name) => values[name] !== undefined);
    found.push(details);
  }
  return names.length ? found : [];
}

function field(name, values) {
  const { standard, ...limits } = SETTINGS[name];
  const [label, hint] = TEXT.try.settings[name];
  let input;
  if (name === "stop") {
    input = element("textarea", { name, rows: 1, spellcheck: false, placeholder: TEXT.try.stopHint });
    input.value = (values.stop ?? []).join("\n");
  } else {
    input = element("input", { name, type: "number", placeholder: standard || TEXT.try.standard, ...limits });
    input.value = values[name] ?? "";
  }
  return element("label", { className: "setting", title: hint }, element("span", label), input);
}

// The settings that are not empty: numbers, and `stop` as a list of texts.
export function readSettings(place) {
  const found = {};
  for (const input of place.querySelectorAll("input, textarea")) {
    if (input.value === "") continue;
    if (input.name !== "stop") found[input.name] = input.valueAsNumber;
    else found.stop = input.value.split("\n").filter(Boolean);
  }
  return found;
}

// Settings as text for a link, and back; what is unknown or no number is dropped.
export function settingsText(settings) {
  return Object.keys(settings).length ? JSON.stringify(settings) : "";
}

export function parseSettings(text) {
  let given;
  try {
    given = JSON.parse(text || "{}");
  } catch {
    return {};
  }
  const found = {};
  for (const name of Object.keys(SETTINGS)) {
    const value = given?.[name];
    const isStop = name === "stop" && Array.isArray(value) && value.every((each) => typeof each === "string");
    if (isStop || (name !== "stop" && typeof value === "number")) found[name] = value;
  }
  return found;
}
