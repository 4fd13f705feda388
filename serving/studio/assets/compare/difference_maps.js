// Differences of attention maps: one large map, a grid of small ones, and cards.

import { formatWeight, mapPicture } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { MapView } from "../base/map_view.js";
import { OverviewView } from "../base/overview_view.js";
import { TEXT } from "../base/strings.js";
import { drawColumns } from "./compare_pictures.js";
import { differencePicture, drawDifferenceLegend, largest } from "./difference_colors.js";
import { foldButton } from "./fold_button.js";

const words = TEXT.compare;
// Before the button that shows all.
const FIRST = 8;

export class DifferenceMapView extends MapView {
  _picture() {
    const { weights, queries, keys, most } = this.view;
    return differencePicture(weights, queries.length, keys.length, most);
  }

  _legend(context, left, top, width, caption) {
    const { most } = this.view;
    drawDifferenceLegend(context, left, top, width, most, themeColors(), caption && words.scale);
  }
}

// Small maps of the differences of all heads, on one scale.
export class DifferenceGrid extends OverviewView {
  show(shown) {
    this.largest = largest(shown.small);
    super.show(shown);
  }

  _picture(layer, head) {
    const [rows, columns] = this.group.small;
    return differencePicture(this._weights(layer, head), rows, columns, this.largest);
  }
}

// A button for each head with its maps of both models and their difference; those that
// differ most come first.
export class DifferenceCards {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
  }

  // heads: [{layer, head, difference}]; small: Float32Array of A, B and the difference.
  show({ heads, small, shape, perLayer, selected }) {
    Object.assign(this, { small, shape, perLayer, selected });
    this.heads = [...heads].sort((one, other) => other.difference - one.difference);
    this.largest = largest(small[2]);
    this.isWhole = false;
    this.draw();
  }

  select(selected) {
    this.selected = selected;
    for (const card of this.place.querySelectorAll("button.card")) {
      const isOne = Number(card.dataset.layer) === selected.layer && Number(card.dataset.head) === selected.head;
      card.setAttribute("aria-pressed", String(isOne));
    }
  }

  draw() {
    if (!this.heads) return;
    const shown = this._shown();
    const list = element("div", { className: "cards" }, ...shown.map((head) => this._card(head)));
    this.place.replaceChildren(list);
    if (this.heads.length > FIRST) this.place.append(foldButton(this, this.heads.length));
    this.select(this.selected);
  }

  // For a picture.
  drawWhole(context, width) {
    const colors = themeColors();
    const size = Math.min(150, (width - 200) / 3);
    const top = drawColumns(context, [190, 200 + size, 210 + 2 * size]);
    context.textBaseline = "middle";
    context.textAlign = "left";
    this._shown().forEach((head, number) => {
      const y = top + number * (size + 12);
      context.fillStyle = colors.text;
      context.font = "13px system-ui, sans-serif";
      context.fillText(words.name(head.layer, head.head), 0, y + size / 2 - 10);
      context.fillText(words.differs(formatWeight(head.difference)), 0, y + size / 2 + 10);
      context.imageSmoothingEnabled = false;
      this._pictures(head).forEach((picture, place) => {
        const x = 190 + place * (size + 10);
        context.drawImage(picture, x, y, size, size);
        context.strokeStyle = colors.border;
        context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
      });
    });
    return top + this._shown().length * (size + 12);
  }

  _shown() {
    return this.isWhole ? this.heads : this.heads.slice(0, FIRST);
  }

  _card({ layer, head, difference }) {
    const pictures = this._pictures({ layer, head }).map((picture, place) => {
      const name = [words.a, words.b, words.difference][place];
      return element("span", { className: "pictured" }, picture, element("small", {}, name));
    });
    const button = element(
      "button",
      { type: "button", className: "card", data: { layer, head } },
      element("span", { className: "card-head" }, words.name(layer, head), element("b", {}, formatWeight(difference))),
      element("span", { className: "pictures" }, ...pictures),
    );
    button.setAttribute("aria-label", words.card(layer, head, formatWeight(difference)));
    button.addEventListener("click", () => this.choose(layer, head));
    return button;
  }

  // A and B have the same scale; so have the differences of all heads.
  _pictures({ layer, head }) {
    const [rows, columns] = this.shape;
    const size = rows * columns;
    const start = (layer * this.perLayer + head) * size;
    const [a, b, difference] = this.small.map((maps) => maps.subarray(start, start + size));
    const most = Math.max(largest(a), largest(b));
    return [
      mapPicture(a, rows, columns, most),
      mapPicture(b, rows, columns, most),
      differencePicture(difference, rows, columns, this.largest),
    ];
  }
}
