// What can be asked of a served model, by its signatures.

import { IMAGE } from "./image_field.js";

const DEFAULT = "serving_default";
const STREAMED = ["stream_begin", "stream_step", "stream_join", "stream_keep"];
const TRUNCATED = "truncated";

// Sampling parameters, in the order of the page: [least, step, most].
export const SETTINGS = {
  max_new_tokens: { min: 0, step: 1, standard: "" },
  temperature: { min: 0, step: "any", standard: "0" },
  top_k: { min: 0, step: 1, standard: "0" },
  top_p: { min: 0, max: 1, step: "any", standard: "1" },
  min_p: { min: 0, max: 1, step: "any", standard: "0" },
  repetition_penalty: { min: 0.01, max: 100, step: "any", standard: "1" },
  no_repeat_ngram_size: { min: 0, step: 1, standard: "0" },
  seed: { min: -2147483648, max: 2147483647, step: 1, standard: "0" },
  num_beams: { min: 1, max: 16, step: 1, standard: "4" },
  length_penalty: { min: -10, max: 10, step: "any", standard: "1" },
  stop: {},
};

// The form of an answer, by the names of the outputs; "" for one that is not known.
function formOf(outputs) {
  const has = (...names) => names.every((name) => outputs.includes(name));
  if (has("gaps", "fills", "generated_text")) return "gaps";
  if (has("generated_text", "token_ids")) return "generated";
  if (has("log_likelihood", "num_tokens")) return "likelihood";
  if (has("fills", "scores")) return "fills";
  if (has("words", "tags", "starts", "ends")) return "tags";
  if (has("answer", "start", "end", "no_answer_score")) return "span";
  if (has("classes", "scores")) return "classes";
  if (has("embedding")) return "embedding";
  if (has("score")) return "number";
  return "";
}

// The tasks of a model: {name, form, method, signature, inputs, settings}.
export function tasksOf({ signatures }, run) {
  const own = signatures[DEFAULT];
  if (!own) return [];
  const texts = inOrder(own.inputs, run);
  const form = formOf(own.outputs);
  const task = (name, signature, more = {}) => ({
    name,
    signature,
    method: "predict",
    form: formOf(signatures[signature].outputs),
    inputs: texts,
    settings: Object.keys(SETTINGS).filter((each) => signatures[signature].inputs.includes(each)),
    ...more,
  });
  const found = [];
  const writes = form === "generated" || form === "gaps";
  if (!writes || form === "gaps") found.push(task(form || "outputs", DEFAULT));
  if (writes && STREAMED.every((name) => signatures[name])) {
    const begin = task("stream", "stream_begin", { form: "stream", method: "stream" });
    // The server itself ends streams at stop strings.
    found.push({ ...begin, settings: [...begin.settings, "stop"] });
  } else if (writes) found.push(task("generate", signatures.generate ? "generate" : DEFAULT));
  if (signatures.search) found.push(task("search", "search"));
  if (signatures.score && formOf(signatures.score.outputs) === "likelihood") {
    found.push(task("likelihood", "score", { inputs: inOrder(signatures.score.inputs, run) }));
  }
  if (signatures.embed && form !== "embedding") found.push(task("embedding", "embed"));
  return found;
}

// In the order of the run's own inputs, which the metadata does not have.
function inOrder(names, run) {
  const known = run.inputs.filter((name) => names.includes(name));
  return [...known, ...names.filter((name) => !known.includes(name))];
}

// The inputs of a request: of a stream single values, otherwise a row for each text.
export function requestInputs(task, texts, settings) {
  const row = task.method === "stream" ? (value) => value : (value) => [value];
  const inputs = {};
  for (const name of task.inputs) {
    const text = texts[name].toWellFormed?.() ?? texts[name];
    inputs[name] = row(name === IMAGE ? { b64: text } : text);
  }
  if (task.form === "embedding" && texts.second_text) inputs.text.push(texts.second_text);
  for (const name of task.settings) {
    if (settings[name] !== undefined) inputs[name] = row(settings[name]);
  }
  return inputs;
}

export function wasTruncated(outputs) {
  return [outputs[TRUNCATED]].flat().includes(true);
}
