// The parts of an analysis with their figures, which are fetched when they come in sight.

import { fetchRunFile } from "../base/api.js";
import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

const T = TEXT.runPage;

export class FiguresView {
  constructor(place, fail) {
    this.place = place;
    this.fail = fail;
    this.addresses = [];
    this.waiting = new Set(); // images that were not fetched yet
    this.observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) this._load(target);
      }
    }, { rootMargin: "400px" });
  }

  // Fetches also those that were not in sight.
  async loadAll() {
    await Promise.all([...this.waiting].map((image) => this._load(image)));
  }

  clear() {
    this.waiting.clear();
    this.observer.disconnect();
    for (const address of this.addresses) URL.revokeObjectURL(address);
    this.addresses = [];
  }

  // Makes the elements of the parts.
  parts(analysis, run, signal) {
    Object.assign(this, { run, signal });
    return analysis.parts.map((part) => {
      const section = element("section", { className: "analysis-part" }, element("h3", part.title));
      section.append(element("p", {}, element("bdi", part.summary)));
      const notes = [...part.notes, part.texts && T.madeOf(part.texts)].filter(Boolean);
      for (const note of notes) section.append(element("p", { className: "hint" }, element("bdi", note)));
      const figures = part.figures.map(({ file, caption }) => this.figure(file, caption || part.title, part.title));
      section.append(element("div", { className: "figures" }, ...figures));
      return section;
    });
  }

  // A picture of the run, with its caption.
  figure(file, caption, title) {
    const image = element("img", { alt: `${title}: ${caption}`, width: 640, height: 400 });
    image.dataset.file = file;
    this.observer.observe(image);
    this.waiting.add(image);
    return element("figure", { className: "run-figure" }, element("figcaption", caption), image);
  }

  async _load(image) {
    this.observer.unobserve(image);
    this.waiting.delete(image);
    try {
      // A page with an access token cannot name the picture's address.
      const blob = await fetchRunFile(this.run, image.dataset.file, this.signal);
      const address = URL.createObjectURL(blob);
      this.addresses.push(address);
      image.removeAttribute("height");
      image.src = address;
      await image.decode().catch(() => {}); // a damaged one stays empty
    } catch (error) {
      this.fail(error, image.parentElement);
    }
  }
}
