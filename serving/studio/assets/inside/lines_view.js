// Head view: lines from attending tokens on the left to attended tokens on the right.
//
// Only what is in sight is drawn, on one canvas, so that long texts stay smooth.

import { strongest } from "../base/attention.js";
import { FONT, fitText, sizeCanvas } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { TEXT } from "../base/strings.js";

const ROW = 24;
const MOST_LINES = 2000;
const MOST_COLUMN = 220;

export class LinesView {
  constructor(place, hover) {
    this.hover = hover;
    this.scroller = document.createElement("div");
    this.scroller.className = "scroller";
    this.spacer = document.createElement("div");
    this.canvas = document.createElement("canvas");
    this.canvas.className = "sticky";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", TEXT.linesLabel);
    this.note = document.createElement("p");
    this.note.className = "hint";
    const heads = document.createElement("div");
    heads.className = "column-heads";
    for (const text of [TEXT.queries, TEXT.keys]) {
      heads.append(Object.assign(document.createElement("span"), { textContent: text }));
    }
    this.spacer.append(this.canvas);
    this.scroller.append(this.spacer);
    place.append(heads, this.scroller, this.note);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this._point(event));
    this.canvas.addEventListener("pointerleave", () => hover.leave());
    this.canvas.addEventListener("click", (event) => {
      this._point(event);
      hover.hold();
    });
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  show(view, least) {
    this.view = view;
    this.least = least;
    const rows = Math.max(view.queries.length, view.keys.length);
    this.height = rows * ROW + 8;
    this.spacer.style.height = `${this.height}px`;
    this.all = strongest(view, least, MOST_LINES);
    this.draw();
  }

  draw() {
    if (!this.view || !this.scroller.clientWidth) return;
    const width = this.scroller.clientWidth;
    const height = Math.min(this.height, this.scroller.clientHeight || this.height);
    const context = sizeCanvas(this.canvas, width, height);
    this._draw(context, width, height, this.scroller.scrollTop);
  }

  // All of it, for a picture.
  drawWhole(context, width) {
    this._draw(context, width, this.height, 0);
    return this.height;
  }

  _draw(context, width, height, top) {
    const { queries, keys } = this.view;
    const colors = themeColors();
    const column = columnWidth(width);
    const spot = this.hover.spot();
    let { edges, all } = this.all;
    if (spot) ({ edges, all } = strongest(this.view, this.least, MOST_LINES, spot));
    this.note.textContent = edges.length < all ? TEXT.linesCut(edges.length, all) : "";
    const most = this.view.most || 1;
    const center = (unit) => unit * ROW + ROW / 2 + 4 - top;
    context.strokeStyle = colors.line;
    context.lineCap = "round";
    const [left, right] = [column + 6, width - column - 6];
    const bend = (right - left) / 2;
    for (const { query, key, weight } of edges.toReversed()) {
      const [from, to] = [center(query), center(key)];
      if (Math.max(from, to) < 0 || Math.min(from, to) > height) continue;
      const share = weight / (spot ? most : Math.max(most, 0.05));
      context.globalAlpha = Math.min(1, 0.06 + 0.94 * share);
      context.lineWidth = 0.6 + 3.4 * share;
      context.beginPath();
      context.moveTo(left, from);
      context.bezierCurveTo(left + bend, from, right - bend, to, right, to);
      context.stroke();
    }
    context.globalAlpha = 1;
    const strengths = spot ? new Map(edges.map((edge) => [edge[other(spot.side)], edge.weight])) : null;
    this._labels(context, queries, "query", 0, column, center, height, colors, spot, strengths);
    this._labels(context, keys, "key", width - column, column, center, height, colors, spot, strengths);
  }

  _labels(context, units, side, x, width, center, height, colors, spot, strengths) {
    context.font = `13px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = side === "query" ? "right" : "left";
    const first = Math.max(0, Math.floor((-center(0) - ROW) / ROW));
    for (let unit = first; unit < units.length; unit++) {
      const y = center(unit);
      if (y > height + ROW) break;
      const isSpot = spot?.side === side && spot.unit === unit;
      const strength = spot && spot.side !== side ? (strengths.get(unit) ?? 0) : 0;
      if (isSpot || strength > 0) {
        context.fillStyle = isSpot ? colors.mark : colors.line;
        context.globalAlpha = isSpot ? 1 : 0.45 * Math.sqrt(strength);
        context.fillRect(x + 1, y - ROW / 2 + 1, width - 2, ROW - 2);
        context.globalAlpha = 1;
      }
      context.fillStyle = units[unit].special ? colors.faint : colors.text;
      const label = fitText(context, units[unit].label, width - 12);
      context.fillText(label, side === "query" ? x + width - 6 : x + 6, y);
    }
    context.textAlign = "left";
  }

  _point(event) {
    if (!this.view) return;
    const box = this.canvas.getBoundingClientRect();
    const side = event.clientX - box.left < box.width / 2 ? "query" : "key";
    const units = side === "query" ? this.view.queries : this.view.keys;
    const y = event.clientY - box.top + this.scroller.scrollTop - 4;
    const unit = Math.floor(y / ROW);
    if (unit >= 0 && unit < units.length) this.hover.point({ side, unit });
    else this.hover.leave();
  }

  _key(event) {
    if (!this.view) return;
    const spot = this.hover.spot() ?? { side: "query", unit: -1 };
    let { side, unit } = spot;
    if (event.key === "ArrowDown") unit++;
    else if (event.key === "ArrowUp") unit--;
    else if (event.key === "ArrowLeft") side = "query";
    else if (event.key === "ArrowRight") side = "key";
    else return this.hover.key(event);
    event.preventDefault();
    const units = side === "query" ? this.view.queries : this.view.keys;
    unit = Math.max(0, Math.min(units.length - 1, unit));
    this.hover.point({ side, unit });
    const y = unit * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop) this.scroller.scrollTop = y;
    else if (y + 2 * ROW > scrollTop + clientHeight) this.scroller.scrollTop = y + 2 * ROW - clientHeight;
  }
}

function other(side) {
  return side === "query" ? "key" : "query";
}

function columnWidth(width) {
  return Math.min(MOST_COLUMN, Math.floor(width * 0.33));
}
