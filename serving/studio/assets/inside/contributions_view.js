// Contributions of a decoder's parts to the difference of two logits, as bars.

import { FONT, fitText } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { PictureCanvas } from "../base/picture_canvas.js";
import { TEXT } from "../base/strings.js";

const ROW = 22;
const SHOWN = 20;
const LABEL = 210;
const NUMBER = 64;

export class ContributionsView {
  constructor(place) {
    this.place = place;
    this.title = element("h3");
    this.hint = element("p", { className: "hint" });
    this.error = element("p", { className: "notice", hidden: true });
    this.canvasPlace = element("div");
    place.append(this.title, this.hint, this.error, this.canvasPlace);
    this.picture = new PictureCanvas(this.canvasPlace, TEXT.contributions.label, {
      height: () => (this.rows?.length ?? 0) * ROW,
      draw: (context, width) => this._draw(context, width),
    });
    this.hide();
  }

  hide() {
    this.place.hidden = true;
    this.asked = null;
  }

  async show(fetchFound) {
    const asked = Symbol("asked");
    this.asked = asked;
    this.place.hidden = false;
    let found;
    try {
      found = await fetchFound();
    } catch (error) {
      if (this.asked !== asked) return;
      this.title.textContent = TEXT.contributions.title;
      this.hint.textContent = "";
      this.error.textContent = error.message;
      this.error.hidden = false;
      this.canvasPlace.hidden = true;
      return;
    }
    if (this.asked !== asked) return;
    this.error.hidden = true;
    this.canvasPlace.hidden = false;
    const { token, against, difference, parts } = found;
    this.title.textContent = TEXT.contributions.of(token.piece, against.piece);
    this.hint.textContent = TEXT.contributions.hint(token, against, difference);
    const sorted = parts.toSorted((one, other) => Math.abs(other.contribution) - Math.abs(one.contribution));
    this.rows = sorted.slice(0, SHOWN).map((part) => ({
      label: TEXT.contributions.part(part),
      value: part.contribution,
    }));
    const rest = sorted.slice(SHOWN);
    if (rest.length) {
      const value = rest.reduce((sum, part) => sum + part.contribution, 0);
      this.rows.push({ label: TEXT.contributions.rest(rest.length), value });
    }
    this.picture.redraw();
  }

  _draw(context, width) {
    const colors = themeColors();
    const label = Math.min(LABEL, width * 0.4);
    const most = Math.max(...this.rows.map(({ value }) => Math.abs(value))) || 1;
    const middle = label + (width - label - NUMBER) / 2;
    const unit = (width - label - NUMBER) / 2 / most;
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    this.rows.forEach(({ label: text, value }, number) => {
      const y = number * ROW + ROW / 2;
      context.fillStyle = colors.text;
      context.textAlign = "right";
      context.fillText(fitText(context, text, label - 12), label - 8, y);
      context.fillStyle = value < 0 ? colors.against : colors.line;
      context.fillRect(Math.min(middle, middle + value * unit), y - 7, Math.max(1, Math.abs(value) * unit), 14);
      context.fillStyle = colors.faint;
      context.fillText(value.toFixed(3), width - 4, y);
    });
    context.strokeStyle = colors.border;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(middle, 0);
    context.lineTo(middle, this.rows.length * ROW);
    context.stroke();
    context.textAlign = "left";
  }
}
