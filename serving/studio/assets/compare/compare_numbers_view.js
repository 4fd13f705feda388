// A number of all heads of two models as a table, the largest difference first.

import { formatWeight } from "../base/canvas.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { differenceCell } from "./compare_answers_view.js";
import { largest } from "./difference_colors.js";
import { foldButton } from "./fold_button.js";

const words = TEXT.compare;
// Before the button that shows all.
const FIRST = 12;

export class CompareNumbersView {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
  }

  // layers: of A and B; metric: the name of a summary.
  show(layers, metric) {
    const rows = [];
    layers[0].forEach((layer, number) => {
      layer.summaries[metric].forEach((a, head) => {
        const b = layers[1][number].summaries[metric][head];
        rows.push({ layer: number, head, a, b, difference: b - a });
      });
    });
    rows.sort((one, other) => Math.abs(other.difference) - Math.abs(one.difference));
    this.rows = rows;
    this.isWhole = false;
    this.draw();
  }

  draw() {
    if (!this.rows) return;
    const most = largest(this.rows.map(({ difference }) => difference));
    const shown = this.isWhole ? this.rows : this.rows.slice(0, FIRST);
    const head = element("tr");
    for (const text of [words.headColumn, words.a, words.b, words.difference]) {
      head.append(element("th", { scope: "col" }, text));
    }
    const body = shown.map((row) => {
      const name = element("button", { type: "button", className: "link" }, words.name(row.layer, row.head));
      name.addEventListener("click", () => this.choose(row.layer, row.head));
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, name),
        element("td", {}, formatWeight(row.a)),
        element("td", {}, formatWeight(row.b)),
        differenceCell(row.difference, most),
      );
    });
    const table = element("table", { className: "compared" }, element("thead", {}, head), element("tbody", {}, ...body));
    this.place.replaceChildren(table);
    if (this.rows.length > FIRST) this.place.append(foldButton(this, this.rows.length));
  }
}
