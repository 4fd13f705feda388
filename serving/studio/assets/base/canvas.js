// Helpers for drawing on canvases.

import { rampIndex, rampTable } from "./colors.js";

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

// Sets the size of a canvas in CSS pixels, sharp on the screen; returns its context.
export function sizeCanvas(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// A canvas of one pixel for each weight.
export function mapPicture(weights, rows, columns, most, least = 0) {
  const table = rampTable();
  return paint(rows, columns, (at) => table[weights[at] < least ? 0 : rampIndex(weights[at], most)]);
}

// A canvas of pixels; `color` gives that of each place.
export function paint(rows, columns, color) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) pixels[at] = color(at);
  context.putImageData(image, 0, 0);
  return canvas;
}

// Shortens a label to a width.
export function fitText(context, label, width) {
  if (context.measureText(label).width <= width) return label;
  const characters = Array.from(label);
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const shown = `${characters.slice(0, middle).join("")}…`;
    if (context.measureText(shown).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${characters.slice(0, low).join("")}…`;
}

// A bar of the ramp with its numbers.
export function drawLegend(context, x, y, width, most, colors, caption) {
  const values = new Float32Array(width).map((_, at) => most * (at / (width - 1)) ** 2);
  const numbers = [0, 0.5, 1].map((share) => formatWeight(most * share ** 2));
  drawScale(context, x, y, mapPicture(values, 1, width, most), numbers, colors, caption);
}

// A bar of colors with the numbers at its beginning, middle and end.
export function drawScale(context, x, y, bar, numbers, colors, caption) {
  const { width } = bar;
  context.drawImage(bar, x, y, width, 9);
  context.strokeStyle = colors.border;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, 8);
  context.fillStyle = colors.faint;
  context.font = `11px ${FONT}`;
  context.textBaseline = "top";
  ["left", "center", "right"].forEach((align, at) => {
    context.textAlign = align;
    context.fillText(numbers[at], x + (at * width) / 2, y + 13);
  });
  context.textAlign = "left";
  if (caption) context.fillText(caption, x + width + 10, y);
}

export function formatWeight(weight) {
  if (weight === 0) return "0";
  return weight < 0.001 ? weight.toExponential(1) : weight.toPrecision(2);
}
