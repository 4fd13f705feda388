// The rows of tokens as running text, colored by the weights of one token.

import { tokenText } from "./attention.js";
import { TEXT } from "./strings.js";

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
      section.append(line);
      return section;
    });
    this.place.replaceChildren(...sections);
  }

  // Colors the tokens of a row by weights, and marks tokens; without weights, clears.
  color(index, weights, most, marked) {
    this.chips?.[index]?.forEach((chip, place) => {
      const weight = weights ? weights[place] / (most || 1) : 0;
      chip.style.setProperty("--weight", weight.toFixed(3));
      chip.classList.toggle("weighted", weight > 0);
      chip.classList.toggle("marked", marked.has(place));
    });
  }

  held(index, places) {
    this.chips?.forEach((chips, row) =>
      chips.forEach((chip, place) =>
        chip.setAttribute("aria-selected", String(row === index && places.has(place))),
      ),
    );
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
