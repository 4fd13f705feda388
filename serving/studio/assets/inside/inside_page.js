// Looks inside a model: shows the views of one text, and keeps them together.

import { inspect, PATHS } from "../base/api.js";
import { AttentionMaps, combineHeads, makeUnits, mergeUnits } from "../base/attention.js";
import { formatWeight } from "../base/canvas.js";
import { themeName } from "../base/colors.js";
import { at, element, fill, readTexts, textFields } from "../base/dom.js";
import { Hover } from "../base/hover.js";
import { MapView } from "../base/map_view.js";
import { OverviewView } from "../base/overview_view.js";
import { elementButtons } from "../base/element_picture.js";
import { saveButtons, savePicture } from "../base/pictures.js";
import { isSaved } from "../base/saved_answers.js";
import { clearError, fail, say } from "../base/shell.js";
import { state, thresholdWeight, writeHash } from "../base/state.js";
import { TEXT } from "../base/strings.js";
import { FlowView } from "./flow_view.js";
import { LensView } from "./lens_view.js";
import { LinesView } from "./lines_view.js";
import { NumbersView } from "./numbers_view.js";
import { PiecesView } from "./pieces_view.js";
import { colorPieces, describePair } from "./pointed_token.js";
import { QueryKeyView } from "./query_key_view.js";
import { RadarView } from "./radar_view.js";
import { savePage } from "./saved_page.js";
import { StagesView } from "./stages_view.js";
import { TreeView } from "./tree_view.js";

const MOST_SAVED = 32e6; // bytes of maps in a saved page

let shownRun = null;
let maps = null; // AttentionMaps of the current inspection
let view = null; // the merged map that is shown
let asking = null; // AbortController
let drawn = 0; // number of the last rendering, so that older ones are dropped

// Several movements of the pointer within a frame are drawn once.
let waiting = false;
const hover = new Hover((held) => {
  if (held) {
    writeHash();
    if (state.view === "score") score.hold();
  }
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawHover();
  });
});
const pieces = new PiecesView(at("pieces"), hover);
const lines = new LinesView(at("panel-lines"), hover);
const map = new MapView(at("panel-map"), hover);
const tree = new TreeView(at("panel-tree"), hover, () => changed());
const radar = new RadarView(at("panel-radar"));
const score = new QueryKeyView(at("panel-score"), hover);
const views = { lines, map, tree, radar, score };
const stages = new StagesView(at("stages-view"));
const lens = new LensView(at("lens-view"), hover);
const flow = new FlowView(at("flow-view"), hover);
const numbers = new NumbersView(at("numbers"), hover);
const overview = new OverviewView(at("overview"), (layer, head) => {
  Object.assign(state, { layer, head });
  changed();
});

// --- The page -----------------------------------------------------------------------

export const insidePage = {
  build() {
    writeTexts();
    bind();
  },

  async open(run) {
    at("save-page").hidden = true; // until there is something
    at("no-maps").hidden = run.has_maps;
    at("no-maps").textContent = run.has_maps ? "" : TEXT.noMaps(run.why_no_maps);
    at("look").disabled = !run.has_maps || isSaved;
    shownRun = run;
    if (!run.has_maps) {
      at("views").hidden = true;
      at("texts").replaceChildren();
      return say("");
    }
    at("texts").replaceChildren(...textFields(at("ask"), run, run.inputs, state.texts));
    await look();
  },

  close() {
    asking?.abort();
  },

  // Another run has other layers.
  forget() {
    Object.assign(state, { held: null, group: "", layer: 0, head: 0, chosen: false, from: 0, to: null });
  },

  save: saveInside,

  redraw() {
    overview.key = null;
    changed();
    lens.draw();
  },
};

async function look() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  Object.assign(state.texts, readTexts(at("texts")));
  clearError();
  at("ask").setAttribute("aria-busy", "true");
  say(TEXT.loading);
  try {
    const found = await inspect(state.run, readTexts(at("texts")), signal);
    maps = new AttentionMaps(found);
    const tokens = found.rows.reduce((sum, row) => sum + row.tokens.length, 0);
    const done = isSaved ? TEXT.savedNotice(state.run) : TEXT.done(tokens, found.seconds);
    say(done + (found.truncated ? TEXT.truncated(found.limit) : ""));
    at("views").hidden = false;
    at("save-page").hidden = isSaved;
    await changed();
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    if (asking?.signal === signal) at("ask").removeAttribute("aria-busy");
  }
}

// --- The views ----------------------------------------------------------------------

function currentGroup() {
  const { groups } = maps.inspection;
  return groups.find((group) => group.name === state.group) ?? groups[0];
}

// Shows the state; the state is made possible for the inspection first.
async function changed() {
  if (!maps) return;
  const group = currentGroup();
  state.group = group.name;
  const last = group.layers.length - 1;
  state.layer = Math.min(state.layer, last);
  state.to = Math.min(state.to ?? last, last);
  state.from = Math.min(state.from, state.to);
  const layer = group.layers[state.layer];
  if (typeof state.head === "number") state.head = Math.min(state.head, layer.heads - 1);
  if (state.metric !== "maps" && !TEXT.metrics[state.metric]) state.metric = "maps";
  showSelection(group, layer);
  if (state.to === last) state.to = null; // the default, which is left out of links
  writeHash();
  const number = ++drawn;
  try {
    await Promise.all([showOverview(group, number), showOne(group, layer, number)]);
    if (number !== drawn) return;
    await Promise.all([showStages(), showLens(), showFlow(group)]);
    document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
  } catch (error) {
    // The server has made room for later texts: once more.
    if (error.status === 404) await look();
    else fail(error);
  }
}

function showSelection(group, layer) {
  const { groups, rows } = maps.inspection;
  at("group-field").hidden = groups.length === 1;
  fill(at("group"), groups.map(({ name }) => [name, TEXT.groups[name]]), group.name);
  const layers = group.layers.map((_, number) => [String(number), String(number)]);
  fill(at("layer"), layers, String(state.layer));
  fill(at("from"), layers, String(state.from));
  fill(at("to"), layers, String(state.to));
  const heads = Array.from({ length: layer.heads }, (_, head) => [String(head), String(head)]);
  heads.push(["mean", TEXT.mean], ["max", TEXT.maximum]);
  fill(at("head"), heads, String(state.head));
  fill(
    at("metric"),
    [
      ["maps", TEXT.maps],
      ...Object.entries(TEXT.metrics)
        .filter(([name]) => group.layers[0].summaries[name])
        .map(([name, { name: shown }]) => [name, shown]),
    ],
    state.metric,
  );
  for (const name of ["words", "special", "punctuation", "ids"]) at(name).checked = state[name];
  at("threshold").value = state.threshold;
  at("threshold-value").textContent = formatWeight(thresholdWeight());
  at("direction").hidden = group.queries !== group.keys;
  for (const input of at("direction").querySelectorAll("input")) {
    input.checked = input.value === state.direction;
  }
  for (const tab of at("tabs").children) {
    const chosen = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    at(`panel-${tab.dataset.view}`).hidden = !chosen;
  }
  const name = headName();
  at("one-title").textContent = TEXT.one(state.layer, name);
  const shown = [...new Set([group.queries, group.keys])];
  const key = `${maps.inspection.key} ${shown} ${state.ids}`;
  if (pieces.key !== key) pieces.show(rows, shown, { ids: state.ids });
  pieces.key = key;
}

function headName() {
  if (state.head === "mean") return TEXT.meanName;
  if (state.head === "max") return TEXT.maximumName;
  return TEXT.headName(state.head);
}

async function showOverview(group, number) {
  const step = smallStep(group);
  at("overview-hint").textContent =
    state.metric === "maps"
      ? TEXT.overviewHint(step)
      : TEXT.metricHint(TEXT.metrics[state.metric].definition);
  const to = state.to ?? group.layers.length - 1;
  const key = [maps.inspection.key, group.name, state.metric, state.from, to, themeName()].join();
  const selected = { layer: state.layer, head: state.head };
  if (overview.key === key) return overview.select(selected);
  const small = await maps.overview(group);
  if (number !== drawn) return;
  overview.key = key;
  overview.show({ group, small, metric: state.metric, from: state.from, to, selected });
}

function smallStep(group) {
  const { rows } = maps.inspection;
  return Math.max(
    Math.ceil(rows[group.queries].tokens.length / group.small[0]),
    Math.ceil(rows[group.keys].tokens.length / group.small[1]),
  );
}

async function showOne(group, layer, number) {
  const weights = await maps.layer(layer.path);
  if (number !== drawn) return;
  const rows = maps.inspection.rows;
  const options = { words: state.words, special: state.special, punctuation: state.punctuation };
  const queries = makeUnits(rows[group.queries], options);
  const keys = group.queries === group.keys ? queries : makeUnits(rows[group.keys], options);
  const combined = combineHeads(weights, layer.heads, state.head);
  view = mergeUnits(combined, rows[group.keys].tokens.length, queries, keys);
  hover.show(group, view);
  const least = thresholdWeight();
  lines.show(view, least);
  map.show(view, least);
  tree.show(view, least);
  radar.show(group.layers, state.layer, state.head, headName());
  numbers.show(view, least, layer, state.head, state.words);
  drawHover();
  if (state.view === "score") await score.show(view, maps.inspection.key, layer.path, state.head);
}

async function showStages() {
  at("stages").open = state.stages;
  if (state.stages) await stages.show(maps.inspection);
}

async function showLens() {
  at("lens").open = state.lens;
  if (!state.lens) return;
  at("lens-why").hidden = true;
  at("lens-view").hidden = false;
  try {
    await lens.show(maps.inspection);
  } catch (error) {
    // Such as a model that predicts no tokens.
    if (error.status !== 400) throw error;
    lens.hide();
    at("lens-why").textContent = error.message;
    at("lens-why").hidden = false;
    at("lens-view").hidden = true;
  }
}

async function showFlow(group) {
  at("flow").open = state.flow;
  if (state.flow) await flow.show(maps.inspection, group);
}

function drawHover() {
  if (!view) return;
  if (!at("panel-lines").hidden) lines.draw();
  if (!at("panel-map").hidden) map.drawHover();
  if (!at("panel-tree").hidden) tree.draw();
  if (state.flow) flow.draw();
  numbers.drawHover();
  colorPieces(pieces, maps.inspection.rows, view, hover);
  const text = describePair(view, hover.spot());
  // A screen reader says each change.
  if (at("pair").textContent !== text) at("pair").textContent = text;
}

// --- Events -------------------------------------------------------------------------

function bind() {
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
  const choices = { group: String, metric: String, layer: Number, from: Number, to: Number };
  for (const [name, read] of Object.entries(choices)) {
    at(name).addEventListener("change", () => {
      state[name] = read(at(name).value);
      if (name === "from") state.to = Math.max(state.from, state.to ?? currentGroup().layers.length - 1);
      if (name === "to") state.from = Math.min(state.from, state.to);
      if (name === "group") Object.assign(state, { held: null, from: 0, to: null });
      changed();
    });
  }
  at("head").addEventListener("change", () => {
    const value = at("head").value;
    state.head = /^\d+$/.test(value) ? Number(value) : value;
    changed();
  });
  for (const name of ["words", "special", "punctuation", "ids"]) {
    at(name).addEventListener("change", () => {
      state[name] = at(name).checked;
      changed();
    });
  }
  at("threshold").addEventListener("input", () => {
    state.threshold = Number(at("threshold").value);
    changed();
  });
  at("direction").addEventListener("change", (event) => {
    state.direction = event.target.value;
    changed();
  });
  for (const name of ["stages", "lens", "flow"]) {
    at(name).addEventListener("toggle", () => {
      if (state[name] === at(name).open) return;
      state[name] = at(name).open;
      changed();
    });
  }
  at("tabs").addEventListener("click", (event) => chooseView(event.target.dataset.view));
  at("tabs").addEventListener("keydown", (event) => {
    const tabs = [...at("tabs").children];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    chooseView(next.dataset.view);
    next.focus();
  });
}

// Everything that can be seen of this text; of a long one only the chosen layer.
async function saveInside() {
  const { key, groups, rows } = maps.inspection;
  const paths = [PATHS.stages(key), PATHS.predictions(key)];
  let bytes = 0;
  for (const group of groups) {
    const size = 2 * rows[group.queries].tokens.length * rows[group.keys].tokens.length;
    paths.push(PATHS.overview(key, group.name));
    if (group.queries === group.keys) paths.push(PATHS.flow(key, group.name));
    for (const layer of group.layers) bytes += size * layer.heads;
  }
  const fits = bytes <= MOST_SAVED;
  for (const group of groups) {
    for (const { path } of group.layers) {
      if (fits || path === currentGroup().layers[state.layer].path) paths.push(PATHS.layer(key, path));
    }
  }
  say(TEXT.saving);
  try {
    await savePage(`${state.run} ${Object.values(state.texts)[0].slice(0, 30)}`, paths, {
      runs: { runs: [shownRun] },
      inspect: maps.inspection,
    });
    say(fits ? TEXT.savedPage : TEXT.savedLayer(state.layer));
  } catch (error) {
    fail(error);
  }
}

function chooseView(name) {
  if (!name) return;
  state.view = name;
  changed();
}

function save(what, kind) {
  if (!view) return;
  const { shown, part } = {
    overview: { shown: overview, part: TEXT.overviewTitle },
    one: { shown: views[state.view], part: TEXT.one(state.layer, headName()) },
    lens: { shown: lens, part: TEXT.lensTitle },
    flow: { shown: flow, part: TEXT.flowTitle },
  }[what];
  const group = maps.inspection.groups.length > 1 ? `${TEXT.groups[state.group]}, ` : "";
  savePicture(kind, shown, `${state.run}: ${group}${part}`, Object.values(state.texts).join(" · "));
}

function writeTexts() {
  at("direction").append(element("legend", { className: "visually-hidden" }, TEXT.direction));
  for (const [value, text] of Object.entries(TEXT.directions)) {
    at("direction").append(
      element("label", {}, element("input", { type: "radio", name: "direction", value }), text),
    );
  }
  for (const [name, text] of Object.entries(TEXT.tabs)) {
    const tab = element("button", { type: "button", id: `tab-${name}`, role: "tab", data: { view: name } }, text);
    tab.setAttribute("aria-controls", `panel-${name}`);
    at("tabs").append(tab);
  }
  for (const place of at("page-inside").querySelectorAll(".saves")) {
    place.append(...saveButtons((kind) => save(place.dataset.save, kind)));
  }
  at("pieces-title").parentElement.append(elementButtons(() => at("pieces"), TEXT.piecesTitle));
  for (const [name, title] of [["numbers", TEXT.numbersTitle], ["stages-view", TEXT.stagesTitle]]) {
    at(name).before(elementButtons(() => at(name), title));
  }
}
