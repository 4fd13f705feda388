// Requests to the server's REST API, the one of TF Serving, that programs use as well.

import { ApiError, send } from "../base/api.js";
import { TEXT } from "../base/strings.js";

const MODELS = new URL("../v1/models/", location.href);

// The address of the server, as a client takes it, and that of a model.
export const serverAddress = new URL("..", location.href).href.replace(/\/$/, "");
export const modelAddress = (name) => new URL(name, MODELS).href;

// The version that answers, and all signatures: {name: {inputs, outputs}}.
export async function fetchModel(name, signal) {
  const response = await send(`${modelAddress(name)}/metadata`, { signal });
  const { model_spec, metadata } = await response.json();
  const signatures = {};
  for (const [each, found] of Object.entries(metadata.signature_def.signature_def)) {
    const { inputs = {}, outputs = {} } = found;
    signatures[each] = { inputs: Object.keys(inputs), outputs: Object.keys(outputs) };
  }
  return { name, version: model_spec.version, signatures };
}

// The version that answers requests: the newest that is loaded.
export async function fetchVersion(name, signal) {
  const response = await send(modelAddress(name), { signal });
  const { model_version_status: found } = await response.json();
  return found.find(({ state }) => state === "AVAILABLE")?.version ?? "";
}

// The outputs of a signature, by name, each with a row for each text.
export async function predict({ name, signatures }, signature, inputs, signal) {
  const response = await post(`${modelAddress(name)}:predict`, { signature_name: signature, inputs }, signal);
  const { outputs } = await response.json();
  const names = signatures[signature].outputs;
  // TF Serving leaves out the name of an only output.
  return names.length === 1 ? { [names[0]]: outputs } : outputs;
}

// Yields the parts of a text, {text, token_id}, and last {generated_text, ...}.
export async function* streamText({ name }, inputs, signal) {
  const response = await post(`${modelAddress(name)}:stream`, inputs, signal);
  for await (const { kind, data } of readEvents(response.body)) {
    if (kind === "error") throw new ApiError(data.error, 500);
    yield data;
    if (kind === "done") return;
  }
  throw new ApiError(TEXT.try.brokeOff, 0);
}

function post(address, question, signal) {
  return send(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
    signal,
  });
}

// Server-sent events: blocks of `event: KIND` and `data: JSON`, with an empty line after.
async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(
          block.split("\n").map((line) => {
            const end = line.indexOf(": ");
            return [line.slice(0, end), line.slice(end + 2)];
          }),
        );
        if (fields.data) yield { kind: fields.event ?? "", data: JSON.parse(fields.data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
