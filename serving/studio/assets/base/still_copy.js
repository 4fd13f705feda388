// Copies of what is shown, which need no script: canvases become images, and fields keep
// what is written in them.

const SHARP = 2;
const SIZED = ["width", "height", "display", "position", "inset", "imageRendering", "maxWidth"];

// A still copy of an element; what is hidden, and buttons that save, are left out.
export function copyStill(source) {
  const copy = source.cloneNode(true);
  for (const [shown, still] of pairElements(source, copy)) settle(shown, still);
  for (const still of copy.querySelectorAll("[hidden], script, .saves, .save-report, .copy, #token-form")) still.remove();
  return copy;
}

// All style sheets of the page, as text.
export async function fetchStyles() {
  const sheets = [...document.querySelectorAll("link[rel=stylesheet]")];
  const styles = await Promise.all(sheets.map(async ({ href }) => (await fetch(href)).text()));
  return styles.join("\n");
}

// The picture of an image, whose address means nothing elsewhere.
function draw(image) {
  const canvas = document.createElement("canvas");
  canvas.width = SHARP * image.naturalWidth;
  canvas.height = SHARP * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL();
}

function pairElements(source, copy) {
  const copies = copy.querySelectorAll("*");
  return [...source.querySelectorAll("*")].map((element, place) => [element, copies[place]]);
}

function settle(shown, still) {
  if (shown.localName === "canvas") {
    const image = document.createElement("img");
    for (const { name, value } of shown.attributes) {
      if (!["tabindex", "role", "width", "height", "style"].includes(name)) image.setAttribute(name, value);
    }
    // Style sheets size canvases by their name.
    const style = getComputedStyle(shown);
    for (const name of SIZED) image.style[name] = style[name];
    if (shown.width && shown.height) image.src = shown.toDataURL();
    image.alt = shown.ariaLabel ?? "";
    still.replaceWith(image);
  } else if (shown.localName === "img" && shown.naturalWidth) {
    still.src = draw(shown);
  } else if (shown.localName === "textarea") {
    still.textContent = shown.value;
    still.readOnly = true;
  } else if (shown.localName === "option") {
    still.toggleAttribute("selected", shown.selected);
  } else if (shown.localName === "button") {
    still.inert = true;
  } else if (["input", "select"].includes(shown.localName)) {
    if (shown.type === "checkbox" || shown.type === "radio") still.toggleAttribute("checked", shown.checked);
    else if (shown.localName === "input") still.setAttribute("value", shown.type === "file" ? "" : shown.value);
    still.disabled = true;
  }
}
