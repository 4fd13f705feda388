// The page: runs, navigation, access token and theme; each page has a module of its own.

import { fetchRuns, setToken } from "./base/api.js";
import { at, element, fill } from "./base/dom.js";
import { clearError, fail, say } from "./base/shell.js";
import { readHash, state, writeHash } from "./base/state.js";
import { TEXT } from "./base/strings.js";
import { comparePage } from "./compare/compare_page.js";
import { insidePage } from "./inside/inside_page.js";
import { runPage } from "./run/run_page.js";
import { tryPage } from "./try/try_page.js";

// Each has `build()`, once; `open(run, runs)` when it is shown or the run changes; `close()`;
// `forget()` of the state that belongs to a run; `redraw()` in another theme; and `save()`
// of the page as one file.
const PAGES = { try: tryPage, inside: insidePage, compare: comparePage, run: runPage };
const THEME = "transbeam-theme";

let runs = [];

async function start() {
  writeTexts();
  setTheme(readTheme());
  readHash();
  if (!PAGES[state.page]) state.page = "inside";
  for (const page of Object.values(PAGES)) page.build();
  bind();
  await loadRuns();
}

async function loadRuns() {
  say(TEXT.reading);
  try {
    runs = await fetchRuns();
  } catch (error) {
    return fail(error);
  }
  at("token-form").hidden = true;
  say(runs.length ? "" : TEXT.noRuns);
  if (!runs.length) return;
  fill(at("run"), runs.map((run) => [run.name, run.name]), state.run);
  await open();
}

function currentRun() {
  return runs.find((run) => run.name === at("run").value);
}

// Opens the page of the state with the chosen run.
async function open() {
  const run = currentRun();
  state.run = run.name;
  at("facts").replaceChildren(...TEXT.facts(run).map((fact) => element("li", fact)));
  for (const link of at("pages").children) {
    const chosen = link.dataset.page === state.page;
    at(`page-${link.dataset.page}`).hidden = !chosen;
    if (chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  clearError();
  writeHash();
  at("save-page").hidden = false;
  await PAGES[state.page].open(run, runs);
}

// --- Events -------------------------------------------------------------------------

function bind() {
  at("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(at("token").value.trim());
    clearError();
    loadRuns();
  });
  at("run").addEventListener("change", () => {
    state.texts = {};
    for (const page of Object.values(PAGES)) page.forget();
    open();
  });
  at("pages").addEventListener("click", (event) => {
    const name = event.target.closest("a")?.dataset.page;
    if (!name || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (!runs.length || name === state.page) return;
    PAGES[state.page].close();
    state.page = name;
    open();
  });
  at("copy-link").addEventListener("click", copyLink);
  at("save-page").addEventListener("click", () => PAGES[state.page].save().catch(fail));
  at("theme").addEventListener("change", () => {
    setTheme(at("theme").value);
    PAGES[state.page].redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => PAGES[state.page].redraw());
}

async function copyLink() {
  const isWhole = writeHash();
  try {
    await navigator.clipboard.writeText(location.href);
    say(isWhole ? TEXT.copied : TEXT.copiedWithoutText);
  } catch {
    say(TEXT.notCopied);
  }
}

function readTheme() {
  try {
    return localStorage.getItem(THEME) ?? "auto";
  } catch {
    return "auto";
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").value = name;
  try {
    localStorage.setItem(THEME, name);
  } catch {
    // It is then chosen anew each time.
  }
}

function writeTexts() {
  for (const place of document.querySelectorAll("[data-text]")) {
    place.textContent = TEXT[place.dataset.text];
  }
  for (const place of document.querySelectorAll("[data-hint]")) {
    place.title = TEXT[place.dataset.hint];
  }
  fill(at("theme"), Object.entries(TEXT.themes), "auto");
  at("pages").setAttribute("aria-label", TEXT.pagesLabel);
  for (const name of Object.keys(PAGES)) {
    at("pages").append(element("a", { href: `#page=${name}`, data: { page: name } }, TEXT.pages[name]));
  }
}

start();
