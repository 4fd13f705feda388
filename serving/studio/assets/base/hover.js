// The token that all views point at: under the pointer or the keyboard, or held.
//
// A spot is {side, unit, other}: a unit (a token or word) of the attending ("query") or
// attended ("key") side, and, for a cell of a map, the unit on the other side.

import { state } from "./state.js";

export class Hover {
  constructor(changed) {
    this.changed = changed;
    this.pointed = null;
  }

  // Must be called when the units change.
  show(group, view) {
    this.group = group;
    this.pointed = null;
    this.units = { query: unitOfToken(view.queries), key: unitOfToken(view.keys) };
    this.sides = { query: view.queries, key: view.keys };
  }

  spot() {
    if (this.pointed) return this.pointed;
    if (!state.held || !this.units) return null;
    const unit = this.units[state.held.side].get(state.held.token);
    return unit === undefined ? null : { side: state.held.side, unit };
  }

  point(spot) {
    const now = this.pointed;
    if (now && now.side === spot.side && now.unit === spot.unit && now.other === spot.other) return;
    this.pointed = spot;
    this.changed();
  }

  // A token of a row, as the other views' side of it.
  pointToken(row, place) {
    if (!this.units) return;
    let side = row === this.group.queries ? "query" : "key";
    if (this.group.queries === this.group.keys) side = state.direction === "to" ? "query" : "key";
    const unit = this.units[side].get(place);
    if (unit === undefined) this.leave();
    else this.point({ side, unit });
  }

  leave() {
    if (!this.pointed) return;
    this.pointed = null;
    this.changed();
  }

  // Holds what is pointed at, or lets it go if it is held.
  hold() {
    if (!this.pointed) return;
    const { side, unit } = this.pointed;
    const token = this.sides[side][unit].tokens[0];
    const same = state.held && state.held.side === side && this.units[side].get(state.held.token) === unit;
    state.held = same ? null : { side, token };
    this.changed(true);
  }

  release() {
    state.held = null;
    this.pointed = null;
    this.changed(true);
  }

  key(event) {
    if (event.key === "Enter" || event.key === " ") this.hold();
    else if (event.key === "Escape") this.release();
    else return;
    event.preventDefault();
  }
}

function unitOfToken(units) {
  const found = new Map();
  units.forEach((unit, at) => unit.tokens.forEach((token) => found.set(token, at)));
  return found;
}
