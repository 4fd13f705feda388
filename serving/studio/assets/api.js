// Requests to the studio's API, with the access token of this tab.

import { TEXT } from "./strings.js";

const KEY = "transbeam-token";

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
  const response = await request("inspect", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ run, texts }),
    signal,
  });
  return response.json();
}

export async function fetchLayer(key, layer) {
  const query = new URLSearchParams({ key, layer });
  return (await request(`attention?${query}`)).arrayBuffer();
}

export async function fetchOverview(key, group) {
  const query = new URLSearchParams({ key, group });
  return (await request(`overview?${query}`)).arrayBuffer();
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
