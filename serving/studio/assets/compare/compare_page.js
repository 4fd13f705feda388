// Compares two models on one text: their predictions, and the attention of their heads.

import { compare, fetchOverview } from "../base/api.js";
import { AttentionMaps, combineHeads, makeUnits, mergeUnits } from "../base/attention.js";
import { formatWeight } from "../base/canvas.js";
import { at, element, fill, readTexts } from "../base/dom.js";
import { decodeHalfFloats } from "../base/half_floats.js";
import { Hover } from "../base/hover.js";
import { MapView } from "../base/map_view.js";
import { clearError, fail, say } from "../base/shell.js";
import { saveSnapshot } from "../base/snapshot.js";
import { state, writeHash } from "../base/state.js";
import { TEXT } from "../base/strings.js";
import { CompareAnswersView } from "./compare_answers_view.js";
import { readControls, showControls } from "./compare_controls.js";
import { buildLayout } from "./compare_layout.js";
import { CompareNumbersView } from "./compare_numbers_view.js";
import { saveComparison } from "./compare_pictures.js";
import { formatDifference, largest } from "./difference_colors.js";
import { DifferenceCards, DifferenceGrid, DifferenceMapView } from "./difference_maps.js";

const words = TEXT.compare;

let known = null; // the run and all runs
let found = null; // the comparison
let maps = null; // AttentionMaps of A and B, if they can be compared
let views = null; // the merged maps of A, B and the difference that are shown
let asking = null; // AbortController
let drawn = 0; // number of the last rendering, so that older ones are dropped
let shown = {}; // the views of the page, and `one`, the head that is shown large

const hover = new Hover((held) => {
  if (held) writeHash();
  for (const view of shown.large) view.drawHover();
  sayPair();
});

// --- The page -----------------------------------------------------------------------

export const comparePage = {
  build() {
    buildLayout(go, (what, kind) => {
      if (found) saveComparison(what, kind, shown, found);
    });
    const choose = (layer, head) => {
      Object.assign(state, { layer, head, chosen: true });
      changed();
    };
    shown = {
      answers: new CompareAnswersView(at("compare-answers")),
      grid: new DifferenceGrid(at("compare-grid"), choose),
      cards: new DifferenceCards(at("compare-cards"), choose),
      numbers: new CompareNumbersView(at("compare-numbers"), choose),
      large: [
        new MapView(at("compare-map-a"), hover),
        new MapView(at("compare-map-b"), hover),
        new DifferenceMapView(at("compare-map-difference"), hover),
      ],
    };
    for (const name of ["grid", "number", "group"]) {
      at(`compare-${name}-choice`).addEventListener("change", (event) => {
        state[name] = event.target.value;
        changed();
      });
    }
  },

  async open(run, runs) {
    known = [run, runs];
    say("");
    if (show()) await go();
  },

  close() {
    asking?.abort();
  },

  forget() {
    Object.assign(state, { formA: "", runB: "", formB: "" });
    at("compare-views").hidden = true;
  },

  save: () => saveSnapshot(`${state.run}: ${TEXT.pages.compare}`),

  redraw() {
    if (!found) return;
    shown.answers.draw();
    shown.numbers.draw();
    shown.grid.key = null;
    changed();
  },
};

// --- The comparison -----------------------------------------------------------------

// Returns whether the chosen models can be compared.
function show() {
  const possible = showControls(...known, () => {
    if (show()) go();
    else at("compare-views").hidden = true;
    writeHash();
  });
  if (!possible) at("compare-views").hidden = true;
  return possible;
}

async function go() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const [a, b] = readControls();
  clearError();
  at("compare-ask").setAttribute("aria-busy", "true");
  say(TEXT.loading);
  try {
    found = await compare(a, b, readTexts(at("compare-texts")), signal);
    say(isSame() ? words.same : words.done(found.seconds) + cut());
    at("compare-views").hidden = false;
    showAnswers();
    shown.grid.key = null;
    await changed();
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    if (asking?.signal === signal) at("compare-ask").removeAttribute("aria-busy");
  }
}

function cut() {
  const { inspection } = found.a;
  return inspection?.truncated ? TEXT.truncated(inspection.limit) : "";
}

// The chosen head, or the nearest one that these models have.
function nearestHead(differences) {
  const layer = Math.min(state.layer, differences.length - 1);
  const head = typeof state.head === "number" ? state.head : 0;
  return { layer, head: Math.min(head, differences[layer].length - 1) };
}

function mostDifferentHead(differences) {
  const most = Math.max(...differences.flat());
  const layer = differences.findIndex((heads) => heads.includes(most));
  return { layer, head: differences[layer].indexOf(most) };
}

function isSame() {
  const { answers, maps: heads } = found;
  if (answers.why_not || heads.why_not) return false;
  return (
    answers.predictions.every(({ difference }) => difference === 0) &&
    heads.groups.every(({ layers }) => layers.flat().every((difference) => difference === 0))
  );
}

function showAnswers() {
  const { answers } = found;
  if (answers.why_not === null) return shown.answers.show(answers);
  shown.answers.answers = null;
  at("compare-answers").replaceChildren(element("p", { className: "notice" }, words.noAnswers(answers.why_not)));
}

// Shows the heads; the state is made possible for the comparison first.
async function changed() {
  if (!found) return;
  const why = found.maps.why_not;
  at("compare-no-maps").hidden = why === null;
  at("compare-no-maps").textContent = why === null ? "" : words.noMaps(why);
  for (const name of ["heads", "one", "numbers"]) {
    at(`compare-${name}-title`).closest("section").hidden = why !== null;
  }
  writeHash();
  if (why !== null) return ready();
  if (maps?.[0].inspection !== found.a.inspection) {
    maps = ["a", "b"].map((side) => new AttentionMaps(found[side].inspection));
  }
  const { groups } = found.a.inspection;
  let number = groups.findIndex(({ name }) => name === state.group);
  if (number < 0) number = 0;
  const pair = ["a", "b"].map((side) => found[side].inspection.groups[number]);
  const differences = found.maps.groups[number].layers;
  state.group = pair[0].name;
  shown.one = state.chosen ? nearestHead(differences) : mostDifferentHead(differences);
  showChoices(groups, pair);
  writeHash();
  const rendering = ++drawn;
  try {
    await Promise.all([showHeads(pair, differences, rendering), showLarge(pair, rendering)]);
  } catch (error) {
    // The server has made room for later texts: once more.
    if (error.status === 404) await go();
    else fail(error);
  }
}

function showChoices(groups, pair) {
  at("compare-group-field").hidden = groups.length === 1;
  fill(at("compare-group-choice"), groups.map(({ name }) => [name, TEXT.groups[name]]), state.group);
  if (!words.grids[state.grid]) state.grid = "difference";
  fill(at("compare-grid-choice"), Object.entries(words.grids), state.grid);
  const metrics = Object.entries(TEXT.metrics).filter(([name]) => pair.every(({ layers }) => layers[0].summaries[name]));
  if (!metrics.some(([name]) => name === state.number)) state.number = metrics[0][0];
  fill(at("compare-number-choice"), metrics.map(([name, { name: text }]) => [name, text]), state.number);
  at("compare-number-hint").textContent = TEXT.metrics[state.number].definition;
  at("compare-one-title").textContent = words.one(shown.one.layer, TEXT.headName(shown.one.head));
  shown.numbers.show(pair.map(({ layers }) => layers), state.number);
}

async function showHeads(pair, differences, rendering) {
  const selected = shown.one;
  const key = `${found.a.inspection.key} ${found.b.inspection.key} ${state.group} ${state.grid}`;
  if (shown.grid.key === key) {
    shown.grid.select(selected);
    shown.cards.select(selected);
    return;
  }
  const small = await Promise.all([
    maps[0].overview(pair[0]),
    maps[1].overview(pair[1]),
    fetchOverview(maps[1].inspection.key, state.group, maps[0].inspection.key).then(decodeHalfFloats),
  ]);
  if (rendering !== drawn) return;
  shown.grid.key = key;
  const layers = pair[0].layers.map((layer, number) => ({
    ...layer,
    summaries: { difference: differences[number] },
  }));
  const group = { ...pair[0], layers };
  const isMaps = state.grid === "difference";
  const size = found.a.inspection.rows[group.queries].tokens.length;
  const step = Math.ceil(size / group.small[0]);
  at("compare-grid-hint").textContent = isMaps ? words.gridHint(step) : words.numberHint;
  const metric = isMaps ? "maps" : "difference";
  shown.grid.show({ group, small: small[2], metric, from: 0, to: layers.length - 1, selected });
  const heads = differences.flatMap((values, layer) =>
    values.map((difference, head) => ({ layer, head, difference })),
  );
  shown.cards.show({ heads, small, shape: group.small, perLayer: differences[0].length, selected });
}

async function showLarge(pair, rendering) {
  const weights = await Promise.all(maps.map((each, side) => each.layer(pair[side].layers[shown.one.layer].path)));
  if (rendering !== drawn) return;
  const { rows } = found.a.inspection;
  const options = { words: false, special: true, punctuation: true };
  const queries = makeUnits(rows[pair[0].queries], options);
  const keys = pair[0].queries === pair[0].keys ? queries : makeUnits(rows[pair[0].keys], options);
  const { heads } = pair[0].layers[shown.one.layer];
  const [a, b] = weights.map((layer) => mergeUnits(combineHeads(layer, heads, shown.one.head), keys.length, queries, keys));
  a.most = b.most = Math.max(a.most, b.most);
  const difference = { ...a, weights: b.weights.map((weight, place) => weight - a.weights[place]) };
  difference.most = largest(difference.weights);
  views = [a, b, difference];
  hover.show(pair[0], a);
  shown.large.forEach((view, number) => view.show(views[number], 0));
  sayPair();
  ready();
}

// For programs that wait for the page.
function ready() {
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}

function sayPair() {
  const spot = views && hover.spot();
  let text = "";
  if (spot && spot.other !== undefined) {
    const [{ queries, keys }] = views;
    const [query, key] = spot.side === "query" ? [spot.unit, spot.other] : [spot.other, spot.unit];
    const [a, b, difference] = views.map(({ weights }) => weights[query * keys.length + key]);
    text = words.pair(queries[query].label, keys[key].label, formatWeight(a), formatWeight(b), formatDifference(difference));
  }
  if (at("compare-pair").textContent !== text) at("compare-pair").textContent = text;
}
