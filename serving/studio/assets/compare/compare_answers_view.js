// The predictions of two models side by side, as bars; the largest difference first.

import { readable } from "../base/attention.js";
import { FONT, fitText } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { drawColumns } from "./compare_pictures.js";
import { differenceColor, differenceNeedsLightText, formatDifference } from "./difference_colors.js";
import { foldButton } from "./fold_button.js";

const words = TEXT.compare;
// Before the button that shows all.
const FIRST = 6;
const ROW = 34; // of a picture

export class CompareAnswersView {
  constructor(place) {
    this.place = place;
  }

  show(answers) {
    this.answers = answers;
    this.isWhole = false;
    this.draw();
  }

  draw() {
    if (!this.answers) return;
    const { kind, predictions, written } = this.answers;
    const found = this._shown().map((prediction) => this._card(prediction));
    const parts = [element("div", { className: "predictions" }, ...found)];
    if (predictions.length > FIRST) parts.push(foldButton(this, predictions.length));
    if (written) parts.unshift(...writtenTexts(written));
    parts.unshift(element("p", { className: "hint" }, hint(this.answers, kind)));
    this.place.replaceChildren(...parts);
  }

  _shown() {
    const { predictions } = this.answers;
    return this.isWhole ? predictions : predictions.slice(0, FIRST);
  }

  _card(prediction) {
    const { kind } = this.answers;
    const title = element("h3", {}, element("bdi", {}, this._title(prediction)));
    if (kind !== "number") {
      title.append(element("span", { className: "badge" }, words.differs(share(prediction.difference))));
    }
    const rows = prediction.outcomes.map((outcome, number) => this._row(prediction, outcome, number));
    const head = element("tr");
    for (const text of [words.outcome, words.a, words.b, words.difference]) {
      head.append(element("th", { scope: "col" }, text));
    }
    return element(
      "article",
      { className: "prediction" },
      title,
      element("p", { className: "hint" }, element("bdi", {}, verdict(prediction, kind))),
      element("table", { className: "bars" }, element("thead", {}, head), element("tbody", {}, ...rows)),
    );
  }

  _title(prediction) {
    const { actual, outcomes } = prediction;
    const title = readable(visible(words.predictions[this.answers.kind](prediction)));
    return actual === null ? title : `${title} ${words.next(outcomeName(outcomes[actual]))}`;
  }

  _row(prediction, outcome, number) {
    const isNumber = this.answers.kind === "number";
    const name = element("th", { scope: "row" }, element("bdi", {}, outcomeName(outcome)));
    if (number === prediction.actual) name.append(element("span", { className: "actual" }, "▸"));
    const row = element("tr", {}, name);
    for (const side of ["a", "b"]) {
      const value = outcome[side];
      const cell = element("td", { className: `probability side-${side}` }, isNumber ? plain(value) : share(value));
      if (!isNumber && value !== null) cell.style.setProperty("--share", `${(100 * value) / longest(prediction)}%`);
      row.append(cell);
    }
    row.append(differenceCell(difference(outcome), mostOf(prediction, isNumber)));
    return row;
  }

  // For a picture.
  drawWhole(context, width) {
    const colors = themeColors();
    const [left, bar] = [260, (width - 420) / 2];
    let y = drawColumns(context, [left, left + bar + 20, width - 90]);
    for (const prediction of this._shown()) {
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.font = `14px ${FONT}`;
      context.fillStyle = colors.text;
      context.fillText(fitText(context, this._title(prediction), width), 0, y + 12);
      y += 26;
      prediction.outcomes.forEach((outcome) => {
        context.font = `12px ${FONT}`;
        context.fillStyle = colors.text;
        context.fillText(fitText(context, outcomeName(outcome), left - 20), 8, y + 12);
        ["a", "b"].forEach((side, number) => {
          const x = left + number * (bar + 20);
          const value = outcome[side];
          if (value !== null && this.answers.kind !== "number") {
            context.fillStyle = side === "a" ? colors.sideA : colors.sideB;
            context.fillRect(x, y + 3, Math.max(1, ((bar - 60) * value) / longest(prediction)), 18);
          }
          context.fillStyle = colors.text;
          const text = this.answers.kind === "number" ? plain(value) : share(value);
          context.fillText(text, x + bar - 52, y + 12);
        });
        context.fillText(formatDifference(difference(outcome)), width - 90, y + 12);
        y += ROW - 10;
      });
      y += 16;
    }
    return y;
  }
}

export function differenceCell(value, most) {
  const cell = element("td", { className: "difference" }, formatDifference(value));
  cell.style.backgroundColor = differenceColor(value, most);
  cell.classList.toggle("light-text", differenceNeedsLightText(value, most));
  return cell;
}

function hint({ same_tokens: same, left_out: leftOut }, kind) {
  const parts = [words.hints[kind]];
  if (kind !== "number" && kind !== "labels") parts.push(words.totalVariation);
  if (kind !== "number") parts.push(words.barsScaled);
  if (!same && ["tokens", "fills"].includes(kind)) parts.push(words.otherTokens);
  if (leftOut) parts.push(words.leftOut(leftOut));
  return parts.join(" ");
}

function verdict({ best, outcomes }, kind) {
  if (kind === "number" || kind === "labels") return "";
  const [a, b] = [outcomeName(outcomes[best.a]), outcomeName(outcomes[best.b])];
  return a === b ? words.both(a) : words.each(a, b);
}

function writtenTexts(written) {
  const texts = ["a", "b"].map((side) => {
    const text = element("bdi", { className: "written" }, visible(written[side]) || words.writesNothing);
    text.classList.toggle("hint", !written[side]);
    return element("div", { className: `side-${side}` }, element("strong", {}, words[side]), " ", text);
  });
  const title = element("h3", {}, words.writtenTitle);
  return [title, element("p", { className: "hint" }, words.writtenHint), element("div", { className: "both" }, ...texts)];
}

// An answer without a text is that the context has none.
function outcomeName({ name }) {
  return name ? readable(visible(name)) : words.noAnswer;
}

// Pieces may differ in their white space alone.
function visible(text) {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/(?<=[↵⇥#]) +| +$/gu, (spaces) => "␣".repeat(spaces.length));
}

function difference({ a, b }) {
  return (b ?? 0) - (a ?? 0);
}

// Of the probabilities of a prediction, which has the longest bar.
function longest({ outcomes }) {
  return Math.max(...outcomes.flatMap(({ a, b }) => [a ?? 0, b ?? 0]), 1e-9);
}

// Differences of probabilities have one scale; numbers that of their own difference.
function mostOf(prediction, isNumber) {
  return isNumber ? Math.abs(difference(prediction.outcomes[0])) : 1;
}

function share(value) {
  if (value === null) return "–";
  return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3);
}

function plain(value) {
  return Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 6 });
}
