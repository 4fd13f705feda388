// The page of a run: what its stages did and how well, with curves that move while it
// trains.

import { ApiError, fetchLog, fetchRunFile, fetchRunResults } from "../base/api.js";
import { at, element, fill } from "../base/dom.js";
import { elementButtons } from "../base/element_picture.js";
import { download } from "../base/pictures.js";
import { fail, say } from "../base/shell.js";
import { saveSnapshot } from "../base/snapshot.js";
import { TEXT } from "../base/strings.js";
import { CurvesView } from "./curves_view.js";
import { FiguresView } from "./figures_view.js";
import { HeadsView } from "./heads_view.js";
import { RecordsView } from "./records_view.js";
import { makeData, makeEvaluation, makeExports, makeStages, makeSweep } from "./run_panels.js";
import { formatNumber, formatSeconds, makeCommand, makeContent, makeDetails, makeFacts, makeNotice, makePanel, saveButton } from "./run_parts.js";

const T = TEXT.runPage;
const EVERY = 2000; // milliseconds between two readings of a log

let run = null;
let asking = null; // AbortController of the run that is shown
let log = null; // where the next reading of the log begins
const curves = new CurvesView(element("div", { className: "curves" }));
const panels = {};
let heads = null;
let figures = null;

export const runPage = {
  build() {
    figures = new FiguresView(null, showError);
    heads = new HeadsView();
    for (const name of ["stages", "training", "heads", "evaluation", "exports", "data", "records", "analysis", "sweep"]) {
      const panel = makePanel(name, T.titles[name]);
      const content = element("div", { className: "run-content" });
      panel.firstChild.append(elementButtons(() => content, T.titles[name]));
      panel.append(content);
      panels[name] = { panel, content, head: panel.firstChild };
      at("page-run").append(panel);
    }
    panels.training.head.append(...curveTools());
  },

  async open(chosen) {
    runPage.close();
    run = chosen.name;
    asking = new AbortController();
    const { signal } = asking;
    say(T.loading);
    try {
      await showResults(signal);
      say("");
      ready();
      await followLog(signal);
    } catch (error) {
      if (error.name !== "AbortError") fail(error);
    }
  },

  close() {
    asking?.abort();
    figures?.clear();
  },

  forget() {
    curves.clear();
    heads.clear();
  },

  async save() {
    await figures.loadAll();
    await saveSnapshot(`${run}: ${TEXT.pages.run}`);
  },

  redraw() {
    curves.draw();
    heads.draw();
  },
};

async function showResults(signal) {
  const found = await fetchRunResults(run, signal);
  figures.clear();
  show("stages", [makeStages(found.stages, goTo)]);
  show("data", makeContent(found.data, makeData), found.data.found?.card);
  show("training", makeContent(found.training, makeTraining), found.training.found?.report);
  showEvaluations(found.evaluation);
  const missing = found.stages
    .filter(({ name, state }) => ["export", "phone"].includes(name) && state === "missing")
    .map(({ name, command }) => makeCommand(T.alsoMakes[name], command));
  show("exports", makeContent(found.exports, (exports) => [...makeExports(exports, missing), ...phonePicture(exports, signal)]));
  show("analysis", makeContent(found.analysis, (analysis) => figures.parts(analysis, run, signal)), found.analysis.found?.report);
  show("sweep", makeContent(found.sweep, makeSweep));
  show("heads", makeContent(found.heads, (history) => heads.show(history)));
  for (const name of ["heads", "sweep"]) panels[name].panel.hidden = !found[name].found && !found[name].error;
  heads.draw();
  showRecords(found.data.found, signal);
}

// Shows the panel of a stage at the top of the window.
function goTo(stage) {
  const { panel, head } = panels[["export", "phone"].includes(stage) ? "exports" : stage];
  panel.scrollIntoView();
  head.firstChild.tabIndex = -1;
  head.firstChild.focus({ preventScroll: true });
}

function show(name, content, report) {
  panels[name].content.replaceChildren(...content);
  panels[name].head.querySelector(".save-report")?.remove();
  if (!report) return;
  const button = saveButton(T.titles[name], report, saveReport);
  button.classList.add("save-report");
  panels[name].head.append(button);
}

function showRecords(data, signal) {
  const there = data && !data.is_imported;
  panels.records.panel.hidden = !there;
  panels.records.content.replaceChildren();
  if (there) new RecordsView(panels.records.content, showError).open(run, signal);
}

function showEvaluations(panel) {
  const { head, content } = panels.evaluation;
  head.querySelector(".field")?.remove();
  const evaluations = panel.found?.evaluations ?? [];
  const open = (of) => show("evaluation", of.name === "training" ? [makeCommand(T.onlyTraining, panel.command), ...makeEvaluation(of)] : makeEvaluation(of), of.report);
  if (!evaluations.length) {
    show("evaluation", makeContent(panel, () => []));
    return;
  }
  open(evaluations[0]);
  if (evaluations.length === 1) return;
  const choice = element("select");
  fill(choice, evaluations.map(({ name }, place) => [String(place), T.evaluationOf(name)]), "0");
  choice.addEventListener("change", () => open(evaluations[Number(choice.value)]));
  head.append(element("label", { className: "field" }, element("span", T.of), choice));
  content.scrollTop = 0;
}

function phonePicture(exports, signal) {
  Object.assign(figures, { run, signal });
  return exports.picture ? [figures.figure(exports.picture, T.phonePicture, T.titles.exports)] : [];
}

// --- Training -----------------------------------------------------------------------

function makeTraining(training) {
  if (training.is_imported) return [makeNotice(T.importedTraining)];
  const values = makeDetails(T.values);
  values.addEventListener("toggle", () => {
    if (values.open) values.append(curves.table());
    else values.lastChild.remove();
  });
  // No live region: a screen reader would read it every two seconds.
  const status = element("p", { className: "live", id: "run-live" });
  const parts = [status, curves.place, values];
  if (!training.is_finished) return parts;
  return [
    makeFacts([
      [T.parameters, formatNumber(training.parameters)],
      [T.trained, formatNumber(training.trained_parameters)],
      [T.steps, formatNumber(training.steps)],
      [T.time, training.seconds === null ? "–" : formatSeconds(training.seconds)],
      [T.tokens, formatNumber(training.tokens)],
      [T.speed, formatNumber(training.tokens_per_second)],
      [T.skipped, formatNumber(training.skipped_steps)],
    ]),
    ...parts,
  ];
}

function curveTools() {
  const axis = element("select");
  fill(axis, Object.entries(T.axes), "step");
  axis.addEventListener("change", () => {
    curves.axis = axis.value;
    curves.cursor = null;
    curves.draw();
  });
  const scale = element("input", { type: "checkbox", id: "run-log-scale" });
  scale.addEventListener("change", () => {
    curves.isLogarithmic = scale.checked;
    curves.draw();
  });
  return [
    element("label", { className: "field" }, element("span", T.axis), axis),
    element("label", { className: "check" }, scale, element("span", T.logarithmic)),
  ];
}

// Reads the log to its end, and goes on until the training is finished.
async function followLog(signal) {
  curves.clear();
  log = { file: "", next: 0 };
  let wasFollowed = false;
  while (!signal.aborted) {
    const found = await fetchLog(run, log.next, log.file, signal);
    if (found.start === 0) curves.clear();
    log = found;
    curves.add(found.rows);
    if (!found.is_whole) continue;
    if (found.is_finished) break;
    wasFollowed = true;
    const live = at("run-live");
    const last = curves.rows.at(-1);
    if (live) live.textContent = last ? T.live(formatNumber(last.step)) : T.liveWithoutStep;
    await pause(signal);
  }
  if (wasFollowed && !signal.aborted) {
    await showResults(signal);
    curves.draw();
    say(T.finishedNow);
  }
}

// Waits for the next reading; while the page is not seen, until it is.
async function pause(signal) {
  await new Promise((done) => setTimeout(done, EVERY));
  while (document.hidden && !signal.aborted) {
    await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

// --- Files and errors ---------------------------------------------------------------

async function saveReport(path) {
  try {
    const blob = await fetchRunFile(run, path, asking.signal);
    download(blob, `${run}-${path}`);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

// Shows an error in the panel that it concerns.
function showError(error, place) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError) || error.status === 401) return fail(error);
  place.querySelector(".error")?.remove();
  place.append(element("p", { className: "error", role: "alert" }, error.message));
}

// Tells tests that the page is drawn.
function ready() {
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}
