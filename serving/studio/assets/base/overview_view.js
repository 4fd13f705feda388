// All layers and heads: small maps, or one number of each head.

import { FONT, formatWeight, mapPicture } from "./canvas.js";
import { needsLightText, rampColor, themeColors } from "./colors.js";
import { TEXT } from "./strings.js";

export class OverviewView {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
    place.addEventListener("keydown", (event) => this._key(event));
  }

  // small: Float32Array (layers, heads, rows, columns); metric: "maps" or a summary.
  show({ group, small, metric, from, to, selected }) {
    const heads = Math.max(...group.layers.map((layer) => layer.heads));
    Object.assign(this, { group, small, metric, from, to, heads, selected });
    this.most = metric === "maps" ? 1 : summaryMaximum(group, metric);
    const grid = document.createElement("div");
    grid.className = "grid";
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-label", TEXT.overviewTitle);
    grid.style.setProperty("--heads", heads);
    grid.append(this._header());
    for (let layer = from; layer <= to; layer++) grid.append(this._row(layer));
    const focused = this.place.contains(document.activeElement);
    this.place.replaceChildren(grid);
    this.select(selected);
    if (focused) this._cell(selected.layer, this._column(selected))?.focus();
  }

  select(selected) {
    this.selected = selected;
    const column = this._column(selected);
    for (const cell of this.place.querySelectorAll("button.cell")) {
      const inLayer = Number(cell.dataset.layer) === selected.layer;
      const isOne = inLayer && Number(cell.dataset.head) === column;
      const isAll = inLayer && typeof selected.head !== "number";
      cell.setAttribute("aria-selected", String(isOne || isAll));
      cell.tabIndex = isOne || (isAll && cell.dataset.head === "0") ? 0 : -1;
    }
    if (!this.place.querySelector("button.cell[tabindex='0']")) {
      const first = this.place.querySelector("button.cell");
      if (first) first.tabIndex = 0;
    }
  }

  // For a picture.
  drawWhole(context, width) {
    const colors = themeColors();
    const left = 34;
    const size = Math.min(96, (width - left) / this.heads);
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = colors.faint;
    for (let head = 0; head < this.heads; head++) {
      context.fillText(String(head), left + (head + 0.5) * size, 10);
    }
    for (let layer = this.from; layer <= this.to; layer++) {
      const y = 22 + (layer - this.from) * size;
      context.textAlign = "left";
      context.fillStyle = colors.faint;
      context.fillText(TEXT.layerLabel(layer), 2, y + size / 2);
      for (let head = 0; head < this.group.layers[layer].heads; head++) {
        const x = left + head * size;
        if (this.metric === "maps") {
          context.imageSmoothingEnabled = false;
          context.drawImage(this._picture(layer, head), x + 1, y + 1, size - 3, size - 3);
          context.strokeStyle = colors.border;
          context.strokeRect(x + 0.5, y + 0.5, size - 2, size - 2);
        } else {
          const value = this._value(layer, head);
          context.fillStyle = rampColor(value ?? 0, this.most);
          context.fillRect(x + 1, y + 1, size - 3, size - 3);
          context.fillStyle = needsLightText(value ?? 0, this.most) ? "#ffffff" : "#000000";
          context.textAlign = "center";
          if (size > 28) context.fillText(shortNumber(value), x + size / 2, y + size / 2);
        }
      }
    }
    return 26 + (this.to - this.from + 1) * size;
  }

  _header() {
    const row = document.createElement("div");
    row.setAttribute("role", "row");
    const corner = label("", "columnheader");
    corner.append(
      Object.assign(document.createElement("span"), {
        className: "visually-hidden",
        textContent: TEXT.layer,
      }),
    );
    row.append(corner);
    for (let head = 0; head < this.heads; head++) {
      row.append(label(String(head), "columnheader", TEXT.headName(head)));
    }
    return row;
  }

  _row(layer) {
    const row = document.createElement("div");
    row.setAttribute("role", "row");
    row.append(label(TEXT.layerLabel(layer), "rowheader", `${TEXT.layer} ${layer}`));
    for (let head = 0; head < this.group.layers[layer].heads; head++) {
      const holder = document.createElement("div");
      holder.setAttribute("role", "presentation");
      const cell = document.createElement("button");
      cell.type = "button";
      cell.className = "cell";
      cell.setAttribute("role", "gridcell");
      cell.dataset.layer = layer;
      cell.dataset.head = head;
      const value = this.metric === "maps" ? null : this._value(layer, head);
      const spoken = value === null ? "" : `: ${shortNumber(value)}`;
      cell.setAttribute("aria-label", TEXT.cell(layer, head, spoken));
      cell.title = `${TEXT.cell(layer, head, "")}\n${this._summaries(layer, head)}`;
      if (this.metric === "maps") cell.append(this._picture(layer, head));
      else {
        cell.style.backgroundColor = rampColor(value ?? 0, this.most);
        cell.classList.toggle("light-text", needsLightText(value ?? 0, this.most));
        cell.textContent = shortNumber(value);
      }
      cell.addEventListener("click", () => this.choose(layer, head));
      row.append(cell);
    }
    return row;
  }

  _summaries(layer, head) {
    const { summaries } = this.group.layers[layer];
    return Object.entries(TEXT.metrics)
      .filter(([name]) => summaries[name])
      .map(([name, { name: shown }]) => `${shown}: ${formatWeight(summaries[name][head])}`)
      .join("\n");
  }

  _picture(layer, head) {
    const [rows, columns] = this.group.small;
    const weights = this._weights(layer, head);
    let most = 0;
    for (const weight of weights) if (weight > most) most = weight;
    return mapPicture(weights, rows, columns, most);
  }

  _weights(layer, head) {
    const [rows, columns] = this.group.small;
    const size = rows * columns;
    const start = (layer * this.heads + head) * size;
    return this.small.subarray(start, start + size);
  }

  _value(layer, head) {
    return this.group.layers[layer].summaries[this.metric]?.[head] ?? null;
  }

  _column(selected) {
    return typeof selected.head === "number" ? selected.head : 0;
  }

  _cell(layer, head) {
    return this.place.querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
  }

  _key(event) {
    const cell = event.target.closest("button.cell");
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!cell || !move) return;
    event.preventDefault();
    const next = this._cell(Number(cell.dataset.layer) + move[0], Number(cell.dataset.head) + move[1]);
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

function label(text, role, spoken) {
  const found = document.createElement("div");
  found.setAttribute("role", role);
  found.textContent = text;
  if (spoken) found.setAttribute("aria-label", spoken);
  return found;
}

function summaryMaximum(group, metric) {
  const values = group.layers.flatMap((layer) => layer.summaries[metric] ?? []);
  return Math.max(...values, 1e-9);
}

function shortNumber(value) {
  if (value === null) return "–";
  return value >= 10 ? value.toFixed(0) : value.toFixed(value >= 1 ? 1 : 2).replace(/^0\./, ".");
}
