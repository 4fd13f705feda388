// Attention tree: the units that a unit attends to most, those that these attend to, and
// so on. A unit is in the tree once, below the first one that reaches it.

import { FONT, fitText, formatWeight } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element, fill } from "../base/dom.js";
import { PictureCanvas } from "../base/picture_canvas.js";
import { state } from "../base/state.js";
import { TEXT } from "../base/strings.js";

const ROW = 34;
const MOST_COLUMN = 240;
const LABEL = 0.62; // share of a column; the rest is for edges

export class TreeView {
  constructor(place, hover, changed) {
    this.hover = hover;
    this.fields = {};
    const row = element("div", { className: "panel-tools" });
    for (const [name, most] of Object.entries({ children: 5, depth: 4 })) {
      const select = element("select");
      fill(select, numbers(most), String(state[name]));
      select.addEventListener("change", () => {
        state[name] = Number(select.value);
        changed();
      });
      this.fields[name] = select;
      row.append(element("label", { className: "field" }, element("span", TEXT.tree[name]), select));
    }
    this.hint = element("p", { className: "hint" });
    this.place = element("div");
    place.append(row, this.hint, this.place);
    this.picture = new PictureCanvas(this.place, TEXT.tree.label, {
      height: () => (this.leaves ?? 0) * ROW,
      draw: (context, width) => this._draw(context, width),
    });
  }

  show(view, least) {
    Object.assign(this, { view, least });
    for (const [name, select] of Object.entries(this.fields)) select.value = String(state[name]);
    this.draw();
  }

  draw() {
    if (!this.view) return;
    const { queries } = this.view;
    const spot = this.hover.spot();
    let root = spot?.side === "query" ? spot.unit : -1;
    // Of one text, what is attended to can attend as well.
    if (spot && root < 0 && queries === this.view.keys) root = spot.unit;
    // A causal model's first tokens have little to attend to.
    if (root < 0) root = Math.max(0, queries.findLastIndex((unit) => !unit.special));
    if (!queries.length) return;
    const one = growTree(this.view, root, state.children, state.depth, this.least);
    this.leaves = placeLeaves(one, 0);
    this.tree = one;
    this.hint.textContent = TEXT.tree.hint(queries[root].label);
    this.picture.redraw();
  }

  drawWhole(context, width) {
    this._draw(context, width);
    return this.leaves * ROW;
  }

  _draw(context, width) {
    const colors = themeColors();
    const column = Math.min(MOST_COLUMN, width / (state.depth + 1));
    context.textBaseline = "middle";
    this._node(context, this.tree, column, colors);
  }

  _node(context, node, column, colors) {
    const [x, y] = [node.depth * column, (node.row + 0.5) * ROW];
    for (const child of node.children) {
      const [from, to] = [x + column * LABEL, child.depth * column];
      const below = (child.row + 0.5) * ROW;
      context.strokeStyle = colors.line;
      context.globalAlpha = 0.25 + 0.75 * Math.min(1, child.weight);
      context.lineWidth = 1 + 7 * child.weight;
      context.beginPath();
      context.moveTo(from, y);
      context.bezierCurveTo((from + to) / 2, y, (from + to) / 2, below, to, below);
      context.stroke();
      context.globalAlpha = 1;
      this._node(context, child, column, colors);
    }
    const unit = (node.depth ? this.view.keys : this.view.queries)[node.unit];
    const wide = column * LABEL;
    context.fillStyle = node.depth ? colors.panel : colors.mark;
    context.fillRect(x, y - 12, wide, 24);
    context.strokeStyle = colors.border;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y - 12, wide - 1, 24);
    context.fillStyle = colors.text;
    context.textAlign = "left";
    context.font = `13px ${FONT}`;
    const number = node.depth ? formatWeight(node.weight) : "";
    context.fillText(fitText(context, unit.label, wide - 14 - 6 * number.length), x + 6, y);
    context.fillStyle = colors.faint;
    context.font = `11px ${FONT}`;
    context.textAlign = "right";
    context.fillText(number, x + wide - 5, y);
    context.textAlign = "left";
  }
}

// The tree as nodes {unit, weight, depth, children}, grown level by level.
export function growTree(view, root, most, depth, least) {
  const { weights, queries, keys } = view;
  const top = { unit: root, weight: 1, depth: 0, children: [] };
  const seen = new Set(queries === keys ? [root] : []);
  let level = [top];
  // Of two texts, the attended units have no weights of their own.
  const levels = queries === keys ? depth : 1;
  for (let number = 1; number <= levels; number++) {
    const reached = [];
    for (const parent of level) {
      const at = (unit) => weights[parent.unit * keys.length + unit];
      const found = [];
      for (let unit = 0; unit < keys.length; unit++) {
        if (!seen.has(unit) && at(unit) > 0 && at(unit) >= least) found.push(unit);
      }
      found.sort((one, other) => at(other) - at(one) || one - other);
      for (const unit of found.slice(0, most)) {
        seen.add(unit);
        parent.children.push({ unit, weight: at(unit), depth: number, children: [] });
      }
      reached.push(...parent.children);
    }
    level = reached;
  }
  return top;
}

// Gives each node a row, a parent in the middle of its children; returns the next row.
function placeLeaves(node, row) {
  if (!node.children.length) {
    node.row = row;
    return row + 1;
  }
  for (const child of node.children) row = placeLeaves(child, row);
  node.row = (node.children[0].row + node.children.at(-1).row) / 2;
  return row;
}

function numbers(most) {
  return Array.from({ length: most }, (_, at) => [String(at + 1), String(at + 1)]);
}
