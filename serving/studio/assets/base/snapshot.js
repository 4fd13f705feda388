// Saves a page as it is shown, as one HTML file that needs no script, server or network.

import { themeName } from "./colors.js";
import { element } from "./dom.js";
import { download } from "./pictures.js";
import { copyStill, fetchStyles } from "./still_copy.js";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const LEFT_OUT = ".skip, nav, .bar-tools, footer, link[rel=stylesheet], link[rel=icon]";

export async function saveSnapshot(title) {
  const page = copyStill(document.documentElement);
  for (const each of page.querySelectorAll(LEFT_OUT)) each.remove();
  page.dataset.theme = themeName();
  page.querySelector("title").textContent = title;
  page.querySelector("head").prepend(element("meta", { httpEquiv: "Content-Security-Policy", content: POLICY }));
  // As text: this page's own policy forbids to make an inline style.
  const style = `<style>\n${await fetchStyles()}</style></head>`;
  const text = `<!doctype html>\n${page.outerHTML.replace("</head>", () => style)}\n`;
  download(new Blob([text], { type: "text/html" }), `${title}.html`);
}
