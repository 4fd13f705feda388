// A text's way through the model: each array with its shape, as a table.

import { fetchStages } from "../base/api.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

export class StagesView {
  constructor(place) {
    this.hint = element("p", { className: "hint" }, TEXT.stages.hint);
    this.scroller = element("div", { className: "scroller", tabIndex: 0, role: "region" });
    this.scroller.setAttribute("aria-label", TEXT.stagesTitle);
    place.append(this.hint, this.scroller);
  }

  async show(inspection) {
    if (this.key === inspection.key) return;
    this.key = inspection.key;
    this.scroller.replaceChildren();
    const { stages } = await fetchStages(inspection.key);
    if (this.key !== inspection.key) return;
    const most = Math.max(...stages.map(({ length }) => length ?? 0)) || 1;
    const head = element("tr");
    for (const name of TEXT.stages.columns) head.append(element("th", { scope: "col" }, name));
    const body = element("tbody");
    for (const row of inspection.rows) body.append(...textRows(row));
    for (const stage of stages) body.append(stageRow(stage, most));
    this.scroller.append(element("table", { className: "stage-table" }, element("thead", {}, head), body));
  }

  hide() {
    this.key = null;
  }
}

function textRows(row) {
  const characters = row.texts.reduce((sum, text) => sum + Array.from(text).length, 0);
  const pieces = row.tokens.map(({ piece }) => piece).slice(0, 12);
  return [
    line(TEXT.stages.text(TEXT.rows[row.name]), TEXT.stages.characters(characters), row.texts.join(" · ").slice(0, 80)),
    line(TEXT.stages.pieces, String(row.tokens.length), pieces.join(" ")),
  ];
}

function stageRow({ part, path, shape, length }, most) {
  const size = shape.map((each) => each.toLocaleString("en")).join(" × ") || "1";
  const row = line(TEXT.stages.name(path), size, "");
  row.className = path.endsWith("/output") || part !== "block" ? "whole" : "";
  if (length === null) return row;
  const bar = element("span", { className: "bar-of" });
  bar.style.width = `${(100 * length) / most}%`;
  row.lastChild.append(element("span", { className: "bar-place" }, bar), length.toPrecision(3));
  return row;
}

function line(...texts) {
  return element("tr", {}, ...texts.map((text) => element("td", {}, element("bdi", text))));
}
