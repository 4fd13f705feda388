// Records as people read them: documents in colors, masked tokens and tags at their place.

import { fetchRecords } from "../base/api.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

const T = TEXT.runPage;
const COUNT = 5;
const COLORS = 6;

export class RecordsView {
  constructor(place, fail) {
    this.place = place;
    this.fail = fail;
    this.split = "train";
    this.first = 0;
    this.list = element("ol", { className: "records" });
    this.status = element("p", { className: "hint", role: "status" });
    this.choice = element("select", {}, new Option(T.training, "train"), new Option(T.validation, "validation"));
    this.back = element("button", { type: "button" }, T.previous);
    this.forward = element("button", { type: "button" }, T.next);
    this.tools = element(
      "div",
      { className: "record-tools" },
      element("label", { className: "field" }, element("span", T.split), this.choice),
      this.back,
      this.forward,
      this.status,
    );
    place.append(element("p", { className: "hint" }, T.recordsHint), this.tools, this.list);
    this.choice.addEventListener("change", () => this._go(this.choice.value, 0));
    this.back.addEventListener("click", () => this._go(this.split, Math.max(0, this.first - COUNT)));
    this.forward.addEventListener("click", () => this._go(this.split, this.first + COUNT));
  }

  // Shows the first records of a run.
  open(run, signal) {
    Object.assign(this, { run, signal });
    this.choice.value = "train";
    return this._go("train", 0);
  }

  async _go(split, first) {
    const asked = (this.asked = {});
    try {
      const found = await fetchRecords(this.run, split, first, COUNT, this.signal);
      if (asked !== this.asked) return; // another one was asked for meanwhile
      const { records } = found;
      if (!records.length && first) {
        this.forward.disabled = true;
        return;
      }
      Object.assign(this, { split, first });
      this.back.disabled = first === 0;
      this.forward.disabled = records.length < COUNT;
      this.status.textContent = records.length ? T.recordsShown(first, first + records.length - 1) : T.noRecords;
      this.list.replaceChildren(...records.map(makeRecord));
    } catch (error) {
      this.fail(error, this.place);
    }
  }
}

function makeRecord(record) {
  const item = element("li", {}, element("h3", T.record(record.number)));
  for (const row of record.rows) {
    if (record.rows.length > 1) item.append(element("p", { className: "hint" }, TEXT.rows[row.name] ?? row.name));
    item.append(makeRow(row));
    const notes = [];
    if (row.left_out) notes.push(T.leftOut(row.left_out));
    if (row.padding) notes.push(T.padding(row.padding));
    if (notes.length) item.append(element("p", { className: "hint" }, notes.join(" · ")));
  }
  for (const { name, text } of record.values) {
    const shown = element("p", { className: "record-value" }, `${name.replaceAll("_", " ")}: `);
    shown.append(element("bdi", text));
    item.append(shown);
  }
  return item;
}

// A row of tokens as a text; a number begins each document.
function makeRow(row) {
  const place = element("p", { className: "record", tabIndex: 0 });
  if ([...row.targets, ...row.tags].some((note) => note !== null)) place.classList.add("noted");
  let document = null;
  let part = null;
  row.pieces.forEach((piece, at) => {
    const number = row.documents[at];
    if (number !== document) {
      document = number;
      part = element("span", { className: "record-document", dir: "auto" });
      part.dataset.color = number ? (number - 1) % COLORS : "none";
      if (number) part.append(element("span", { className: "record-number", title: T.document(number) }, String(number)));
      place.append(part, " ");
    } else if (row.starts_word[at] || endsWithSpecial(row, at)) part.append(" ");
    part.append(makeToken(row, at, piece));
  });
  return place;
}

// Nothing continues a special token, except one that masks a piece of a word.
function endsWithSpecial(row, at) {
  return row.special[at - 1] && row.targets[at - 1] === null;
}

function makeToken(row, at, piece) {
  const [target, tag] = [row.targets[at], row.tags[at]];
  if (target !== null) {
    const input = element("small", piece);
    return element("mark", { className: "masked", title: T.masked(piece, target) }, element("b", target), input);
  }
  const classes = [row.special[at] ? "record-special" : "", row.given[at] ? "record-given" : ""];
  const token = element("span", { className: classes.join(" ").trim() }, piece);
  if (tag === null) return token;
  return element("span", { className: "tagged", title: T.tagged(piece, tag) }, token, element("small", tag));
}
