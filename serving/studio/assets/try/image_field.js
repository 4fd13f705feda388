// A field for the image that a model reads, with a small picture of it. The image stays
// in the page until another one is chosen: no link can hold it.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

export const IMAGE = "image_bytes";

const TYPES = "image/jpeg,image/png";

export class ImageField {
  // `changed()` is called when another image was chosen.
  constructor(changed) {
    this.content = ""; // of the file, as base64
    this.name = ""; // of the file
    this.changed = changed;
    this.input = element("input", { type: "file", accept: TYPES, required: true, name: IMAGE });
    this.input.addEventListener("change", () => this._read(this.input.files[0]));
    this.picture = element("img", { className: "chosen-image", alt: "", hidden: true });
    this.element = element("label", { className: "text" }, TEXT.inputs[IMAGE], this.input, this.picture);
  }

  async _read(file) {
    this.content = this.name = "";
    URL.revokeObjectURL(this.picture.src);
    this.picture.hidden = !file;
    if (file) {
      this.picture.src = URL.createObjectURL(file);
      this.picture.alt = TEXT.try.chosenImage(file.name);
      this.content = toBase64(new Uint8Array(await file.arrayBuffer()));
      this.name = file.name;
    }
    this.changed();
  }
}

function toBase64(bytes) {
  const parts = [];
  // A function takes no more arguments than some ten thousand.
  for (let at = 0; at < bytes.length; at += 8192) {
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  }
  return btoa(parts.join(""));
}
