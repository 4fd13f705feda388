// One score of a head: its query and key, and their products, dimension by dimension.

import { fetchQueryKey } from "../base/api.js";
import { FONT, formatWeight } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element, fill } from "../base/dom.js";
import { PictureCanvas } from "../base/picture_canvas.js";
import { state } from "../base/state.js";
import { TEXT } from "../base/strings.js";

const STRIP = 20;
const BARS = 150;
const GAP = 26;
const HEIGHT = 2 * (STRIP + GAP) + GAP + BARS;

export class QueryKeyView {
  constructor(place, hover) {
    this.hover = hover;
    this.selects = { query: element("select"), key: element("select") };
    const row = element("div", { className: "panel-tools" });
    for (const [side, select] of Object.entries(this.selects)) {
      select.addEventListener("change", () => this._fetch());
      const name = { query: TEXT.queries, key: TEXT.keys }[side];
      row.append(element("label", { className: "field" }, element("span", name), select));
    }
    this.hint = element("p", { className: "hint" });
    this.place = element("div");
    place.append(row, this.hint, this.place);
    this.picture = new PictureCanvas(this.place, TEXT.queryKey.label, {
      height: () => this.found && HEIGHT,
      draw: (context, width) => this._draw(context, width),
    });
  }

  show(view, key, path, head) {
    const units = `${key} ${view.queries.length} ${view.keys.length}`;
    const isNew = this.units !== units;
    Object.assign(this, { view, key, path, head, units });
    for (const side of ["query", "key"]) {
      const labels = (side === "query" ? view.queries : view.keys).map(({ label }) => label);
      const chosen = isNew ? "" : this.selects[side].value;
      fill(this.selects[side], labels.map((label, at) => [String(at), `${at} ${label}`]), chosen);
    }
    if (isNew) this._choose(Math.max(0, view.queries.findLastIndex((unit) => !unit.special)));
    this.hold(false);
    return this._fetch();
  }

  // A token that is held becomes one of the pair.
  hold(fetches = true) {
    const unit = state.held && this.hover.units[state.held.side].get(state.held.token);
    if (unit === null || unit === undefined) return;
    const select = this.selects[state.held.side];
    if (select.value === String(unit)) return;
    select.value = String(unit);
    if (state.held.side === "query") this._choose(unit);
    if (fetches) this._fetch();
  }

  drawWhole(context, width) {
    if (this.found) this._draw(context, width);
    return HEIGHT;
  }

  // An attending unit with the one that it attends to most.
  _choose(query) {
    const { weights, keys } = this.view;
    let most = 0;
    for (let key = 1; key < keys.length; key++) {
      if (weights[query * keys.length + key] > weights[query * keys.length + most]) most = key;
    }
    this.selects.query.value = String(query);
    this.selects.key.value = String(most);
  }

  async _fetch() {
    const { queries, keys, weights } = this.view;
    if (typeof this.head !== "number" || !queries.length) {
      this.found = null;
      this.asked = null;
      this.place.hidden = true;
      this.hint.textContent = TEXT.queryKey.oneHead;
      return;
    }
    const [query, key] = [Number(this.selects.query.value), Number(this.selects.key.value)];
    const asked = (this.asked = Symbol("asked"));
    const found = await fetchQueryKey(this.key, {
      layer: this.path,
      head: this.head,
      query: queries[query].tokens[0],
      attended: keys[key].tokens[0],
    });
    if (this.asked !== asked) return;
    this.found = found;
    this.place.hidden = false;
    const weight = formatWeight(weights[query * keys.length + key]);
    this.hint.textContent = TEXT.queryKey.hint(queries[query].label, keys[key].label, found.score, weight);
    this.picture.redraw();
  }

  _draw(context, width) {
    const { query, key, products } = this.found;
    const colors = themeColors();
    const step = width / products.length;
    let y = 0;
    const title = (text) => {
      context.fillStyle = colors.faint;
      context.font = `12px ${FONT}`;
      context.textBaseline = "middle";
      context.fillText(text, 0, y + GAP / 2);
      y += GAP;
    };
    for (const [name, values] of [
      [TEXT.queryKey.query, query],
      [TEXT.queryKey.key, key],
    ]) {
      title(name);
      const most = largest(values);
      values.forEach((value, at) => {
        context.globalAlpha = Math.abs(value) / most;
        context.fillStyle = value < 0 ? colors.against : colors.line;
        context.fillRect(at * step, y, Math.max(1, step - 1), STRIP);
      });
      context.globalAlpha = 1;
      context.strokeStyle = colors.border;
      context.lineWidth = 1;
      context.strokeRect(0.5, y + 0.5, width - 1, STRIP - 1);
      y += STRIP;
    }
    title(TEXT.queryKey.products(largest(products)));
    const [middle, most] = [y + BARS / 2, largest(products)];
    products.forEach((value, at) => {
      const high = (Math.abs(value) / most) * (BARS / 2);
      context.fillStyle = value < 0 ? colors.against : colors.line;
      context.fillRect(at * step, value < 0 ? middle : middle - high, Math.max(1, step - 1), high);
    });
    context.strokeStyle = colors.border;
    context.beginPath();
    context.moveTo(0, middle);
    context.lineTo(width, middle);
    context.stroke();
  }
}

function largest(values) {
  return Math.max(...values.map(Math.abs)) || 1;
}
