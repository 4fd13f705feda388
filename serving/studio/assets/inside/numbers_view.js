// The numbers of a head, and its strongest weights, as tables.

import { strongest } from "../base/attention.js";
import { formatWeight } from "../base/canvas.js";
import { TEXT } from "../base/strings.js";

const ROWS = 12;

export class NumbersView {
  constructor(place, hover) {
    this.place = place;
    this.hover = hover;
    this.list = document.createElement("dl");
    this.list.className = "numbers";
    this.hint = document.createElement("p");
    this.hint.className = "hint";
    this.title = document.createElement("h3");
    this.table = document.createElement("table");
    place.append(this.list, this.title, this.table, this.hint);
  }

  show(view, least, layer, head, words) {
    Object.assign(this, { view, least });
    this.list.replaceChildren();
    for (const [name, { name: shown, definition }] of Object.entries(TEXT.metrics)) {
      const values = layer.summaries[name];
      if (!values) continue; // such as distance in cross-attention
      const item = document.createElement("div");
      const term = document.createElement("dt");
      const number = document.createElement("dd");
      const note = document.createElement("dd");
      term.textContent = shown;
      number.textContent = formatWeight(ofHeads(values, head));
      note.textContent = definition;
      note.className = "hint";
      item.append(term, number, note);
      this.list.append(item);
    }
    this.hint.textContent = words ? TEXT.mergeHint : "";
    this.drawHover();
  }

  drawHover() {
    if (!this.view) return;
    const spot = this.hover.spot();
    const { queries, keys } = this.view;
    const label = spot && (spot.side === "query" ? queries : keys)[spot.unit].label;
    this.title.textContent = spot ? TEXT.strongestFor(label) : TEXT.strongest;
    const head = document.createElement("tr");
    for (const text of [TEXT.from, TEXT.to, TEXT.weight]) {
      const cell = Object.assign(document.createElement("th"), { textContent: text });
      cell.scope = "col";
      head.append(cell);
    }
    const { edges } = strongest(this.view, this.least, ROWS, spot);
    const rows = edges.map(({ query, key, weight }) => {
      const row = document.createElement("tr");
      for (const text of [queries[query].label, keys[key].label]) {
        const cell = document.createElement("td");
        cell.append(Object.assign(document.createElement("bdi"), { textContent: text }));
        row.append(cell);
      }
      row.append(Object.assign(document.createElement("td"), { textContent: formatWeight(weight) }));
      return row;
    });
    const body = document.createElement("tbody");
    body.append(...rows);
    const top = document.createElement("thead");
    top.append(head);
    this.table.replaceChildren(top, body);
  }
}

function ofHeads(values, head) {
  if (typeof head === "number") return values[head];
  if (head === "max") return Math.max(...values);
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
