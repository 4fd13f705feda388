// A canvas as wide as its place, drawn again when that changes.

import { sizeCanvas } from "./canvas.js";

export class PictureCanvas {
  // `height(width)` is 0 as long as there is nothing to draw.
  constructor(place, label, { height, draw }) {
    Object.assign(this, { place, height, draw });
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    place.append(this.canvas);
    new ResizeObserver(() => this.redraw()).observe(place);
  }

  redraw() {
    const width = this.place.clientWidth;
    const height = this.height(width);
    if (width && height) this.draw(sizeCanvas(this.canvas, width, height), width);
  }
}
