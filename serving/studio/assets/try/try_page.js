// Tries a model: asks the export of a run by the server's REST API, as a program would.

import { serveRun } from "../base/api.js";
import { at, element, fill, readTexts, textFields } from "../base/dom.js";
import { elementButtons } from "../base/element_picture.js";
import { clearError, fail, say } from "../base/shell.js";
import { saveSnapshot } from "../base/snapshot.js";
import { state, writeHash } from "../base/state.js";
import { TEXT } from "../base/strings.js";
import { answerTask } from "./answer_task.js";
import { IMAGE, ImageField } from "./image_field.js";
import { RequestPanel } from "./request_panel.js";
import { fetchModel, fetchVersion } from "./rest.js";
import { parseSettings, readSettings, settingsFields, settingsText } from "./settings_fields.js";
import { requestInputs, tasksOf } from "./try_tasks.js";

const PAUSE = 1000; // ms between questions whether a model is loaded
const COMPARED = "second_text"; // the second of two texts whose vectors are compared

let current = null; // the run
let model = null; // {name, version, signatures}, once it is loaded
let tasks = [];
let task = null;
let working = null; // AbortController of what is in progress
let requestPanel = null;
let imageField = null;

// --- The page -----------------------------------------------------------------------

export const tryPage = {
  build() {
    requestPanel = new RequestPanel();
    imageField = new ImageField(showRequest);
    const form = element(
      "form",
      { id: "try-form" },
      element("label", { className: "field", id: "try-task-field" }, element("span", TEXT.try.task), element("select", { id: "try-task" })),
      element("div", { className: "texts", id: "try-texts" }),
      element("div", { id: "try-settings" }),
      element(
        "div",
        { className: "buttons" },
        element("button", { type: "submit", className: "primary", id: "try-ask", title: TEXT.lookHint }, TEXT.try.ask),
        element("button", { type: "button", id: "try-stop", hidden: true, onclick: () => working?.abort() }, TEXT.try.stop),
      ),
    );
    const ask = panel("try-title", TEXT.askTitle, "visually-hidden");
    ask.classList.add("ask");
    ask.append(element("p", { className: "notice", id: "try-notice", hidden: true }), form);
    const answer = panel("try-answer-title", TEXT.try.answerTitle);
    const saves = elementButtons(() => at("try-answer"), TEXT.try.answerTitle);
    answer.replaceChildren(element("div", { className: "panel-head" }, answer.firstChild, saves));
    answer.id = "try-answer-panel";
    answer.append(element("p", { className: "hint", id: "try-facts" }), element("div", { id: "try-answer" }));
    at("page-try").append(ask, element("div", { className: "columns", id: "try-columns" }, answer, requestPanel.element));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answerTexts();
    });
    form.addEventListener("input", showRequest);
    at("try-task").addEventListener("change", () => {
      state.task = at("try-task").value;
      keepFields();
      showTask();
      answerAtOnce();
    });
  },

  async open(run) {
    const isShown = current?.name === run.name && model !== null;
    current = run;
    if (isShown) return showTask(); // with its answer, and the texts of another page
    model = task = null;
    showReady(false);
    const why = run.why_not_served && TEXT.try.notServed(run.why_not_served);
    at("try-notice").hidden = !why;
    at("try-notice").textContent = why ?? "";
    if (why) return say("");
    const signal = begin();
    say(TEXT.try.loading);
    try {
      model = await fetchModel(await servePatiently(run.name, signal), signal);
      tasks = tasksOf(model, run);
      fill(at("try-task"), tasks.map(({ name }) => [name, TEXT.try.tasks[name]]), state.task);
      showTask();
      say("");
      await answerAtOnce();
    } catch (error) {
      if (error.name !== "AbortError") fail(error);
    } finally {
      end(signal);
    }
  },

  close() {
    working?.abort();
    if (model) keepFields();
  },

  forget() {
    working?.abort();
    current = model = task = null;
    Object.assign(state, { task: "", sampling: "" });
  },

  save: () => saveSnapshot(`${current.name}: ${TEXT.pages.try}`),

  redraw() {},
};

function panel(id, title, className = "") {
  const made = element("section", { className: "panel" }, element("h2", { id, className }, title));
  made.setAttribute("aria-labelledby", id);
  return made;
}

// A large model takes longer than a request may: the server goes on, and is asked again.
async function servePatiently(run, signal) {
  for (;;) {
    const name = await serveRun(run, signal);
    if (name !== null) return name;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    signal.throwIfAborted();
  }
}

function begin() {
  working?.abort();
  working = new AbortController();
  at("try-form").setAttribute("aria-busy", "true");
  clearError();
  return working.signal;
}

function end(signal) {
  if (working?.signal !== signal) return; // something else has begun
  at("try-form").removeAttribute("aria-busy");
  at("try-stop").hidden = true;
}

// --- The form -----------------------------------------------------------------------

function showReady(isReady) {
  at("try-form").hidden = !isReady;
  at("try-columns").hidden = !isReady;
  if (!isReady) at("try-answer").replaceChildren();
  at("try-answer-panel").hidden = !at("try-answer").childElementCount;
}

function showTask() {
  const chosen = tasks.find(({ name }) => name === at("try-task").value) ?? null;
  if (chosen !== task) at("try-answer").replaceChildren();
  task = chosen;
  if (!task) {
    at("try-notice").textContent = TEXT.try.noTask;
    at("try-notice").hidden = false;
    return;
  }
  at("try-task-field").hidden = tasks.length === 1;
  const texts = task.inputs.filter((name) => name !== IMAGE);
  const isCompared = task.form === "embedding" && texts.length === 1;
  const inputs = isCompared ? [...texts, COMPARED] : texts;
  const example = (name) => current.examples[current.inputs.indexOf(name)] ?? "";
  const run = { inputs, examples: inputs.map(example) };
  const fields = textFields(at("try-form"), run, inputs, state.texts);
  const names = TEXT.try.texts[task.name] ?? {};
  for (const label of fields) {
    const name = label.querySelector("textarea").name;
    const shown = isCompared && name === COMPARED ? TEXT.try.compared : names[name];
    if (shown) label.firstChild.textContent = shown;
  }
  if (task.inputs.includes(IMAGE)) fields.push(imageField.element);
  at("try-texts").replaceChildren(...fields);
  at("try-settings").replaceChildren(...settingsFields(task.settings, parseSettings(state.sampling)));
  at("try-ask").textContent = TEXT.try.asks[task.name] ?? TEXT.try.ask;
  showReady(true);
  showRequest();
}

function keepFields() {
  Object.assign(state.texts, readTexts(at("try-texts")));
  const others = Object.entries(parseSettings(state.sampling)).filter(([name]) => !task?.settings.includes(name));
  state.sampling = settingsText({ ...Object.fromEntries(others), ...readSettings(at("try-settings")) });
  writeHash();
}

function readInputs() {
  return requestInputs(task, { ...readTexts(at("try-texts")), [IMAGE]: imageField.content }, readSettings(at("try-settings")));
}

function showRequest() {
  if (!task || !model) return;
  const file = task.inputs.includes(IMAGE) ? { input: IMAGE, name: imageField.name } : null;
  requestPanel.show(model, task, readInputs(), file);
}

// --- Answers ------------------------------------------------------------------------

// Long texts are written only when they are asked for, and an image is to be chosen.
function answerAtOnce() {
  return task && task.settings.length === 0 && at("try-form").checkValidity() ? answerTexts() : undefined;
}

async function answerTexts() {
  if (!task) return; // the export is still being loaded
  const signal = begin();
  keepFields();
  showRequest();
  say(TEXT.try.working);
  const question = { run: current, model, task, inputs: readInputs(), texts: readTexts(at("try-texts")), signal, show, sayFacts };
  at("try-stop").hidden = task.method !== "stream";
  try {
    await answerTask(question);
  } catch (error) {
    if (error.name === "AbortError") say("");
    else if (error.status !== 404) fail(error);
    else await answerAgain(question).catch(fail); // the model has made room for others
  } finally {
    end(signal);
    document.body.dataset.answered = String(Number(document.body.dataset.answered ?? 0) + 1);
  }
}

async function answerAgain(question) {
  say(TEXT.try.loading);
  await servePatiently(current.name, question.signal);
  await answerTask(question);
}

function show(elements) {
  at("try-answer").replaceChildren(...elements);
  showReady(true);
}

// Says which version answered, and how long that took.
async function sayFacts({ ms, truncated, signal }) {
  at("try-stop").hidden = true;
  const version = await fetchVersion(model.name, signal);
  const cut = truncated ? [element("strong", TEXT.try.truncated)] : [];
  at("try-facts").replaceChildren(TEXT.try.facts(model.name, version, ms), ...cut);
  say(TEXT.try.answered(version, ms) + (truncated ? TEXT.try.truncated : ""));
}
