// Bars of probabilities, with their labels and numbers.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

const SHOWN = 10;

// A list of {label, share, chosen?, choose?}: `share` is 0 to 1; with `choose` the label
// is a button. All after the first ten are folded away.
export function bars(rows, label) {
  const made = rows.map(bar);
  const place = element("div", {}, list(made.slice(0, SHOWN), label));
  if (rows.length > SHOWN) {
    const more = element("summary", TEXT.try.more(rows.length - SHOWN));
    place.append(element("details", {}, more, list(made.slice(SHOWN), label)));
  }
  return place;
}

function list(items, label) {
  const made = element("ol", { className: "bars" }, ...items);
  made.setAttribute("aria-label", label);
  return made;
}

function bar({ label, share, chosen, choose }) {
  const filled = element("span");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const track = element("span", { className: "track" }, filled);
  track.setAttribute("aria-hidden", "true");
  const name = choose
    ? element("button", { type: "button", className: "label", onclick: choose }, label)
    : element("span", { className: "label", dir: "auto" }, label);
  if (choose) name.setAttribute("aria-pressed", String(Boolean(chosen)));
  const item = element("li", {}, name, track, element("span", { className: "share" }, TEXT.try.share(share)));
  if (chosen) item.className = "chosen";
  return item;
}

// Name and number of each of some facts.
export function numbers(rows) {
  const made = element("dl", { className: "numbers" });
  for (const [name, value] of rows) {
    made.append(element("div", {}, element("dt", name), element("dd", value)));
  }
  return made;
}
