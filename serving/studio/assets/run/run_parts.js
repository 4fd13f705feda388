// Parts of which the panels of a run are made: numbers as text, tables, facts, notices.

import { element } from "../base/dom.js";
import { TEXT } from "../base/strings.js";

const T = TEXT.runPage;

// With about four significant digits; a dash if there is none.
export function formatNumber(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

export function formatShare(value) {
  return value === null || value === undefined ? "–" : `${formatNumber(Number((100 * value).toPrecision(3)))}%`;
}

export function formatBytes(value) {
  if (value === null || value === undefined) return "–";
  const [unit, size] = [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ].find(([, size]) => value >= size) ?? ["bytes", 1];
  return `${(value / size).toLocaleString("en", { maximumFractionDigits: size > 1 ? 1 : 0 })} ${unit}`;
}

export function formatSeconds(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// A table that can be scrolled sideways. A column is [heading, function of a row,
// "number" if it is one]; the first column heads its row. The function returns a text or
// an element.
export function makeTable(caption, columns, rows) {
  const head = element("tr");
  for (const [name, , kind] of columns) {
    head.append(element("th", { scope: "col", className: kind ?? "" }, name));
  }
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    columns.forEach(([, read, kind], place) => {
      const found = read(row);
      const cell = element(place ? "td" : "th", { className: kind ?? "" });
      if (!place) cell.scope = "row";
      cell.append(typeof found === "string" ? element("bdi", found) : found);
      line.append(cell);
    });
    body.append(line);
  }
  const table = element("table", { className: "results" }, element("caption", caption));
  table.append(element("thead", {}, head), body);
  return element("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: caption }, table);
}

// Names and values in a row.
export function makeFacts(pairs) {
  const list = element("dl", { className: "run-facts" });
  for (const [name, value] of pairs) {
    list.append(element("div", {}, element("dt", name), element("dd", {}, element("bdi", value))));
  }
  return list;
}

// What is shown when it is opened.
export function makeDetails(summary, ...children) {
  return element("details", {}, element("summary", summary), ...children);
}

export function makePanel(name, title, ...tools) {
  const id = `run-${name}-title`;
  const head = element("div", { className: "panel-head" }, element("h2", { id }, title), ...tools);
  const panel = element("section", { className: "panel", id: `run-${name}` }, head);
  panel.setAttribute("aria-labelledby", id);
  return panel;
}

export function makeNotice(text) {
  return element("p", { className: "notice" }, text);
}

// A command to be typed, with a button that copies it.
export function makeCommand(text, command) {
  const button = element("button", { type: "button", className: "copy" }, T.copy);
  button.ariaLabel = T.copyLabel(command);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = TEXT.copied;
    } catch {
      button.textContent = T.notCopied;
    }
  });
  return element("p", { className: "command" }, text, " ", element("code", command), " ", button);
}

// A button that saves a report of the run.
export function saveButton(name, path, save) {
  const button = element("button", { type: "button" }, T.saveReport);
  button.ariaLabel = T.saveReportLabel(name);
  button.addEventListener("click", () => save(path));
  return button;
}

// The content of a panel: what was found, or why there is nothing.
export function makeContent({ found, error, command }, make) {
  if (error !== null) {
    const shown = element("p", { className: "error", role: "alert" }, T.damaged);
    shown.append(element("bdi", error));
    return [shown];
  }
  if (found === null) return command ? [makeCommand(T.notMade, command)] : [];
  return make(found);
}
