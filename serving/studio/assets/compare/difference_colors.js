// Colors of differences: blue where A has more, orange where B has more. People with any
// color vision can tell the two; both get darker (lighter in the dark theme) with size.

import { drawScale, formatWeight, paint } from "../base/canvas.js";
import { contrastsWithWhite, isDark, makeTable, tableColor } from "../base/colors.js";

const RAMPS = {
  light: ["#0a3a78", "#2f74b5", "#9cc4e4", "#ffffff", "#f6b98a", "#cf6a1b", "#7a2d00"],
  dark: ["#a5d0ff", "#4b8fd8", "#26466c", "#161b26", "#674020", "#d8812f", "#ffcb9a"],
};
// An odd number, so that one of them is the middle.
const STEPS = 257;
const MIDDLE = 128;
const TABLES = { light: makeTable(RAMPS.light, STEPS), dark: makeTable(RAMPS.dark, STEPS) };

const table = () => TABLES[isDark() ? "dark" : "light"];

// Index of a difference, on a square-root scale to both sides, from -most to most.
function index(difference, most) {
  if (!(most > 0)) return MIDDLE;
  const share = Math.min(1, Math.sqrt(Math.abs(difference) / most));
  return Math.round(MIDDLE * (1 + Math.sign(difference) * share));
}

export function differenceColor(difference, most) {
  return tableColor(table()[index(difference, most)]);
}

export function differenceNeedsLightText(difference, most) {
  return contrastsWithWhite(table()[index(difference, most)]);
}

// A canvas of one pixel for each difference.
export function differencePicture(differences, rows, columns, most) {
  const colors = table();
  return paint(rows, columns, (at) => colors[index(differences[at], most)]);
}

export function largest(differences) {
  let most = 0;
  for (const value of differences) most = Math.max(most, Math.abs(value));
  return most;
}

export function formatDifference(difference) {
  if (difference === 0) return "0";
  return `${difference < 0 ? "−" : "+"}${formatWeight(Math.abs(difference))}`;
}

// A bar of the ramp with its ends.
export function drawDifferenceLegend(context, x, y, width, most, colors, caption) {
  const values = Float32Array.from({ length: width }, (_, at) => {
    const share = (2 * at) / (width - 1) - 1;
    return most * Math.sign(share) * share * share;
  });
  const numbers = [-1, 0, 1].map((share) => formatDifference(most * share));
  drawScale(context, x, y, differencePicture(values, 1, width, most), numbers, colors, caption);
}
