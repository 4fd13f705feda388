// Flow: where the vectors of the last layer come from, as a Sankey diagram.
//
// Each token of the last layer begins with the same amount, or the one that is pointed
// at with all of it. From layer to layer down it is divided as the vectors are: half
// through the residual connection, half by attention, as a mean over heads. What
// arrives at the bottom is the attention rollout (Abnar & Zuidema, 2020).

import { fetchFlow } from "../base/api.js";
import { readable, tokenText } from "../base/attention.js";
import { FONT, fitText } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { decodeHalfFloats } from "../base/half_floats.js";
import { PictureCanvas } from "../base/picture_canvas.js";
import { TEXT } from "../base/strings.js";

const ROW = 22;
const LABEL = 110;
const TOP = 24;
const MOST_LINKS = 3000;
const MOST_TOKENS = 200;
// Of the amount that a token would have if all had the same.
const LEAST = 0.02;

export class FlowView {
  constructor(place, hover) {
    this.hover = hover;
    this.hint = element("p", { className: "hint" });
    this.place = element("div");
    place.append(this.hint, this.place);
    this.picture = new PictureCanvas(this.place, TEXT.flow.label, {
      height: () => this.maps && this._height(),
      draw: (context, width) => this._draw(context, width),
    });
    const { canvas } = this.picture;
    canvas.addEventListener("pointermove", (event) => this._point(event));
    canvas.addEventListener("pointerleave", () => hover.leave());
    canvas.addEventListener("click", () => hover.hold());
    this.tokens = [];
  }

  async show(inspection, group) {
    const key = `${inspection.key} ${group.name}`;
    if (this.key === key) return this.draw();
    this.key = key;
    this.maps = null;
    const row = inspection.rows[group.queries];
    this.tokens = row.tokens.map((token) => ({
      label: readable(tokenText(row, token)),
      special: token.special,
    }));
    this.row = group.queries;
    this.place.hidden = this.tokens.length > MOST_TOKENS || group.queries !== group.keys;
    if (group.queries !== group.keys) return this._say(TEXT.flow.onlySelf);
    if (this.tokens.length > MOST_TOKENS) return this._say(TEXT.flow.tooLong(MOST_TOKENS));
    const maps = decodeHalfFloats(await fetchFlow(inspection.key, group.name));
    if (this.key !== key) return;
    this.maps = maps;
    this.layers = group.layers.length;
    this._say(TEXT.flow.hint);
    this.draw();
  }

  hide() {
    this.key = null;
  }

  draw() {
    if (!this.maps) return;
    const spot = this.hover.spot();
    const units = spot && this.hover.sides[spot.side][spot.unit].tokens;
    const own = spot && (spot.side === "query" ? this.hover.group.queries : this.hover.group.keys) === this.row;
    this.chosen = own ? units : null;
    this.flow = spread(this.maps, this.layers, this.tokens.length, this.chosen);
    this.picture.redraw();
  }

  drawWhole(context, width) {
    this._draw(context, width);
    return this._height();
  }

  _height() {
    return TOP + ROW * this.tokens.length + 6;
  }

  _say(text) {
    this.hint.textContent = text;
  }

  _draw(context, width) {
    if (!this.maps) return;
    const colors = themeColors();
    const { links, amounts, most } = this.flow;
    const label = Math.min(LABEL, width * 0.22);
    const step = (width - 2 * label) / this.layers;
    const x = (layer) => label + layer * step;
    const y = (token) => TOP + token * ROW + ROW / 2;
    const wide = (amount) => Math.max(0.4, (amount / most) * (ROW - 6));
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    context.strokeStyle = colors.line;
    context.lineCap = "butt";
    for (const { layer, query, key, amount } of links) {
      const [from, to] = [x(layer) + 3, x(layer + 1) - 3];
      context.globalAlpha = 0.15 + 0.6 * Math.min(1, amount / most);
      context.lineWidth = wide(amount);
      context.beginPath();
      context.moveTo(from, y(key));
      context.bezierCurveTo((from + to) / 2, y(key), (from + to) / 2, y(query), to, y(query));
      context.stroke();
    }
    context.globalAlpha = 1;
    for (let layer = 0; layer <= this.layers; layer++) {
      context.fillStyle = colors.faint;
      context.textAlign = "center";
      if (layer === 0 || step > 20 || layer === this.layers) {
        const name = layer ? TEXT.layerLabel(layer - 1) : TEXT.flow.input;
        context.fillText(name, x(layer), TOP / 2);
      }
      context.fillStyle = colors.text;
      this.tokens.forEach((_, token) => {
        const amount = amounts[layer * this.tokens.length + token];
        if (amount < LEAST * most) return;
        context.fillRect(x(layer) - 3, y(token) - wide(amount) / 2, 6, wide(amount));
      });
    }
    this.tokens.forEach((token, number) => {
      for (const [place, align, layer] of [
        [x(0) - 8, "right", 0],
        [x(this.layers) + 8, "left", this.layers],
      ]) {
        const marked = layer > 0 && this.chosen?.includes(number);
        if (marked) {
          context.fillStyle = colors.mark;
          context.fillRect(place - 3, y(number) - ROW / 2 + 1, label - 8, ROW - 2);
        }
        context.textAlign = align;
        context.fillStyle = token.special ? colors.faint : colors.text;
        context.fillText(fitText(context, token.label, label - 12), place, y(number));
      }
    });
    context.textAlign = "left";
  }

  _point(event) {
    if (!this.maps) return;
    const box = this.picture.canvas.getBoundingClientRect();
    const token = Math.floor((event.clientY - box.top - TOP) / ROW);
    if (token >= 0 && token < this.tokens.length) this.hover.pointToken(this.row, token);
    else this.hover.leave();
  }
}

// Divides amounts from the last layer down.
//
// `amounts` has (layers + 1, tokens), first the input's; `links` the largest ones.
export function spread(maps, layers, tokens, chosen) {
  const amounts = new Float32Array((layers + 1) * tokens);
  const starts = chosen ?? Array.from({ length: tokens }, (_, token) => token);
  for (const token of starts) amounts[layers * tokens + token] = 1 / starts.length;
  const links = [];
  let most = 0;
  for (let layer = layers - 1; layer >= 0; layer--) {
    for (let query = 0; query < tokens; query++) {
      const amount = amounts[(layer + 1) * tokens + query];
      if (!amount) continue;
      const start = (layer * tokens + query) * tokens;
      for (let key = 0; key < tokens; key++) {
        const part = amount * maps[start + key];
        amounts[layer * tokens + key] += part;
        if (part > LEAST / starts.length) links.push({ layer, query, key, amount: part });
      }
    }
  }
  for (const amount of amounts) most = Math.max(most, amount);
  links.sort((one, other) => other.amount - one.amount);
  return { amounts, links: links.slice(0, MOST_LINKS).reverse(), most };
}
