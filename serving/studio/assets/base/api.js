// Requests to the studio's API, with the access token of this tab.

import { isSaved, savedAnswer } from "./saved_answers.js";
import { TEXT } from "./strings.js";

const KEY = "transbeam-token";
const MOST_TRIES = 6;

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

function storage() {
  try {
    return window.sessionStorage;
  } catch {
    return { getItem: () => null, setItem: () => {} };
  }
}

export function setToken(token) {
  storage().setItem(KEY, token);
}

export function hasToken() {
  return Boolean(storage().getItem(KEY));
}

async function request(path, options = {}) {
  const response = isSaved ? savedAnswer(path) : await fetchHere(`api/${path}`, options);
  if (!response) throw new ApiError(TEXT.notSaved, 400);
  return checked(response);
}

// Fetches an address of this server; errors have the reason that it gives.
export async function send(address, options = {}) {
  return checked(await fetchHere(address, options));
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error ?? response.statusText, response.status);
}

// An answer as it is, to be saved.
export async function fetchAnswer(path) {
  const response = await fetchHere(`api/${path}`, {});
  return { status: response.status, bytes: new Uint8Array(await response.arrayBuffer()) };
}

async function fetchHere(address, options) {
  const token = storage().getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    return await fetch(address, { ...options, headers: { ...headers, ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(TEXT.unreachable, 0);
  }
}

export async function fetchRuns() {
  return (await (await request("runs")).json()).runs;
}

export async function inspect(run, texts, signal) {
  return post("inspect", { run, texts }, signal);
}

// Loads the export of a run, unless it is loaded; returns the model's name.
export async function serveRun(run, signal) {
  return (await post("serve", { run }, signal)).served_as;
}

// For each generated token its probability and the most probable tokens at its place.
export async function fetchAlternatives(run, texts, tokenIds, signal) {
  return (await post("alternatives", { run, texts, token_ids: tokenIds }, signal)).tokens;
}

// Each of both models is {run} and {checkpoint} or {tflite}.
export async function compare(a, b, texts, signal) {
  return post("compare", { a, b, texts }, signal);
}

// The server goes on when its time for an answer is over, such as with a large model that
// is loaded for the first time.
async function post(path, body, signal) {
  for (let tries = 1; ; tries++) {
    try {
      const response = await request(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal,
      });
      return await response.json();
    } catch (error) {
      if (error.status !== 504 || tries === MOST_TRIES) throw error;
    }
  }
}

// Paths of what is computed for an inspection.
export const PATHS = {
  layer: (key, layer) => `attention?${new URLSearchParams({ key, layer })}`,
  overview: (key, group) => `overview?${new URLSearchParams({ key, group })}`,
  flow: (key, group) => `flow?${new URLSearchParams({ key, group })}`,
  stages: (key) => `stages?${new URLSearchParams({ key })}`,
  predictions: (key) => `predictions?${new URLSearchParams({ key })}`,
};

export async function fetchLayer(key, layer) {
  return (await request(PATHS.layer(key, layer))).arrayBuffer();
}

// With `less`, the key of another inspection, its maps are subtracted.
export async function fetchOverview(key, group, less = null) {
  const rest = less === null ? "" : `&${new URLSearchParams({ less })}`;
  return (await request(`${PATHS.overview(key, group)}${rest}`)).arrayBuffer();
}

export async function fetchFlow(key, group) {
  return (await request(PATHS.flow(key, group))).arrayBuffer();
}

export async function fetchPredictions(key) {
  return (await request(PATHS.predictions(key))).json();
}

export async function fetchContributions(key, position, token) {
  const query = new URLSearchParams({ key, position, token });
  return (await request(`contributions?${query}`)).json();
}

export async function fetchStages(key) {
  return (await request(PATHS.stages(key))).json();
}

export async function fetchQueryKey(key, choice) {
  return (await request(`query-key?${new URLSearchParams({ key, ...choice })}`)).json();
}

// --- What the stages of a run wrote -------------------------------------------------

export async function fetchRunResults(run, signal) {
  const query = new URLSearchParams({ run });
  return (await request(`run?${query}`, { signal })).json();
}

export async function fetchLog(run, after, file, signal) {
  const query = new URLSearchParams({ run, after, file });
  return (await request(`log?${query}`, { signal })).json();
}

export async function fetchRecords(run, split, first, count, signal) {
  const query = new URLSearchParams({ run, split, first, count });
  return (await request(`records?${query}`, { signal })).json();
}

export async function fetchRunFile(run, path, signal) {
  const query = new URLSearchParams({ run, path });
  return (await request(`file?${query}`, { signal })).blob();
}
