// Requests to the studio's API, with the access token of this tab.

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

async function request(path, options = {}) {
  const token = storage().getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(`api/${path}`, {
      ...options,
      headers: { ...headers, ...options.headers },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(TEXT.unreachable, 0);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error ?? response.statusText, response.status);
}

export async function fetchRuns() {
  return (await (await request("runs")).json()).runs;
}

export async function inspect(run, texts, signal) {
  return post("inspect", { run, texts }, signal);
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

export async function fetchLayer(key, layer) {
  const query = new URLSearchParams({ key, layer });
  return (await request(`attention?${query}`)).arrayBuffer();
}

// With `less`, the key of another inspection, its maps are subtracted.
export async function fetchOverview(key, group, less = null) {
  const query = new URLSearchParams(less === null ? { key, group } : { key, group, less });
  return (await request(`overview?${query}`)).arrayBuffer();
}
