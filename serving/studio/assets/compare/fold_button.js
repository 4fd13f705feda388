// The button that shows all of a view's items, or only the first ones again.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

// For a view with `place`, `isWhole` and `draw()`.
export function foldButton(view, count) {
  const text = view.isWhole ? TEXT.compare.fewer : TEXT.compare.all(count);
  const button = element("button", { type: "button", className: "fold" }, text);
  button.addEventListener("click", () => {
    view.isWhole = !view.isWhole;
    view.draw();
    view.place.querySelector("button.fold").focus();
  });
  return button;
}
