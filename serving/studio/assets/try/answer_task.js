// Asks for an answer and shows it: from one request, or token by token.
//
// A question has the `run`, the `model`, its `task`, the `inputs` of the request, the
// `texts` of the page, and a `signal` that ends it; `show(elements)` shows the answer and
// `sayFacts({ms, truncated, signal})` how it came.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";
import { ANSWER_VIEWS } from "./answer_views.js";
import { predict, streamText } from "./rest.js";
import { wasTruncated } from "./try_tasks.js";
import { WrittenText } from "./written_text.js";

export async function answerTask(question) {
  const { form } = question.task;
  if (form === "stream") await writeText(question);
  else if (form === "generated") await showWritten(question);
  else await showAnswer(question);
}

async function askOnce({ model, task, inputs, signal }) {
  const began = performance.now();
  const outputs = await predict(model, task.signature, inputs, signal);
  return { outputs, facts: { ms: performance.now() - began, truncated: wasTruncated(outputs), signal } };
}

async function showAnswer(question) {
  const { outputs, facts } = await askOnce(question);
  question.show(ANSWER_VIEWS[question.task.form](outputs, question.texts));
  await question.sayFacts(facts);
}

// A whole text, such as the best one of a beam search; its tokens are shown below it.
async function showWritten(question) {
  const { outputs, facts } = await askOnce(question);
  const written = new WrittenText("");
  const ids = outputs.token_ids[0].slice(0, outputs.length[0]);
  for (const id of ids) written.add("", id);
  written.facts.textContent = TEXT.try.written({
    tokens: ids.length,
    finished: outputs.finished[0],
    score: outputs.score?.[0],
  });
  const whole = element("p", { className: "answer-text", dir: "auto" }, outputs.generated_text[0]);
  question.show([whole, ...written.elements]);
  await question.sayFacts(facts);
  await written.explain(question.run.name, sourceTexts(question), question.signal);
}

async function writeText(question) {
  const { run, model, inputs, texts, signal } = question;
  const written = new WrittenText(run.family === "decoder" ? texts.text : "");
  const began = performance.now();
  let first = null;
  let last = null;
  let isStopped = false;
  try {
    for await (const part of streamText(model, inputs, signal)) {
      if (first === null) question.show(written.elements);
      first ??= performance.now();
      if (part.generated_text === undefined) written.add(part.text, part.token_id);
      else last = part;
    }
  } catch (error) {
    if (error.name !== "AbortError" || first === null) throw error;
    isStopped = true;
  }
  const now = performance.now();
  const tokens = written.ids.length;
  written.facts.textContent = TEXT.try.written({
    tokens,
    finished: last?.finished,
    isStopped,
    first: first - began,
    perSecond: tokens > 1 ? (1000 * (tokens - 1)) / (now - first) : null,
  });
  // The request was ended by the reader; what is known of its tokens is still shown.
  const later = isStopped ? new AbortController().signal : signal;
  await question.sayFacts({ ms: now - began, truncated: last?.truncated, signal: later });
  await written.explain(run.name, sourceTexts(question), later);
}

// The texts that the model was given; not the one that it is compared with.
function sourceTexts({ task, texts }) {
  return Object.fromEntries(task.inputs.map((name) => [name, texts[name].toWellFormed?.() ?? texts[name]]));
}
