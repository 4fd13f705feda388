// Color ramps. Lightness is monotone in both, so they can be read by people with any
// color vision, and in gray.

const RAMPS = {
  // The background of a light panel to a deep blue.
  light: ["#ffffff", "#e3eef6", "#b9d9e6", "#7fbcd2", "#4497bb", "#23709f", "#154c7f", "#0c2d57"],
  // The background of a dark panel to a light yellow, like cividis.
  dark: ["#161b26", "#1b2f55", "#35456c", "#575d6d", "#7d7a72", "#a69d6e", "#d3c35c", "#fee95a"],
};
const STEPS = 256;

function parse(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

// Colors of a ramp, as pixels.
export function makeTable(anchors, steps = STEPS) {
  const colors = anchors.map(parse);
  const found = new Uint32Array(steps);
  for (let step = 0; step < steps; step++) {
    const place = (step / (steps - 1)) * (colors.length - 1);
    const below = Math.min(Math.floor(place), colors.length - 2);
    const share = place - below;
    const [r, g, b] = colors[below].map((value, channel) =>
      Math.round(value + share * (colors[below + 1][channel] - value)),
    );
    found[step] = (255 << 24) | (b << 16) | (g << 8) | r; // bytes r, g, b, a
  }
  return found;
}

const TABLES = { light: makeTable(RAMPS.light), dark: makeTable(RAMPS.dark) };

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen !== "auto") return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// The color table of the current theme, for `rampIndex`.
export function rampTable() {
  return TABLES[isDark() ? "dark" : "light"];
}

// Index of a weight in a ramp, on a square-root scale up to `most`.
export function rampIndex(weight, most) {
  return most > 0 ? Math.min(255, Math.round(255 * Math.sqrt(weight / most))) : 0;
}

export function rampColor(weight, most) {
  return tableColor(rampTable()[rampIndex(weight, most)]);
}

// A color of a table, as CSS has it.
export function tableColor(color) {
  return `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
}

// Whether text on a color of the ramp has to be light.
export function needsLightText(weight, most) {
  return contrastsWithWhite(rampTable()[rampIndex(weight, most)]);
}

export function contrastsWithWhite(color) {
  const linear = [color & 255, (color >> 8) & 255, (color >> 16) & 255].map((value) =>
    value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  // At this luminance white and black have the same contrast, 4.6 (WCAG 2.2).
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] < 0.179;
}

// Colors of the theme, from the style sheet.
export function themeColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: color("text"),
    faint: color("faint"),
    panel: color("panel"),
    line: color("line"),
    against: color("against"),
    accent: color("accent"),
    mark: color("mark"),
    border: color("border"),
    sideA: color("side-a"),
    sideB: color("side-b"),
  };
}

// Changes with the theme, so that pictures of another one can be told.
export function themeName() {
  return isDark() ? "dark" : "light";
}
