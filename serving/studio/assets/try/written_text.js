// A text that a model writes, token by token; each token shows its alternatives.

import { fetchAlternatives } from "../base/api.js";
import { readable } from "../base/attention.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { bars } from "./bars.js";

// The color of a token with the probability 0, in percent.
const STRONGEST = 45;

export class WrittenText {
  // The prompt is shown before the text that continues it, and not before an answer.
  constructor(prompt) {
    this.ids = [];
    this.chips = [];
    this.alternatives = null;
    this.tokens = element("span", { role: "listbox" });
    this.tokens.setAttribute("aria-label", TEXT.try.tokensLabel);
    this.text = element("p", { className: "answer-text written", dir: "auto" });
    this.text.append(...(prompt ? [element("span", { className: "prompt" }, prompt)] : []), this.tokens);
    this.facts = element("p", { className: "hint" });
    this.panel = element("div", { className: "alternatives" });
    this.tokens.addEventListener("pointerover", (event) => this._choose(event.target));
    this.tokens.addEventListener("focusin", (event) => this._choose(event.target));
    this.tokens.addEventListener("keydown", (event) => this._key(event));
  }

  get elements() {
    return [this.text, this.facts, this.panel];
  }

  add(text, id) {
    const chip = element("span", { className: "token", role: "option", data: { token: this.ids.length } }, text);
    chip.tabIndex = this.ids.length ? -1 : 0;
    chip.setAttribute("aria-selected", "false");
    this.ids.push(id);
    this.chips.push(chip);
    this.tokens.append(chip);
  }

  async explain(run, texts, signal) {
    if (!this.ids.length) return;
    this.panel.replaceChildren(element("p", { className: "hint" }, TEXT.try.searching));
    try {
      this.alternatives = await fetchAlternatives(run, texts, this.ids, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      // Such as of an export of an earlier version: the text is there all the same.
      this.panel.replaceChildren(element("p", { className: "hint" }, TEXT.try.noAlternatives(error.message)));
      return;
    }
    this.alternatives.forEach(({ piece, probability }, place) => this._color(place, piece, probability));
    this._show(0);
  }

  _color(place, piece, probability) {
    const chip = this.chips[place];
    const strength = Math.round(STRONGEST * (1 - probability));
    chip.style.background = `color-mix(in srgb, var(--line) ${strength}%, transparent)`;
    chip.setAttribute("aria-label", TEXT.try.tokenLabel(chip.textContent || label(piece), probability));
    // A token of a part of a character, or of the end of the text, adds no text.
    if (!chip.textContent) chip.append(element("small", label(piece)));
  }

  _choose(target) {
    const place = target.closest?.("[data-token]")?.dataset.token;
    if (place !== undefined) this._show(Number(place));
  }

  _show(place) {
    if (!this.alternatives) return;
    this.chips.forEach((chip, number) => {
      chip.setAttribute("aria-selected", String(number === place));
      chip.tabIndex = number === place ? 0 : -1;
    });
    const { id, piece, probability, alternatives } = this.alternatives[place];
    const rows = alternatives.map((each) => ({
      label: label(each.piece),
      share: each.probability,
      chosen: each.id === id,
    }));
    if (!rows.some(({ chosen }) => chosen)) {
      rows.push({ label: label(piece), share: probability, chosen: true });
    }
    const title = TEXT.try.alternatives(place + 1, this.chips.length);
    this.panel.replaceChildren(
      element("h3", title),
      bars(rows, title),
      element("p", { className: "hint" }, TEXT.try.alternativesHint),
    );
  }

  _key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = this.chips.indexOf(event.target);
    if (!step || place < 0) return;
    event.preventDefault();
    this.chips[Math.min(Math.max(place + step, 0), this.chips.length - 1)].focus();
  }
}

// A piece that continues a word has no mark of it here.
function label(piece) {
  return readable(piece.replace(/^##(?=.)/su, ""));
}
