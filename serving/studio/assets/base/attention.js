// Attention maps of an inspection, and what is computed of them.

import { fetchLayer, fetchOverview } from "./api.js";
import { decodeHalfFloats } from "./half_floats.js";

// Decoded layers that are kept: 13 MB each for 12 heads and 512 tokens.
const KEPT = 6;

export class AttentionMaps {
  constructor(inspection) {
    this.inspection = inspection;
    this._layers = new Map();
    this._overviews = new Map();
  }

  // Float32Array (heads, queries, keys) of a layer.
  layer(path) {
    let found = this._layers.get(path);
    if (!found) {
      found = fetchLayer(this.inspection.key, path).then(decodeHalfFloats);
      found.catch(() => this._layers.delete(path));
    }
    this._layers.delete(path);
    this._layers.set(path, found);
    if (this._layers.size > KEPT) this._layers.delete(this._layers.keys().next().value);
    return found;
  }

  // Float32Array (layers, heads, rows, columns) of a group's small maps.
  overview(group) {
    let found = this._overviews.get(group.name);
    if (!found) {
      found = fetchOverview(this.inspection.key, group.name).then(decodeHalfFloats);
      found.catch(() => this._overviews.delete(group.name));
      this._overviews.set(group.name, found);
    }
    return found;
  }
}

// One map of a layer: that of a head, or the mean or maximum of all heads.
export function combineHeads(maps, heads, head) {
  const size = maps.length / heads;
  if (typeof head === "number") return maps.subarray(head * size, (head + 1) * size);
  const found = maps.slice(0, size);
  for (let number = 1; number < heads; number++) {
    const start = number * size;
    if (head === "max") {
      for (let at = 0; at < size; at++) if (maps[start + at] > found[at]) found[at] = maps[start + at];
    } else {
      for (let at = 0; at < size; at++) found[at] += maps[start + at];
    }
  }
  if (head === "mean") for (let at = 0; at < size; at++) found[at] /= heads;
  return found;
}

const PUNCTUATION = /^[\p{P}\p{S}\s]+$/u;

// The tokens of a row, or its words, as units with a label; without `special` tokens or
// `punctuation` if these are false, unless nothing would be left.
export function makeUnits(row, { words, special, punctuation }) {
  const units = [];
  row.tokens.forEach((token, place) => {
    if (token.special && !special) return;
    const last = units.at(-1);
    if (words && last && !token.special && last.word === token.word) {
      last.tokens.push(place);
      last.label += tokenText(row, token);
      last.text += tokenText(row, token);
    } else {
      // The first word of a text begins one, though byte-level BPE has no space before it.
      const piece = token.start === 0 ? withoutMark(token.piece) : token.piece;
      const label = words ? tokenText(row, token) : piece;
      const text = tokenText(row, token);
      units.push({ label, text, tokens: [place], word: token.word, special: token.special });
    }
  });
  for (const unit of units) unit.label = readable(unit.label);
  const kept = punctuation ? units : units.filter((unit) => unit.special || !PUNCTUATION.test(unit.text));
  return kept.length ? kept : units;
}

// The characters of a token as they stand in the text; its piece if it has none.
export function tokenText(row, token) {
  if (token.start === null || token.end <= token.start) {
    return token.special ? token.piece : withoutMark(token.piece);
  }
  row.characters ??= row.texts.map((text) => Array.from(text)); // offsets are code points
  return row.characters[token.text].slice(token.start, token.end).join("");
}

// Of a piece that continues a word, without what marks it.
function withoutMark(piece) {
  return piece.replace(/^##(?=.)/u, "");
}

// Shows spaces and line breaks, and keeps other invisible and direction-changing
// characters out of labels.
export function readable(label) {
  return (label.trim() || label)
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥")
    .replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
    .replace(/^\s+$/u, "␣");
}

// Weights between units: a sum over the pieces of the attended unit, and a mean over
// those of the attending one (Clark et al., 2019, section 4.1).
export function mergeUnits(map, columns, queries, keys) {
  const found = new Float32Array(queries.length * keys.length);
  let most = 0;
  queries.forEach((query, row) => {
    for (const token of query.tokens) {
      const start = token * columns;
      for (let column = 0; column < keys.length; column++) {
        let sum = 0;
        for (const key of keys[column].tokens) sum += map[start + key];
        found[row * keys.length + column] += sum / query.tokens.length;
      }
    }
  });
  for (const value of found) if (value > most) most = value;
  return { weights: found, most, queries, keys };
}

// The strongest weights from `least` on: [{query, key, weight}], the strongest first.
export function strongest(view, least, count, hover = null) {
  const { weights, queries, keys } = view;
  const found = [];
  const width = keys.length;
  const consider = (at) => {
    if (weights[at] >= least && weights[at] > 0) found.push(at);
  };
  if (hover?.side === "query" && hover.unit >= 0) {
    for (let key = 0; key < width; key++) consider(hover.unit * width + key);
  } else if (hover?.side === "key" && hover.unit >= 0) {
    for (let query = 0; query < queries.length; query++) consider(query * width + hover.unit);
  } else {
    for (let at = 0; at < weights.length; at++) consider(at);
  }
  const all = found.length;
  // Only weights that may be among the strongest are sorted.
  const kept = all > count ? atLeast(found, weights, count) : found;
  kept.sort((one, other) => weights[other] - weights[one]);
  const edges = kept.slice(0, count).map((at) => ({
    query: Math.floor(at / width),
    key: at % width,
    weight: weights[at],
  }));
  return { edges, all };
}

// Drops places whose weights are surely not among the `count` largest, by a histogram.
function atLeast(places, weights, count) {
  const bins = 1024;
  const histogram = new Uint32Array(bins + 1);
  const bin = (at) => Math.floor(Math.sqrt(Math.min(1, weights[at])) * bins);
  for (const at of places) histogram[bin(at)]++;
  let least = bins;
  for (let seen = histogram[bins]; least > 0 && seen < count; ) seen += histogram[--least];
  return places.filter((at) => bin(at) >= least);
}
