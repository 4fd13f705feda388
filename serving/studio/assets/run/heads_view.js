// How the heads changed while a model trained: a row for each head, a column for each
// analysis of the training, and more color for a larger value.

import { drawScale, FONT, fitText, paint, sizeCanvas } from "../base/canvas.js";
import { rampTable, themeColors } from "../base/colors.js";
import { element, fill } from "../base/dom.js";
import { saveButtons, savePicture } from "../base/pictures.js";
import { TEXT } from "../base/strings.js";
import { formatNumber, makeDetails, makeTable } from "./run_parts.js";

const T = TEXT.runPage;
const NAMES = 170; // width of the rows' names
const ROW = { least: 4, most: 18 };
const TALL = 480; // of all rows, unless each would be lower than the least
const BELOW = 56; // for steps and legend
const LEGEND = 150;

export class HeadsView {
  constructor() {
    this.canvas = element("canvas", { tabIndex: 0, role: "img" });
    this.choice = element("select", { id: "run-heads-statistic" });
    this.readout = element("p", { className: "hint readout" });
    this.values = element("div");
    this.cursor = null; // {row, column}
    this.history = null;
    this.choice.addEventListener("change", () => {
      this.cursor = null;
      this.draw();
    });
    this.canvas.addEventListener("pointermove", (event) => this._point(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerleave", () => this._moveTo(null));
    this.canvas.addEventListener("blur", () => this._moveTo(null));
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    this.place = element("div", { className: "head-history" });
    new ResizeObserver(() => this.draw()).observe(this.place);
  }

  // The elements of a history.
  show(history) {
    this.history = history;
    this.cursor = null;
    fill(this.choice, history.statistics.map(({ name }) => [name, T.statistics[name] ?? name]), this.choice.value);
    const buttons = saveButtons((kind) => this._save(kind), T.titles.heads);
    const label = element("label", { className: "field" }, element("span", T.statistic), this.choice);
    const tools = element("div", { className: "record-tools" }, label, element("span", { className: "saves" }, ...buttons));
    this.place.replaceChildren(this.canvas);
    const idle = history.idle_heads.filter((count) => count !== null);
    const facts = idle.length ? [element("p", T.idleHeads(formatNumber(idle[0]), formatNumber(idle.at(-1))))] : [];
    return [element("p", { className: "hint" }, T.headsHint), ...facts, tools, this.place, this.readout, this.values];
  }

  clear() {
    this.history = null;
  }

  draw() {
    const width = this.place.clientWidth;
    if (!this.history || !width) return; // on another page
    const height = this._layout(width).height;
    this._draw(sizeCanvas(this.canvas, width, height), width, this.cursor);
    const { name, rows } = this._statistic();
    this.canvas.ariaLabel = T.headsLabel(T.statistics[name] ?? name, rows.length, this.history.steps.length);
    this.readout.textContent = this._read();
    const values = makeDetails(T.asTable);
    values.addEventListener("toggle", () => values.append(this._table()), { once: true });
    this.values.replaceChildren(values);
  }

  drawWhole(context, width) {
    this._draw(context, width, null);
    return this._layout(width).height;
  }

  _statistic() {
    const { statistics } = this.history;
    return statistics.find(({ name }) => name === this.choice.value) ?? statistics[0];
  }

  _layout(width) {
    const { rows, columns } = this._statistic();
    const row = Math.max(ROW.least, Math.min(ROW.most, TALL / rows.length));
    const names = Math.min(NAMES, width / 3);
    return { row, names, tall: row * rows.length, column: (width - names) / columns.length, height: row * rows.length + BELOW };
  }

  _draw(context, width, cursor) {
    const { name, rows, columns } = this._statistic();
    const { row, names, tall, column } = this._layout(width);
    const colors = themeColors();
    // From the least value to the largest: many statistics change little.
    const values = rows.flatMap((_, at) => columns.map((column) => column[at] ?? 0));
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const table = rampTable();
    const color = (share) => table[Math.round(share * (table.length - 1))];
    const picture = paint(rows.length, columns.length, (at) => color((values[at] - least) / (most - least || 1)));
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, names, 0, width - names, tall);
    context.font = `11px ${FONT}`;
    context.fillStyle = colors.faint;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const every = Math.ceil(12 / row);
    rows.forEach((label, at) => {
      if (at % every === 0) context.fillText(fitText(context, rowLabel(label), names - 8), names - 6, (at + 0.5) * row);
    });
    context.textBaseline = "top";
    const skipped = Math.ceil(60 / column);
    this.history.steps.forEach((step, at) => {
      if (at % skipped) return;
      context.textAlign = "left";
      context.fillText(formatNumber(step), names + at * column, tall + 4);
    });
    context.textAlign = "left";
    const bar = paint(1, LEGEND, (at) => color(at / (LEGEND - 1)));
    const numbers = [least, (least + most) / 2, most].map(formatNumber);
    drawScale(context, names, tall + 26, bar, numbers, colors, fitText(context, T.statistics[name] ?? name, width - names - LEGEND - 12));
    if (!cursor) return;
    context.strokeStyle = colors.mark;
    context.lineWidth = 3;
    context.strokeRect(names + cursor.column * column, cursor.row * row, column, row);
  }

  _read() {
    const { name, rows, columns } = this._statistic();
    if (!this.cursor) return T.headsPoint;
    const { row, column } = this.cursor;
    return T.headsValue(rowLabel(rows[row]), formatNumber(this.history.steps[column]), T.statistics[name] ?? name, formatNumber(columns[column][row]));
  }

  _table() {
    const { name, rows, columns } = this._statistic();
    const shown = rows.map((label, at) => ({ label, values: columns.map((values) => values[at]) }));
    const steps = this.history.steps.map((step, at) => [T.step(formatNumber(step)), ({ values }) => formatNumber(values[at]), "number"]);
    return makeTable(T.statistics[name] ?? name, [[T.head, ({ label }) => rowLabel(label)], ...steps], shown);
  }

  _point(x, y) {
    const { rows, columns } = this._statistic();
    const { row, names, column } = this._layout(this.place.clientWidth);
    const at = { row: Math.floor(y / row), column: Math.floor((x - names) / column) };
    this._moveTo(at.row < rows.length && at.column >= 0 && at.column < columns.length ? at : null);
  }

  _key(event) {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") return this._moveTo(null);
    if (!move) return;
    event.preventDefault();
    const { rows, columns } = this._statistic();
    const from = this.cursor ?? { row: 0, column: columns.length };
    const inside = (value, size) => Math.max(0, Math.min(size - 1, value));
    this._moveTo({ row: inside(from.row + move[0], rows.length), column: inside(from.column + move[1], columns.length) });
  }

  _moveTo(cursor) {
    this.cursor = cursor;
    const width = this.place.clientWidth;
    this._draw(sizeCanvas(this.canvas, width, this._layout(width).height), width, cursor);
    this.readout.textContent = this._read();
  }

  _save(kind) {
    const { name } = this._statistic();
    savePicture(kind, this, `${T.titles.heads}: ${T.statistics[name] ?? name}`, T.headsHint);
  }
}

// "decoder_layer_1/self_attention, 3" as people read it.
function rowLabel(name) {
  const found = /^(?:(encoder|decoder)_)?(?:layer|block)_(\d+)(?:\/(\w+))?(?:, (\d+))?$/.exec(name);
  if (!found) return name.replace(/, (\d+)$/, (_, head) => ` · ${T.head} ${head}`);
  const [, side, layer, part, head] = found;
  return T.rowLabel({ side, layer, part, head });
}
