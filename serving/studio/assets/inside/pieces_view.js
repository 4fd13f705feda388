// The rows of tokens as running text, colored by the weights of one token.
//
// The colors are drawn on a canvas below the text: new styles for hundreds of elements at
// each movement of the pointer would take longer than a frame.

import { tokenText } from "../base/attention.js";
import { sizeCanvas } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { TEXT } from "../base/strings.js";

export class PiecesView {
  constructor(place, hover) {
    this.place = place;
    this.hover = hover;
    place.addEventListener("pointerover", (event) => this._point(event));
    place.addEventListener("pointerleave", () => hover.leave());
    place.addEventListener("click", (event) => {
      if (this._point(event)) hover.hold();
    });
    place.addEventListener("focusin", (event) => {
      if (event.target.matches?.(":focus-visible")) this._point(event);
    });
    place.addEventListener("keydown", (event) => this._key(event));
  }

  show(rows, shownRows, { ids }) {
    this.chips = rows.map(() => []);
    this.tints = rows.map(() => null);
    this.marked = new Set();
    this.observer?.disconnect();
    const sections = shownRows.map((index) => {
      const row = rows[index];
      const section = document.createElement("div");
      if (shownRows.length > 1) {
        section.append(
          Object.assign(document.createElement("h3"), { textContent: TEXT.rows[row.name] }),
        );
      }
      const line = document.createElement("div");
      line.className = "pieces";
      line.setAttribute("role", "listbox");
      line.setAttribute("aria-label", TEXT.rows[row.name]);
      line.tabIndex = -1;
      row.tokens.forEach((token, place) => {
        const chip = this._chip(row, token, place, ids);
        chip.dataset.row = index;
        chip.tabIndex = place === 0 ? 0 : -1;
        this.chips[index].push(chip);
        line.append(chip);
      });
      const canvas = document.createElement("canvas");
      canvas.setAttribute("aria-hidden", "true");
      line.append(canvas);
      this.tints[index] = { canvas, line, boxes: null, drawn: null };
      section.append(line);
      return section;
    });
    this.place.replaceChildren(...sections);
    this.observer = new ResizeObserver(() => {
      for (const [index, tint] of this.tints.entries()) {
        if (!tint) continue;
        tint.boxes = null;
        if (tint.drawn) this._tint(index, ...tint.drawn);
      }
    });
    for (const tint of this.tints) if (tint) this.observer.observe(tint.line);
  }

  // Colors the tokens of a row by weights, and marks tokens; without weights, clears.
  color(index, weights, most, marked) {
    const chips = this.chips?.[index];
    if (!chips?.length) return;
    for (const chip of this.marked) {
      if (Number(chip.dataset.row) === index) {
        chip.classList.remove("marked");
        this.marked.delete(chip);
      }
    }
    for (const place of marked) {
      chips[place].classList.add("marked");
      this.marked.add(chips[place]);
    }
    this._tint(index, weights, most);
  }

  held(index, places) {
    for (const chip of this.place.querySelectorAll("[aria-selected='true']")) {
      chip.setAttribute("aria-selected", "false");
    }
    for (const place of places) this.chips[index][place].setAttribute("aria-selected", "true");
  }

  _tint(index, weights, most) {
    const tint = this.tints[index];
    const { canvas, line } = tint;
    if (!tint.boxes) {
      canvas.hidden = true; // so that it does not extend what it covers
      tint.size = [line.clientWidth, line.scrollHeight];
      canvas.hidden = false;
      tint.boxes = this.chips[index].map((chip) => [
        chip.offsetLeft,
        chip.offsetTop,
        chip.offsetWidth,
        chip.offsetHeight,
      ]);
    }
    tint.drawn = [weights, most];
    const context = sizeCanvas(canvas, ...tint.size);
    if (!weights || !most) return;
    context.fillStyle = themeColors().line;
    tint.boxes.forEach((box, place) => {
      if (!weights[place]) return;
      context.globalAlpha = 0.6 * (weights[place] / most);
      context.fillRect(...box);
    });
  }

  _chip(row, token, place, ids) {
    const chip = document.createElement("span");
    chip.className = token.special ? "chip special" : "chip";
    chip.setAttribute("role", "option");
    chip.dataset.place = place;
    chip.title = TEXT.tokenTitle(token, place);
    const before = row.tokens[place - 1];
    if (before && before.word === token.word && !token.special) chip.classList.add("joined");
    const text = document.createElement("bdi");
    const shown = tokenText(row, token);
    text.textContent = shown.trim() || (token.special ? shown : "␣");
    chip.append(text);
    if (ids) chip.append(Object.assign(document.createElement("small"), { textContent: token.id }));
    return chip;
  }

  _point(event) {
    const chip = event.target.closest?.(".chip");
    if (!chip) return false;
    this.hover.pointToken(Number(chip.dataset.row), Number(chip.dataset.place));
    return true;
  }

  _key(event) {
    const chip = event.target.closest(".chip");
    if (!chip) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    const chips = this.chips[Number(chip.dataset.row)];
    let place = Number(chip.dataset.place);
    if (event.key in steps) place += steps[event.key];
    else if (event.key === "Home") place = 0;
    else if (event.key === "End") place = chips.length - 1;
    else return this.hover.key(event);
    event.preventDefault();
    const next = chips[place];
    if (!next) return;
    chip.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}
