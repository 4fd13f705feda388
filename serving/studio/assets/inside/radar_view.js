// Radar of a head: its numbers as shares, beside the mean of the layer's heads.

import { FONT } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { PictureCanvas } from "../base/picture_canvas.js";
import { TEXT } from "../base/strings.js";

const RINGS = 4;
const HEIGHT = 380;

export class RadarView {
  constructor(place) {
    this.hint = element("p", { className: "hint" });
    this.place = element("div");
    place.append(this.hint, this.place);
    this.picture = new PictureCanvas(this.place, TEXT.radar.label, {
      height: () => HEIGHT,
      draw: (context, width) => this._draw(context, width),
    });
  }

  // Numbers that are no shares are divided by their largest value in all layers.
  show(layers, layer, head, name) {
    const { summaries } = layers[layer];
    this.axes = Object.keys(TEXT.metrics)
      .filter((metric) => summaries[metric])
      .map((metric) => {
        const all = layers.flatMap((each) => each.summaries[metric] ?? []);
        const whole = TEXT.radar.shares.includes(metric) ? 1 : Math.max(...all) || 1;
        const values = summaries[metric];
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        let own = mean;
        if (head === "max") own = Math.max(...values);
        else if (typeof head === "number") own = values[head];
        return { label: TEXT.radar.axis(TEXT.metrics[metric].name), own: own / whole, mean: mean / whole };
      });
    this.name = name;
    this.hint.textContent = TEXT.radar.hint;
    this.picture.redraw();
  }

  drawWhole(context, width) {
    this._draw(context, width);
    return HEIGHT;
  }

  _draw(context, width) {
    if (!this.axes?.length) return;
    const colors = themeColors();
    const center = [width / 2, HEIGHT / 2 + 6];
    const radius = Math.min(HEIGHT / 2 - 56, width / 2 - 104);
    const count = this.axes.length;
    const at = (number, share) => {
      const angle = (2 * Math.PI * number) / count - Math.PI / 2;
      return [center[0] + Math.cos(angle) * radius * share, center[1] + Math.sin(angle) * radius * share];
    };
    const outline = (shares) => {
      context.beginPath();
      shares.forEach((share, number) => {
        if (number) context.lineTo(...at(number, share));
        else context.moveTo(...at(number, share));
      });
      context.closePath();
    };
    context.lineWidth = 1;
    context.strokeStyle = colors.border;
    for (let ring = 1; ring <= RINGS; ring++) {
      outline(this.axes.map(() => ring / RINGS));
      context.stroke();
    }
    context.font = `12px ${FONT}`;
    context.textBaseline = "middle";
    this.axes.forEach(({ label }, number) => {
      context.strokeStyle = colors.border;
      context.beginPath();
      context.moveTo(...center);
      context.lineTo(...at(number, 1));
      context.stroke();
      const [x, y] = at(number, 1.12);
      context.fillStyle = colors.faint;
      context.textAlign = Math.abs(x - center[0]) < 8 ? "center" : x < center[0] ? "right" : "left";
      context.fillText(label, x, y);
    });
    for (const [key, color, wide] of [
      ["mean", colors.faint, 1.5],
      ["own", colors.line, 3],
    ]) {
      outline(this.axes.map((axis) => axis[key]));
      if (key === "own") {
        context.globalAlpha = 0.2;
        context.fillStyle = color;
        context.fill();
        context.globalAlpha = 1;
      }
      context.strokeStyle = color;
      context.lineWidth = wide;
      context.stroke();
    }
    this._legend(context, colors);
  }

  _legend(context, colors) {
    context.textAlign = "left";
    [
      [this.name, colors.line, 3],
      [TEXT.radar.mean, colors.faint, 1.5],
    ].forEach(([text, color, wide], number) => {
      const y = 12 + 18 * number;
      context.strokeStyle = color;
      context.lineWidth = wide;
      context.beginPath();
      context.moveTo(4, y);
      context.lineTo(26, y);
      context.stroke();
      context.fillStyle = colors.text;
      context.fillText(text, 32, y);
    });
  }
}
