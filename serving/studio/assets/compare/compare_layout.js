// The panels of the page Compare, and the places of its views.

import { at, element } from "../base/dom.js";
import { elementButtons } from "../base/element_picture.js";
import { saveButtons } from "../base/pictures.js";
import { TEXT } from "../base/strings.js";
import { buildControls } from "./compare_controls.js";

const words = TEXT.compare;

// `go` is called when a comparison is asked for, `save` with a view's name and the kind of
// picture.
export function buildLayout(go, save) {
  at("page-compare").append(
    panel("ask", words.askTitle, [], buildControls(go)),
    element("div", { id: "compare-views", className: "page", hidden: true }, ...views(save)),
  );
  at("compare-ask-title").className = "visually-hidden";
}

function views(save) {
  return [
    panel("answers", words.answersTitle, [saves("answers", save)], place("compare-answers")),
    element("p", { id: "compare-no-maps", className: "notice" }),
    panel(
      "heads",
      words.headsTitle,
      [choice("group", TEXT.group)],
      hint("", words.headsHint),
      element(
        "div",
        { className: "columns" },
        element(
          "div",
          {},
          element("div", { className: "panel-head" }, choice("grid", TEXT.shown), saves("grid", save)),
          hint("compare-grid-hint"),
          place("compare-grid"),
        ),
        element(
          "div",
          {},
          element("div", { className: "panel-head" }, element("h3", {}, words.cardsTitle), saves("cards", save)),
          place("compare-cards"),
        ),
      ),
    ),
    panel(
      "one",
      "",
      [saves("large", save)],
      element("div", { className: "three" }, ...["a", "b", "difference"].map(largeMap)),
      element("p", { id: "compare-pair", className: "pair", role: "status" }),
    ),
    panel(
      "numbers",
      words.numbersTitle,
      [choice("number", words.number), elementButtons(() => at("compare-numbers"), words.numbersTitle)],
      hint("compare-number-hint"),
      place("compare-numbers"),
    ),
  ];
}

function panel(name, title, tools, ...children) {
  const id = `compare-${name}-title`;
  const head = element("div", { className: "panel-head" }, element("h2", { id }, title), ...tools);
  const made = element("section", { className: "panel" }, head, ...children);
  if (name === "ask") made.classList.add("ask");
  made.setAttribute("aria-labelledby", id);
  return made;
}

function place(id) {
  return element("div", { id });
}

function hint(id, text = "") {
  return element("p", { id, className: "hint" }, text);
}

function largeMap(name) {
  const title = element("h3", { className: `side-${name}` }, words[name]);
  return element("div", {}, title, place(`compare-map-${name}`));
}

function choice(name, label) {
  const select = element("select", { id: `compare-${name}-choice` });
  return element("label", { className: "field", id: `compare-${name}-field` }, label, select);
}

function saves(view, save) {
  const buttons = saveButtons((kind) => save(view, kind));
  return element("div", { className: "saves", data: { save: view } }, ...buttons);
}
