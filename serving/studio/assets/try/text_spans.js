// Parts of a text, in colors.

import { element } from "../base/dom.js";

const COLORS = 8;
// The tag of words that are no part of anything.
const OUTSIDE = "O";

// The text with some spans of it made to elements; offsets count code points.
export function markSpans(text, spans, make) {
  const characters = Array.from(text);
  const found = [];
  let place = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.end <= span.start || span.start < place) continue;
    found.push(characters.slice(place, span.start).join(""));
    found.push(make(characters.slice(span.start, span.end).join(""), span));
    place = span.end;
  }
  found.push(characters.slice(place).join(""));
  return found;
}

// A text whose tagged spans have a color and their tag, and the legend of the colors.
export function taggedText(text, spans) {
  const shown = spans.filter(({ tag }) => tag !== OUTSIDE);
  const tags = [...new Set(shown.map(({ tag }) => tag))].sort();
  const color = (tag) => `tag tag-${tags.indexOf(tag) % COLORS}`;
  const marked = markSpans(text, shown, (part, { tag }) =>
    element("mark", { className: color(tag) }, part, element("small", tag)),
  );
  const legend = tags.map((tag) => {
    const count = shown.filter((span) => span.tag === tag).length;
    return element("li", { className: color(tag) }, tag, element("small", String(count)));
  });
  const place = element("p", { className: "answer-text tagged", dir: "auto" }, ...marked);
  return tags.length ? [place, element("ul", { className: "legend" }, ...legend)] : [place];
}
