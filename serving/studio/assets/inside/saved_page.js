// Saves a page as one HTML file that works by itself, without a server or a network.
//
// The file has this page's own style sheet and modules, and the server's answers that
// the page needs. Modules cannot import each other from a file, so they are in an
// import map, as data.

import { fetchAnswer } from "../base/api.js";
import { download } from "../base/pictures.js";

const IMPORT = /(\bfrom |^import )"(\.[\w./]+)"/gm;
const START = "main.js";
const STYLE = "style";

// `paths` are requests of the API, the answers to which are saved; `given` are answers
// that the page has already.
export async function savePage(name, paths, given) {
  const saved = { hash: location.hash, answers: {} };
  for (const [path, body] of Object.entries(given)) {
    saved.answers[path] = { status: 200, body: encode(JSON.stringify(body)) };
  }
  for (const path of paths) {
    const { status, bytes } = await fetchAnswer(path);
    saved.answers[path] = { status, body: encodeBytes(bytes) };
  }
  const html = await fetchText(location.pathname);
  const page = new DOMParser().parseFromString(html, "text/html");
  page.documentElement.dataset.theme = document.documentElement.dataset.theme;
  const icon = `data:image/svg+xml;base64,${encode(await fetchText("icon.svg"))}`;
  for (const image of page.querySelectorAll("img")) image.src = icon;
  page.querySelector("link[rel=icon]").href = icon;
  const sheets = [...page.querySelectorAll("link[rel=stylesheet]")];
  const styles = await Promise.all(sheets.map((sheet) => fetchText(sheet.getAttribute("href"))));
  sheets[0].replaceWith(page.createComment(STYLE));
  for (const sheet of sheets.slice(1)) sheet.remove();
  page.querySelector("script").replaceWith(
    script(page, "application/json", saved, "saved"),
    script(page, "importmap", { imports: await fetchModules() }),
    Object.assign(page.createElement("script"), { type: "module", textContent: `import "studio/${START}";` }),
  );
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content =
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";
  page.head.prepend(policy);
  // As text: this page's own policy forbids to make an inline style.
  const style = `<style>\n${styles.join("\n")}</style>`;
  const inner = page.documentElement.outerHTML.replace(`<!--${STYLE}-->`, () => style);
  const text = `<!doctype html>\n${inner}\n`;
  download(new Blob([text], { type: "text/html" }), `${name}.html`);
}

// All modules that the first one needs, by the names that they are imported by.
async function fetchModules() {
  const found = {};
  const names = [START];
  for (const name of names) {
    const resolve = (path) => new URL(path, `file:///${name}`).pathname.slice(1);
    const text = await fetchText(name);
    const renamed = text.replace(IMPORT, (_, before, path) => {
      const other = resolve(path);
      if (!names.includes(other)) names.push(other);
      return `${before}"studio/${other}"`;
    });
    found[`studio/${name}`] = `data:text/javascript;base64,${encode(renamed)}`;
  }
  return found;
}

async function fetchText(path) {
  return (await fetch(path)).text();
}

function script(page, type, content, id = "") {
  // A text must not end the script.
  const textContent = JSON.stringify(content).replaceAll("<", "\\u003c");
  return Object.assign(page.createElement("script"), { type, id, textContent });
}

function encode(text) {
  return encodeBytes(new TextEncoder().encode(text));
}

function encodeBytes(bytes) {
  let characters = "";
  // More arguments than that are refused.
  for (let at = 0; at < bytes.length; at += 8192) {
    characters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(characters);
}
