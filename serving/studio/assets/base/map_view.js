// One head, or all heads of a layer taken together, as a heat map.

import { drawLegend, FONT, fitText, mapPicture, sizeCanvas } from "./canvas.js";
import { themeColors } from "./colors.js";
import { TEXT } from "./strings.js";

const MOST_CELL = 34;
// The least cell with a label beside it.
const LABELED = 11;
const LEGEND = 34;

export class MapView {
  constructor(place, hover) {
    this.hover = hover;
    this.place = place;
    this.box = document.createElement("div");
    this.box.className = "layered";
    this.canvas = document.createElement("canvas");
    // The marks are elements: a second canvas of this size would be slow to draw.
    this.overlay = document.createElement("div");
    this.overlay.className = "marks";
    this.marks = {};
    for (const name of ["row", "column", "query", "key"]) {
      const mark = document.createElement("div");
      mark.className = name === "row" || name === "column" ? "mark" : "mark-label";
      mark.hidden = true;
      this.marks[name] = mark;
      this.overlay.append(mark);
    }
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "application");
    this.overlay.setAttribute("aria-label", TEXT.mapLabel);
    this.box.append(this.canvas, this.overlay);
    place.append(this.box);
    this.overlay.addEventListener("pointermove", (event) => this._point(event));
    this.overlay.addEventListener("pointerleave", () => hover.leave());
    this.overlay.addEventListener("click", (event) => {
      this._point(event);
      hover.hold();
    });
    this.overlay.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  show(view, least) {
    this.view = view;
    this.least = least;
    this.picture = null;
    this.draw();
  }

  draw() {
    if (!this.view || !this.place.clientWidth) return;
    const size = this._layout(this.place.clientWidth);
    const context = sizeCanvas(this.canvas, size.width, size.height);
    this._draw(context, size);
    this.size = size;
    this.drawHover();
  }

  drawWhole(context, width) {
    const size = this._layout(width);
    this._draw(context, size);
    return size.height;
  }

  drawHover() {
    if (!this.size) return;
    const spot = this.hover.spot();
    const { queries, keys } = this.view;
    const { left, top, cell, row } = this.size;
    const query = spot?.side === "query" ? spot.unit : spot?.other;
    const key = spot?.side === "key" ? spot.unit : spot?.other;
    moveMark(this.marks.row, query !== undefined && [left, top + query * row, cell * keys.length, row]);
    moveMark(this.marks.column, key !== undefined && [left + key * cell, top, cell, row * queries.length]);
    this._tag(this.marks.query, query !== undefined && row < LABELED && queries[query].label, 0, top + (query + 0.5) * row);
    this._tag(this.marks.key, key !== undefined && cell < LABELED && keys[key].label, left + (key + 0.5) * cell, top - 14);
  }

  // A label beside a mark, where there is no room for labels of all tokens.
  _tag(mark, label, x, y) {
    mark.hidden = !label;
    if (!label) return;
    mark.textContent = label;
    mark.style.top = `${y}px`;
    mark.style.left = `${Math.max(0, Math.min(this.size.width - 160, x))}px`;
  }

  _layout(width) {
    const { queries, keys } = this.view;
    const labels = Math.min(130, Math.max(44, 9 * Math.max(...queries.map((u) => u.label.length), 1)));
    let left = Math.min(labels, width * 0.3);
    // The label of the last column leans to the right.
    let cell = Math.min(MOST_CELL, (width - left - 44) / keys.length);
    if (cell >= LABELED) cell = Math.floor(cell);
    else {
      left = 8;
      cell = Math.min(LABELED - 0.01, (width - left - 4) / keys.length);
    }
    // Rows of a map with many more rows than columns would not fit on a screen.
    const row = Math.min(cell, Math.max(1400 / queries.length, 1));
    const top = cell >= LABELED ? Math.min(96, 12 + 7 * Math.max(...keys.map((u) => Math.min(12, u.label.length)), 1)) : 26;
    const height = Math.ceil(top + row * queries.length + LEGEND + 8);
    return { width, height, left, top, cell, row };
  }

  _draw(context, { width, left, top, cell, row }) {
    const { queries, keys } = this.view;
    const colors = themeColors();
    this.picture ??= this._picture();
    const [across, down] = [cell * keys.length, row * queries.length];
    context.imageSmoothingEnabled = cell < 1;
    context.drawImage(this.picture, left, top, across, down);
    context.strokeStyle = colors.border;
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, across + 1, down + 1);
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    if (row >= LABELED) {
      context.textAlign = "right";
      queries.forEach((unit, at) => {
        context.fillStyle = unit.special ? colors.faint : colors.text;
        context.fillText(fitText(context, unit.label, left - 8), left - 6, top + (at + 0.5) * row);
      });
    }
    if (cell >= LABELED) {
      context.textAlign = "left";
      keys.forEach((unit, at) => {
        context.save();
        context.translate(left + (at + 0.5) * cell, top - 6);
        context.rotate(-Math.PI / 3.2);
        context.fillStyle = unit.special ? colors.faint : colors.text;
        context.fillText(fitText(context, unit.label, (top - 10) * 1.12), 0, 0);
        context.restore();
      });
    }
    const bar = Math.min(180, width - left - 8);
    const caption = width - left - bar > 170 ? TEXT.scale : "";
    this._legend(context, left, top + down + 10, bar, caption);
  }

  // The two that a map of other values has of its own.
  _picture() {
    const { weights, queries, keys, most } = this.view;
    return mapPicture(weights, queries.length, keys.length, most, this.least);
  }

  _legend(context, left, top, width, caption) {
    drawLegend(context, left, top, width, this.view.most, themeColors(), caption);
  }

  _point(event) {
    if (!this.size) return;
    const box = this.overlay.getBoundingClientRect();
    const { left, top, cell, row } = this.size;
    const key = Math.floor((event.clientX - box.left - left) / cell);
    const query = Math.floor((event.clientY - box.top - top) / row);
    const inRows = query >= 0 && query < this.view.queries.length;
    const inColumns = key >= 0 && key < this.view.keys.length;
    if (inRows && inColumns) this.hover.point({ side: "query", unit: query, other: key });
    else if (inRows && key < 0) this.hover.point({ side: "query", unit: query });
    else if (inColumns && query < 0) this.hover.point({ side: "key", unit: key });
    else this.hover.leave();
  }

  _key(event) {
    if (!this.view) return;
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return this.hover.key(event);
    event.preventDefault();
    const spot = this.hover.spot();
    let query = spot?.side === "query" ? spot.unit : (spot?.other ?? 0);
    let key = spot?.side === "key" ? spot.unit : (spot?.other ?? 0);
    if (spot) {
      query = Math.max(0, Math.min(this.view.queries.length - 1, query + move[0]));
      key = Math.max(0, Math.min(this.view.keys.length - 1, key + move[1]));
    }
    this.hover.point({ side: "query", unit: query, other: key });
  }
}

function moveMark(mark, box) {
  mark.hidden = !box;
  if (!box) return;
  const [left, top, width, height] = box;
  mark.style.transform = `translate(${left}px, ${top}px)`;
  mark.style.width = `${width}px`;
  mark.style.height = `${height}px`;
}
