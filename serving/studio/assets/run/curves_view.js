// Curves of a training's log: a chart for each metric, with a cursor that all share.

import { FONT, sizeCanvas } from "../base/canvas.js";
import { isDark, themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { saveButtons, savePicture } from "../base/pictures.js";
import { TEXT } from "../base/strings.js";
import { EDGES, formatTick, HEIGHT, makeScales, nearest, thin } from "./curve_scales.js";
import { formatNumber, makeTable } from "./run_parts.js";

const T = TEXT.runPage;
const VALIDATION = "val_";
const AXES = ["step", "seconds", "tokens"];
// In this order; further metrics come after them.
const ORDER = ["loss", "accuracy", "mae", "learning_rate", "gradient_norm", "tokens_per_second", "mfu", "input_wait"];
const MOST_ROWS = 200;
// Of Okabe and Ito's colors those with the most contrast to the panel. Points mark the
// second series, so that color is not needed to know it.
const COLORS = { light: ["#0072b2", "#b34700"], dark: ["#f0e442", "#6cc4f5"] };

const MARKS = ["━", "■"];

export class CurvesView {
  constructor(place) {
    this.place = place;
    this.axis = "step";
    this.isLogarithmic = false;
    this.clear();
    new ResizeObserver(() => this.draw()).observe(place);
  }

  clear() {
    this.rows = [];
    this.charts = new Map();
    this.cursor = null;
    this.place.replaceChildren();
  }

  // Adds lines of the log.
  add(rows) {
    if (!rows.length) return;
    this.rows.push(...rows);
    for (const name of metricNames(rows)) {
      if (!this.charts.has(name)) this.charts.set(name, this._makeChart(name));
    }
    const known = [...this.charts.keys()].sort((a, b) => rank(a) - rank(b));
    known.forEach((name, at) => {
      const { figure } = this.charts.get(name);
      if (this.place.children[at] !== figure) this.place.insertBefore(figure, this.place.children[at] ?? null);
    });
    this.draw();
  }

  draw() {
    for (const [name, chart] of this.charts) {
      const width = chart.figure.clientWidth;
      if (!width) continue; // on another page
      const series = this._series(name);
      this._draw(sizeCanvas(chart.canvas, width, HEIGHT), series, width);
      chart.canvas.ariaLabel = T.curveLabel(T.metrics[name] ?? name, series.map(describe));
      chart.readout.replaceChildren(...this._read(series).flatMap(({ place, text }) => {
        const mark = element("span", { ariaHidden: "true" }, MARKS[place] ?? "");
        mark.style.color = COLORS[isDark() ? "dark" : "light"][place] ?? "";
        return [mark, text];
      }));
    }
  }

  // Some lines of the log, for those who prefer numbers.
  table() {
    const step = Math.ceil(this.rows.length / MOST_ROWS) || 1;
    const names = [...new Set(this.rows.flatMap(Object.keys))];
    return makeTable(
      T.logCaption(step),
      names.map((name) => [name.replaceAll("_", " "), (row) => formatNumber(row[name]), "number"]),
      this.rows.filter((_, at) => at % step === 0 || at === this.rows.length - 1),
    );
  }

  _makeChart(name) {
    const canvas = element("canvas", { tabIndex: 0, role: "img" });
    const readout = element("span", { className: "readout" });
    const title = T.metrics[name] ?? name.replaceAll("_", " ");
    const buttons = saveButtons((kind) => this._save(kind, name, title), title);
    const saves = element("span", { className: "saves" }, ...buttons);
    const caption = element("figcaption", {}, element("strong", title), saves, readout);
    const figure = element("figure", { className: "curve" }, caption, canvas);
    canvas.addEventListener("pointermove", (event) => this._point(name, event.offsetX, figure.clientWidth));
    canvas.addEventListener("pointerleave", () => this._moveTo(null));
    canvas.addEventListener("blur", () => this._moveTo(null));
    canvas.addEventListener("keydown", (event) => this._key(name, event));
    return { figure, canvas, readout };
  }

  // Kept until there are new lines, or another axis: the cursor moves often.
  _series(name) {
    const chart = this.charts.get(name);
    const key = `${this.rows.length} ${this.axis} ${this.isLogarithmic}`;
    if (chart.key !== key) Object.assign(chart, { key, series: this._makeSeries(name) });
    return chart.series;
  }

  _makeSeries(name) {
    return [name, VALIDATION + name]
      .map((key, place) => ({
        name: place ? T.validation : T.training,
        place,
        points: this.rows
          .filter((row) => key in row && this.axis in row && (!this.isLogarithmic || row[key] > 0))
          .map((row) => [row[this.axis], row[key]]),
      }))
      .filter((series) => series.points.length)
      .map((series) => ({ ...series, drawn: thin(series.points) }));
  }

  _draw(context, series, width) {
    const colors = themeColors();
    const inks = COLORS[isDark() ? "dark" : "light"];
    const scales = makeScales(series, width, this.isLogarithmic);
    context.font = `11px ${FONT}`;
    context.lineWidth = 1;
    if (!scales) return;
    for (const value of scales.yTicks) {
      const y = Math.round(scales.y(value)) + 0.5;
      line(context, colors.border, [EDGES.left, y], [width - EDGES.right, y]);
      label(context, colors.faint, formatTick(value), EDGES.left - 6, y, "right", "middle");
    }
    const ticks = scales.xTicks;
    ticks.forEach((value, at) => {
      const align = at === ticks.length - 1 && ticks.length > 1 ? "right" : "center";
      label(context, colors.faint, formatTick(value), scales.x(value), HEIGHT - EDGES.bottom + 6, align, "top");
    });
    line(context, colors.faint, [EDGES.left, HEIGHT - EDGES.bottom + 0.5], [width - EDGES.right, HEIGHT - EDGES.bottom + 0.5]);
    for (const { drawn: points, place } of series) {
      context.strokeStyle = context.fillStyle = inks[place];
      context.lineWidth = 2;
      context.beginPath();
      points.forEach(([x, y], at) => context[at ? "lineTo" : "moveTo"](scales.x(x), scales.y(y)));
      context.stroke();
      if (!place && points.length > 1) continue;
      for (const [x, y] of points) context.fillRect(scales.x(x) - 3, scales.y(y) - 3, 6, 6);
    }
    if (this.cursor !== null && this.cursor >= scales.least && this.cursor <= scales.most) {
      const x = scales.x(this.cursor);
      line(context, colors.text, [x, EDGES.top], [x, HEIGHT - EDGES.bottom]);
    }
  }

  // The values at the cursor, or the last ones; their place once if it is the same.
  _read(series) {
    const found = series.map(({ name, place, points }) => {
      const [x, y] = this.cursor === null ? points.at(-1) : nearest(points, this.cursor);
      return { place, x, text: ` ${name} ${formatNumber(y)} ` };
    });
    const at = (x) => T.at(T.axisUnits[this.axis](formatNumber(x)));
    if (found.every(({ x }) => x === found[0].x)) return found.length ? [...found, { text: at(found[0].x) }] : [];
    return found.flatMap((reading) => [reading, { text: `${at(reading.x)} ` }]);
  }

  _point(name, offset, width) {
    const scales = makeScales(this._series(name), width, this.isLogarithmic);
    if (scales) this._moveTo(scales.invert(offset));
  }

  _key(name, event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") return this._moveTo(null);
    if (!move) return;
    event.preventDefault();
    const places = [...new Set(this._series(name).flatMap((of) => of.points.map(([x]) => x)))].sort((a, b) => a - b);
    const now = this.cursor === null ? places.length - 1 : places.indexOf(nearest(places.map((x) => [x]), this.cursor)[0]);
    this._moveTo(places[Math.max(0, Math.min(places.length - 1, now + move))]);
  }

  _moveTo(cursor) {
    if (this.cursor === cursor) return;
    this.cursor = cursor;
    // Several movements within a frame are drawn once.
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  _save(kind, name, title) {
    const series = this._series(name);
    const view = {
      drawWhole: (context, width) => {
        this._draw(context, series, width);
        return HEIGHT;
      },
    };
    savePicture(kind, view, title, series.map(describe).join("; "));
  }
}

// The names of the metrics in lines of the log; validation has those of training.
function metricNames(rows) {
  const names = new Set(rows.flatMap(Object.keys).filter((name) => !AXES.includes(name)));
  return new Set([...names].map((name) => name.replace(VALIDATION, "")));
}

function rank(name) {
  const place = ORDER.indexOf(name);
  return place < 0 ? ORDER.length : place;
}

function describe({ name, points }) {
  return T.curve(name, formatNumber(points[0][1]), formatNumber(points.at(-1)[1]), formatNumber(points.length));
}

function line(context, color, from, to) {
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
}

function label(context, color, text, x, y, align, baseline) {
  context.fillStyle = color;
  context.textAlign = align;
  context.textBaseline = baseline;
  context.fillText(text, x, y);
}
