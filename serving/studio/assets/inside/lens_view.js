// Predictions of every layer (logit lens), and what the parts of a decoder add to one.

import { fetchContributions, fetchPredictions } from "../base/api.js";
import { readable, tokenText } from "../base/attention.js";
import { FONT, fitText, formatWeight, sizeCanvas } from "../base/canvas.js";
import { needsLightText, rampColor, themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { ContributionsView } from "./contributions_view.js";

const ROW = 26;
const COLUMN = 74;
const SIDE = 34; // names of layers
const TOP = 24; // tokens

export class LensView {
  constructor(place, hover) {
    this.hover = hover;
    this.hint = element("p", { className: "hint" });
    this.scroller = element("div", { className: "scroller wide" });
    this.spacer = element("div", { className: "layered" });
    this.canvas = element("canvas", { className: "stuck", tabIndex: 0, role: "application" });
    this.canvas.setAttribute("aria-label", TEXT.lens.label);
    this.spacer.append(this.canvas);
    this.scroller.append(this.spacer);
    this.said = element("p", { className: "pair", role: "status" });
    this.parts = element("div");
    place.append(this.hint, this.scroller, this.said, this.parts);
    this.contributions = new ContributionsView(this.parts);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this._point(this._cell(event)));
    this.canvas.addEventListener("pointerleave", () => this._leave());
    this.canvas.addEventListener("click", (event) => this._choose(this._cell(event)));
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  // Raises what the server says of models that predict no tokens.
  async show(inspection) {
    if (this.key === inspection.key) return this.draw();
    this.key = inspection.key;
    this.found = null;
    this.hint.textContent = TEXT.loading;
    this.contributions.hide();
    const found = await fetchPredictions(inspection.key);
    if (this.key !== inspection.key) return;
    this.found = found;
    const row = inspection.rows[found.row];
    this.tokens = row.tokens.map((token) => readable(tokenText(row, token)));
    this.pieces = Object.fromEntries(
      Object.entries(found.pieces).map(([id, piece]) => [id, readable(piece)]),
    );
    this.cell = null;
    this.hint.textContent = TEXT.lens.hint[found.predicts];
    this.scroller.scrollTo(0, 0);
    this.spacer.style.width = `${SIDE + COLUMN * this.tokens.length}px`;
    this.draw();
  }

  hide() {
    this.key = null;
    this.found = null;
  }

  draw() {
    const width = this.scroller.clientWidth;
    if (!this.found || !width) return;
    const context = sizeCanvas(this.canvas, width, this._height());
    this._draw(context, width, this.scroller.scrollLeft);
  }

  drawWhole(context, width) {
    this._draw(context, width, 0);
    return this._height();
  }

  _height() {
    return TOP + ROW * this.found.layers.length;
  }

  // The last layer is on top.
  _draw(context, width, left) {
    const { layers, ids, probabilities } = this.found;
    const colors = themeColors();
    const first = Math.floor(left / COLUMN);
    const last = Math.min(this.tokens.length, Math.ceil((left + width) / COLUMN));
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.font = `12px ${FONT}`;
    for (let token = first; token < last; token++) {
      const x = SIDE + token * COLUMN - left;
      context.fillStyle = colors.text;
      context.fillText(fitText(context, this.tokens[token], COLUMN - 8), x + COLUMN / 2, TOP / 2);
      layers.forEach((_, layer) => {
        const y = this._top(layer);
        const share = probabilities[layer][token][0];
        context.fillStyle = rampColor(share, 1);
        context.fillRect(x + 1, y + 1, COLUMN - 2, ROW - 2);
        context.fillStyle = needsLightText(share, 1) ? "#ffffff" : "#000000";
        const piece = this.pieces[ids[layer][token][0]];
        context.fillText(fitText(context, piece, COLUMN - 10), x + COLUMN / 2, y + ROW / 2);
        if (this.cell?.layer === layer && this.cell.token === token) {
          context.strokeStyle = colors.accent;
          context.lineWidth = 2.5;
          context.strokeRect(x + 1.5, y + 1.5, COLUMN - 3, ROW - 3);
        }
      });
    }
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, SIDE, this._height());
    context.fillStyle = colors.faint;
    layers.forEach((_, layer) => {
      const name = layer ? TEXT.layerLabel(layer - 1) : TEXT.lens.embeddings;
      context.fillText(name, SIDE / 2, this._top(layer) + ROW / 2);
    });
    context.textAlign = "left";
  }

  _top(layer) {
    return TOP + ROW * (this.found.layers.length - 1 - layer);
  }

  _cell(event) {
    if (!this.found) return null;
    const box = this.canvas.getBoundingClientRect();
    const token = Math.floor((event.clientX - box.left + this.scroller.scrollLeft - SIDE) / COLUMN);
    const layer = this.found.layers.length - 1 - Math.floor((event.clientY - box.top - TOP) / ROW);
    const inside = event.clientX - box.left >= SIDE && event.clientY - box.top >= TOP && layer >= 0;
    return inside && token < this.tokens.length ? { layer, token } : null;
  }

  _point(cell) {
    if (!this.found) return;
    if (cell?.layer === this.cell?.layer && cell?.token === this.cell?.token) return;
    this.cell = cell;
    this.draw();
    if (!cell) return this._leave();
    this.hover.pointToken(this.found.row, cell.token);
    const { ids, probabilities, final_ranks: ranks } = this.found;
    const { pieces } = this;
    const top = ids[cell.layer][cell.token].map(
      (id, at) => `${pieces[id]} ${formatWeight(probabilities[cell.layer][cell.token][at])}`,
    );
    const final = pieces[ids.at(-1)[cell.token][0]];
    this.said.textContent = TEXT.lens.said(
      cell.layer ? TEXT.layerLabel(cell.layer - 1) : TEXT.lens.embeddingsName,
      this.tokens[cell.token],
      top.join(" · "),
      final,
      ranks[cell.layer][cell.token] + 1,
    );
  }

  _leave() {
    this.cell = null;
    this.hover.leave();
    this.draw();
  }

  async _choose(cell) {
    if (!cell || this.found.predicts !== "next") return;
    const { key } = this;
    const token = this.found.ids[cell.layer][cell.token][0];
    await this.contributions.show(() => fetchContributions(key, cell.token, token));
  }

  _key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this._choose(this.cell);
    }
    if (event.key === "Escape") this._leave();
    if (!steps[event.key] || !this.found) return;
    event.preventDefault();
    const last = this.found.layers.length - 1;
    const { layer, token } = this.cell ?? { layer: last, token: -1 };
    const [right, up] = steps[event.key];
    const next = {
      layer: Math.max(0, Math.min(last, layer + up)),
      token: Math.max(0, Math.min(this.tokens.length - 1, token + right)),
    };
    this._point(next);
    const x = next.token * COLUMN;
    const { scrollLeft, clientWidth } = this.scroller;
    if (x < scrollLeft) this.scroller.scrollLeft = x;
    else if (x + COLUMN + SIDE > scrollLeft + clientWidth) this.scroller.scrollLeft = x + COLUMN + SIDE - clientWidth;
  }
}
