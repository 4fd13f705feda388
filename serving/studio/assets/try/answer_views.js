// The answers of models, each form in a way of its own.
//
// Every view takes the outputs of a signature for one request, `{name: [row, ...]}`, and
// the texts of the request, and returns elements.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { bars, numbers } from "./bars.js";
import { markSpans, taggedText } from "./text_spans.js";

const MASK = "[MASK]";
const CONTINUES = "##";
const SHOWN_NUMBERS = 12;
// More elements would make the page slow.
const SHOWN_WORDS = 2000;

export const ANSWER_VIEWS = {
  fills: showFills,
  gaps: showGaps,
  classes: showClasses,
  number: (outputs) => [numbers([[TEXT.try.score, TEXT.try.number(outputs.score[0])]])],
  tags: showTags,
  span: showSpan,
  embedding: showEmbeddings,
  likelihood: showLikelihood,
  "": showOutputs,
};

// --- Fills of masks -----------------------------------------------------------------

function showFills(outputs, texts) {
  const masks = outputs.fills[0]
    .map((pieces, mask) => pieces.map((piece, rank) => ({ piece, share: outputs.scores[0][mask][rank] })))
    .filter(([best]) => best.piece); // masks that another row of the batch has
  if (!masks.length) return [element("p", { className: "notice" }, TEXT.try.noMask(MASK))];
  const chosen = masks.map(() => 0);
  const filled = element("p", { className: "answer-text", dir: "auto" });
  const cards = element("div", { className: "cards" });
  const show = () => {
    filled.replaceChildren(...fillMasks(texts.text, masks.map((row, mask) => row[chosen[mask]].piece)));
    cards.replaceChildren(...masks.map((rows, mask) => card(rows, mask)));
  };
  const card = (rows, mask) => {
    const title = TEXT.try.mask(mask + 1);
    const choices = rows.map(({ piece, share }, rank) => ({
      label: piece,
      share,
      chosen: rank === chosen[mask],
      choose: () => {
        chosen[mask] = rank;
        show();
        cards.children[mask].querySelectorAll("button")[rank].focus();
      },
    }));
    return element("div", { className: "card" }, element("h3", title), bars(choices, title));
  };
  show();
  return [filled, element("p", { className: "hint" }, TEXT.try.fillsHint), cards];
}

// A piece that continues a word is joined to the text before it. Masks that the model did
// not read stay as they are.
function fillMasks(text, pieces) {
  const [head, ...parts] = text.split(MASK);
  const found = [head];
  pieces.forEach((piece, mask) => {
    if (piece.startsWith(CONTINUES)) found.push(found.pop().trimEnd());
    found.push(element("mark", { className: "fill" }, piece.replace(CONTINUES, "")), parts[mask]);
  });
  found.push(parts.slice(pieces.length).map((part) => MASK + part).join(""));
  return found;
}

// --- Gaps of a text -----------------------------------------------------------------

function showGaps(outputs, texts) {
  const left = outputs.gaps[0]
    .map((gap, number) => [gap, outputs.fills[0][number]])
    .filter(([gap]) => gap);
  if (!left.length) return [element("p", { className: "notice" }, TEXT.try.noMask("<extra_id_0>"))];
  const rows = left.map(([gap, fill]) => [gap, fill || TEXT.try.nothing]);
  const filled = element("p", { className: "answer-text", dir: "auto" });
  for (const part of texts.text.split(/(<extra_id_\d+>)/)) {
    const fill = part === left[0]?.[0] ? left.shift()[1] : "";
    filled.append(fill ? element("mark", { className: "fill" }, fill) : part);
  }
  return [filled, numbers(rows)];
}

// --- Classes ------------------------------------------------------------------------

function showClasses(outputs) {
  const applies = outputs.labels?.[0].filter(Boolean) ?? [outputs.label[0]];
  const rows = outputs.classes[0]
    .map((label, number) => ({ label, share: outputs.scores[0][number], chosen: applies.includes(label) }))
    .sort((one, other) => other.share - one.share);
  const said = applies.join(", ") || TEXT.try.noLabel;
  return [element("p", { className: "answer-big", dir: "auto" }, said), bars(rows, TEXT.try.classes)];
}

// --- Words and answers in their text ------------------------------------------------

function showTags(outputs, texts) {
  const row = (name) => outputs[name][0];
  const words = row("words")
    .map((word, number) => ({
      word,
      start: row("starts")[number],
      end: row("ends")[number],
      tag: row("tags")[number],
      share: row("scores")[number],
    }))
    .filter(({ word }) => word);
  const spans = outputs.entities
    ? row("entities")
        .map((entity, number) => ({
          text: entity,
          start: row("entity_starts")[number],
          end: row("entity_ends")[number],
          tag: row("entity_types")[number],
        }))
        .filter(({ text }) => text)
    : words;
  const body = element("tbody");
  for (const { word, tag, share } of words.slice(0, SHOWN_WORDS)) {
    body.append(
      element("tr", {}, element("td", { dir: "auto" }, word), element("td", tag), element("td", TEXT.try.share(share))),
    );
  }
  const heads = TEXT.try.wordColumns.map((name) => element("th", { scope: "col" }, name));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
  const details = element("details", {}, element("summary", TEXT.try.words(words.length, SHOWN_WORDS)), table);
  const notices = [];
  if (!spans.length) notices.push(element("p", { className: "notice" }, TEXT.try.noEntity));
  if (spans.length > SHOWN_WORDS) notices.push(element("p", { className: "notice" }, TEXT.try.manySpans(SHOWN_WORDS)));
  return [...notices, ...taggedText(texts.text, spans.slice(0, SHOWN_WORDS)), details];
}

function showSpan(outputs, texts) {
  const [score, none] = [outputs.score[0], outputs.no_answer_score[0]];
  const span = { start: outputs.start[0], end: outputs.end[0] };
  const found = [];
  if (none > score) found.push(element("p", { className: "notice" }, TEXT.try.noAnswer));
  found.push(element("p", { className: "answer-big", dir: "auto" }, outputs.answer[0] || TEXT.try.nothing));
  const context = element(
    "p",
    { className: "answer-text", dir: "auto" },
    ...markSpans(texts.context, [span], (text) => element("mark", { className: "fill" }, text)),
  );
  const scores = [
    [TEXT.try.answerScore, TEXT.try.number(score)],
    [TEXT.try.noAnswerScore, TEXT.try.number(none)],
  ];
  return [...found, context, numbers(scores)];
}

// --- Numbers ------------------------------------------------------------------------

function showEmbeddings(outputs) {
  const vectors = outputs.embedding;
  const length = (vector) => Math.hypot(...vector);
  const found = vectors.map((vector, number) => {
    const shown = vector.slice(0, SHOWN_NUMBERS).map(TEXT.try.number).join("  ");
    const title = vectors.length > 1 ? [element("h3", TEXT.try.vector(number + 1))] : [];
    const rest = vector.length > SHOWN_NUMBERS ? " …" : "";
    return element("div", {}, ...title, element("p", { className: "vector" }, shown + rest));
  });
  const rows = [
    [TEXT.try.entries, vectors[0].length.toLocaleString("en")],
    [TEXT.try.norm, vectors.map((vector) => TEXT.try.number(length(vector))).join(" · ")],
  ];
  if (vectors.length > 1) {
    const [one, other] = vectors;
    const product = one.reduce((sum, entry, place) => sum + entry * other[place], 0);
    rows.unshift([TEXT.try.cosine, TEXT.try.number(product / (length(one) * length(other)))]);
  }
  return [numbers(rows), ...found];
}

function showLikelihood(outputs) {
  const [total, tokens] = [outputs.log_likelihood[0], outputs.num_tokens[0]];
  return [
    numbers([
      [TEXT.try.likelihood, TEXT.try.number(total)],
      [TEXT.try.scored, tokens.toLocaleString("en")],
      [TEXT.try.perplexity, tokens ? TEXT.try.number(Math.exp(-total / tokens)) : "–"],
    ]),
  ];
}

// Of a model that Transbeam did not export.
function showOutputs(outputs) {
  return [element("pre", { className: "code" }, JSON.stringify(outputs, null, 1))];
}
