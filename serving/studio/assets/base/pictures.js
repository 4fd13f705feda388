// Saves a view as a picture, with a title and the text.

import { FONT, fitText } from "./canvas.js";
import { themeColors } from "./colors.js";
import { element } from "./dom.js";
import { TEXT } from "./strings.js";
import { SvgContext } from "./svg_context.js";

const WIDTH = 1100;
const MARGIN = 24;
const HEAD = 62;
// Browsers refuse larger canvases.
const MOST_HEIGHT = 16000;

export async function savePicture(kind, view, title, caption) {
  const name = `${title}.${kind}`;
  const inner = WIDTH - 2 * MARGIN;
  const height = Math.min(MOST_HEIGHT, HEAD + Math.ceil(view.drawWhole(new SvgContext(), inner)) + MARGIN);
  if (kind === "svg") {
    const context = new SvgContext();
    draw(context, view, height, title, caption);
    download(new Blob([context.toString(WIDTH, height)], { type: "image/svg+xml" }), name);
    return;
  }
  const ratio = height > MOST_HEIGHT / 2 ? 1 : 2;
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  draw(context, view, height, title, caption);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  download(blob, name);
}

function draw(context, view, height, title, caption) {
  const colors = themeColors();
  context.fillStyle = colors.panel;
  context.fillRect(0, 0, WIDTH, height);
  context.fillStyle = colors.text;
  context.textBaseline = "top";
  context.font = `18px ${FONT}`;
  context.fillText(title, MARGIN, 16);
  context.fillStyle = colors.faint;
  context.font = `13px ${FONT}`;
  context.fillText(fitText(context, caption, WIDTH - 2 * MARGIN), MARGIN, 40);
  context.save();
  context.translate(MARGIN, HEAD);
  view.drawWhole(context, WIDTH - 2 * MARGIN);
  context.restore();
}

// Buttons that save a view: `save` gets the kind of the picture. With several on a page
// `subject` says whose they are.
export function saveButtons(save, subject = "") {
  return ["png", "svg"].map((kind) => {
    const title = TEXT.saveAs(kind.toUpperCase());
    const button = element("button", { type: "button", title, data: { kind } }, kind.toUpperCase());
    button.setAttribute("aria-label", subject ? `${subject}: ${title}` : title);
    button.addEventListener("click", () => save(kind));
    return button;
  });
}

// Saves a file; its name may be any text.
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
