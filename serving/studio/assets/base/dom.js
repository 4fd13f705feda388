// Small helpers for elements.

import { TEXT } from "./strings.js";

export const at = (id) => document.getElementById(id);

// Makes an element; a string among the children is text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  if (typeof properties === "string") made.textContent = properties;
  else {
    const { data, role, ...rest } = properties;
    Object.assign(made, rest);
    Object.assign(made.dataset, data ?? {});
    if (role) made.setAttribute("role", role);
  }
  made.append(...children);
  return made;
}

// Sets the options of a select, unless it has them, and chooses one.
export function fill(select, options, chosen) {
  const same =
    select.options.length === options.length &&
    options.every(([value, text], number) => {
      const option = select.options[number];
      return option.value === value && option.text === text;
    });
  if (!same) select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

// A field for each of a run's texts, with the texts of the state or the run's examples;
// Ctrl + Enter sends the form.
export function textFields(form, run, inputs, texts) {
  return inputs.map((name) => {
    const area = element("textarea", { name, rows: 3, spellcheck: false, dir: "auto" });
    area.value = texts[name] ?? run.examples[run.inputs.indexOf(name)];
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    return element("label", { className: "text" }, TEXT.inputs[name] ?? name, area);
  });
}

export function readTexts(place) {
  return Object.fromEntries(
    [...place.querySelectorAll("textarea")].map((area) => [area.name, area.value]),
  );
}
