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

export async function fetchFlow(key, group) {
  const query = new URLSearchParams({ key, group });
  return (await request(`flow?${query}`)).arrayBuffer();
}

export async function fetchPredictions(key) {
  return (await request(`predictions?${new URLSearchParams({ key })}`)).json();
}

export async function fetchContributions(key, position, token) {
  const query = new URLSearchParams({ key, position, token });
  return (await request(`contributions?${query}`)).json();
}

export async function fetchStages(key) {
  return (await request(`stages?${new URLSearchParams({ key })}`)).json();
}

export async function fetchQueryKey(key, choice) {
  return (await request(`query-key?${new URLSearchParams({ key, ...choice })}`)).json();
}
