// What all pages share: the line that says what happens, and the place of errors.

import { ApiError } from "./api.js";
import { at } from "./dom.js";

export function say(text) {
  at("status").textContent = text;
}

export function fail(error) {
  say("");
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) at("token-form").hidden = false;
  at("error").textContent = error.message;
  at("error").hidden = false;
}

export function clearError() {
  at("error").hidden = true;
}
