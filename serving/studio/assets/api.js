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

export function hasToken() {
  return Boolean(storage().getItem(KEY));
}

// Fetches an address of this server; errors have the reason that it gives.
export async function send(address, options = {}) {
  const token = storage().getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(address, {
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

function request(path, options) {
  return send(`api/${path}`, options);
}

function post(path, question, signal) {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
    signal,
  });
}

export async function fetchRuns() {
  return (await (await request("runs")).json()).runs;
}

export async function inspect(run, texts, signal) {
  return (await post("inspect", { run, texts }, signal)).json();
}

// Loads the export of a run, unless it is loaded; returns the model's name.
export async function serveRun(run, signal) {
  return (await (await post("serve", { run }, signal)).json()).served_as;
}

// For each generated token its probability and the most probable tokens at its place.
export async function fetchAlternatives(run, texts, tokenIds, signal) {
  const response = await post("alternatives", { run, texts, token_ids: tokenIds }, signal);
  return (await response.json()).tokens;
}

export async function fetchLayer(key, layer) {
  const query = new URLSearchParams({ key, layer });
  return (await request(`attention?${query}`)).arrayBuffer();
}

export async function fetchOverview(key, group) {
  const query = new URLSearchParams({ key, group });
  return (await request(`overview?${query}`)).arrayBuffer();
}
