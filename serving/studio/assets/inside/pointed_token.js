// The token that is pointed at, in the text and in words.

import { formatWeight } from "../base/canvas.js";
import { state, thresholdWeight } from "../base/state.js";
import { TEXT } from "../base/strings.js";

// Colors the tokens by the weights of the one that is pointed at, and marks the held one.
export function colorPieces(pieces, rows, view, hover) {
  const { group } = hover;
  const spot = hover.spot();
  const none = new Set();
  const [own, other] = spot?.side === "key" ? [group.keys, group.queries] : [group.queries, group.keys];
  if (!spot) {
    for (const row of new Set([own, other])) pieces.color(row, null, 1, none);
    pieces.held(-1, none);
    return;
  }
  const { weights, queries, keys } = view;
  const units = spot.side === "query" ? keys : queries;
  const colored = new Float32Array(rows[other].tokens.length);
  let most = 0;
  units.forEach((unit, number) => {
    const place = spot.side === "query" ? spot.unit * keys.length + number : number * keys.length + spot.unit;
    const weight = weights[place] >= thresholdWeight() ? weights[place] : 0;
    most = Math.max(most, weight);
    for (const token of unit.tokens) colored[token] = weight;
  });
  const marked = new Set((spot.side === "query" ? queries : keys)[spot.unit].tokens);
  if (own === other) pieces.color(own, colored, most, marked);
  else {
    pieces.color(own, null, 1, marked);
    pieces.color(other, colored, most, none);
  }
  const held = state.held && hover.units[state.held.side].get(state.held.token);
  if (held === undefined || held === null) pieces.held(-1, none);
  else {
    const side = state.held.side === "query" ? queries : keys;
    const row = state.held.side === "query" ? group.queries : group.keys;
    pieces.held(row, new Set(side[held].tokens));
  }
}

// The weight of the pair that is pointed at: of a token alone, with its strongest one.
export function describePair(view, spot) {
  if (!spot) return "";
  const { weights, queries, keys } = view;
  const other = spot.other ?? strongestOf(view, spot);
  const [query, key] = spot.side === "query" ? [spot.unit, other] : [other, spot.unit];
  const weight = formatWeight(weights[query * keys.length + key]);
  return TEXT.pair(queries[query].label, keys[key].label, weight);
}

function strongestOf({ weights, queries, keys }, { side, unit }) {
  const count = side === "query" ? keys.length : queries.length;
  const place = (number) => (side === "query" ? unit * keys.length + number : number * keys.length + unit);
  let best = 0;
  for (let number = 1; number < count; number++) {
    if (weights[place(number)] > weights[place(best)]) best = number;
  }
  return best;
}
