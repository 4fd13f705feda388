// Saves a part of the page that is made of elements, such as a table, as a picture.
//
// The picture is an SVG with the elements and the page's style sheets in it. Programs
// for drawings may not show such parts of an SVG; browsers do.

import { themeColors, themeName } from "./colors.js";
import { element } from "./dom.js";
import { download, saveButtons } from "./pictures.js";
import { fail } from "./shell.js";
import { state } from "./state.js";
import { copyStill, fetchStyles } from "./still_copy.js";

const MARGIN = 16;
const SCALE = 2;
// Characters that a text may have, and an SVG may not.
const NO_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
// The element alone, in nothing that has a size or a color of its own.
const OWN_STYLE = `.saved-element { padding: ${MARGIN}px; background: none; }
.saved-element .saved-around { all: unset; display: block; }`;

// Buttons that save `shown()`, an element; `subject` says what that is.
export function elementButtons(shown, subject) {
  const save = (kind) => saveElement(kind, shown(), `${state.run}: ${subject}`).catch(fail);
  return element("span", { className: "saves" }, ...saveButtons(save, subject));
}

async function saveElement(kind, shown, title) {
  const width = Math.ceil(shown.scrollWidth) + 2 * MARGIN;
  const height = Math.ceil(shown.scrollHeight) + 2 * MARGIN;
  const svg = await drawElement(shown, width, height);
  const name = `${title}.${kind}`;
  if (kind === "svg") return download(new Blob([svg], { type: "image/svg+xml" }), name);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * SCALE;
  canvas.height = height * SCALE;
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  context.drawImage(image, 0, 0);
  download(await new Promise((done) => canvas.toBlob(done, "image/png")), name);
}

async function drawElement(shown, width, height) {
  // In elements like those that it stands in, for the sake of the style sheets.
  let inner = copyStill(shown);
  for (let around = shown.parentElement; around !== document.body; around = around.parentElement) {
    const copy = around.cloneNode(false);
    copy.removeAttribute("style");
    copy.classList.add("saved-around");
    copy.append(inner);
    inner = copy;
  }
  const body = new XMLSerializer().serializeToString(inner).replace(NO_XML, "\ufffd");
  const styles = (await fetchStyles()).replaceAll("]]>", "");
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" data-theme="${themeName()}">` +
    `<style><![CDATA[${styles}\n${OWN_STYLE}]]></style>` +
    `<rect width="100%" height="100%" fill="${themeColors().panel}"/>` +
    `<foreignObject width="${width}" height="${height}">` +
    `<body xmlns="http://www.w3.org/1999/xhtml" class="saved-element">${body}</body>` +
    `</foreignObject></svg>`
  );
}
