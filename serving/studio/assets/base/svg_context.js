// The part of a canvas's drawing context that the views use, written as SVG.

const NAMES = { left: "start", center: "middle", right: "end" };
const SHIFTS = { top: "0.8em", middle: "0.35em", alphabetic: "0" };

export class SvgContext {
  constructor() {
    this.parts = [];
    this.transforms = [];
    this.depths = [];
    this.path = "";
    this.measuring = document.createElement("canvas").getContext("2d");
    Object.assign(this, {
      fillStyle: "#000",
      strokeStyle: "#000",
      globalAlpha: 1,
      lineWidth: 1,
      lineCap: "butt",
      font: "12px sans-serif",
      textAlign: "left",
      textBaseline: "alphabetic",
      imageSmoothingEnabled: true,
    });
  }

  measureText(text) {
    this.measuring.font = this.font;
    return this.measuring.measureText(text);
  }

  save() {
    this.depths.push(this.transforms.length);
  }

  restore() {
    this.transforms.length = this.depths.pop() ?? 0;
  }

  translate(x, y) {
    this.transforms.push(`translate(${short(x)} ${short(y)})`);
  }

  rotate(angle) {
    this.transforms.push(`rotate(${short((angle * 180) / Math.PI)})`);
  }

  fillRect(x, y, width, height) {
    this._add("rect", { ...box(x, y, width, height), fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this._add("rect", { ...box(x, y, width, height), fill: "none", ...this._stroke() });
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${short(x)} ${short(y)}`;
  }

  closePath() {
    this.path += "Z";
  }

  fill() {
    this._add("path", { d: this.path, fill: this.fillStyle });
  }

  bezierCurveTo(...places) {
    this.path += `C${places.map(short).join(" ")}`;
  }

  stroke() {
    this._add("path", { d: this.path, fill: "none", ...this._stroke(), "stroke-linecap": this.lineCap });
  }

  fillText(text, x, y) {
    const [, size, family] = /([\d.]+px) (.*)/.exec(this.font);
    this._add(
      "text",
      {
        x: short(x),
        y: short(y),
        dy: SHIFTS[this.textBaseline],
        fill: this.fillStyle,
        "font-size": size,
        "font-family": family,
        "text-anchor": NAMES[this.textAlign],
      },
      text,
    );
  }

  drawImage(canvas, x, y, width, height) {
    this._add("image", {
      ...box(x, y, width, height),
      href: canvas.toDataURL("image/png"),
      preserveAspectRatio: "none",
      style: this.imageSmoothingEnabled ? undefined : "image-rendering: pixelated",
    });
  }

  toString(width, height) {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ` +
      `width="${width}" height="${height}">\n${this.parts.join("\n")}\n</svg>\n`
    );
  }

  _stroke() {
    return { stroke: this.strokeStyle, "stroke-width": short(this.lineWidth) };
  }

  _add(name, attributes, text) {
    const all = { ...attributes };
    if (this.globalAlpha !== 1) all.opacity = short(this.globalAlpha);
    if (this.transforms.length) all.transform = this.transforms.join(" ");
    const written = Object.entries(all)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ` ${key}="${escape(String(value))}"`)
      .join("");
    this.parts.push(text === undefined ? `<${name}${written}/>` : `<${name}${written}>${escape(text)}</${name}>`);
  }
}

function box(x, y, width, height) {
  return { x: short(x), y: short(y), width: short(width), height: short(height) };
}

function short(value) {
  return String(Math.round(value * 100) / 100);
}

function escape(text) {
  return text
    .replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}
