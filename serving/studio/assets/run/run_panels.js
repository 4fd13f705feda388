// The panels of a run's results: stages, data, evaluation, exports and sweep.

import { element } from "../base/dom.js";
import {
  formatBytes,
  formatNumber,
  formatSeconds,
  formatShare,
  makeDetails,
  makeFacts,
  makeNotice,
  makeTable,
} from "./run_parts.js";
import { TEXT } from "../base/strings.js";

const T = TEXT.runPage;
const FEW_EXAMPLES = 4;

// --- Stages -------------------------------------------------------------------------

// A card for each stage; its name leads to its panel.
export function makeStages(stages, go) {
  const list = element("ol", { className: "stages" });
  for (const stage of stages) {
    const card = element("li", { className: "stage", data: { state: stage.state } });
    const name = element("button", { type: "button", className: "stage-name" }, T.stages[stage.name]);
    name.addEventListener("click", () => go(stage.name));
    card.append(name, element("p", { className: "stage-state" }, T.states[stage.state]));
    const facts = [];
    if (stage.seconds !== null) facts.push(formatSeconds(stage.seconds));
    if (stage.peak_memory_mb !== null) facts.push(T.memory(formatNumber(stage.peak_memory_mb)));
    if (stage.finished) facts.push(new Date(stage.finished).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" }));
    if (facts.length) card.append(element("p", { className: "hint" }, facts.join(" · ")));
    if (stage.error) card.append(element("p", { className: "error" }, stage.error));
    list.append(card);
  }
  return list;
}

// --- Data ---------------------------------------------------------------------------

export function makeData(data) {
  if (data.is_imported) return [makeNotice(T.importedData)];
  const parts = [
    makeFacts([
      [T.objective, data.objective.replaceAll("_", " ")],
      [T.source, T.sourceOf(data.source, formatNumber(data.source_files), formatBytes(data.source_bytes))],
      [T.tokenizer, T.tokenizerOf(data.tokenizer, formatNumber(data.vocabulary_size))],
      [T.records, T.recordsOf(formatNumber(data.shards), formatBytes(data.record_bytes))],
      [T.leaks, formatNumber(data.leaks_prevented)],
    ]),
    makeTable(
      T.splitsCaption,
      [
        [T.split, (split) => T.splits[split.name] ?? split.name],
        ...["documents", "records", "tokens", "predictions", "unknown_tokens"].map((name) => [
          name.replaceAll("_", " "),
          (split) => formatNumber(split[name]),
          "number",
        ]),
        [T.paddingShare, (split) => formatShare(split.padding), "number"],
      ],
      data.splits,
    ),
    makeTable(
      T.documentsCaption,
      [
        [T.fate, (row) => row.fate],
        [T.reason, (row) => row.reason],
        [T.documents, (row) => formatNumber(row.count), "number"],
      ],
      data.documents,
    ),
    element("div", { className: "histograms" }, ...data.lengths.filter(({ counts }) => counts.some(Boolean)).map(makeHistogram)),
  ];
  if (data.labels.length) {
    const columns = [
      [T.label, (row) => row.label],
      [T.training, (row) => formatNumber(row.train), "number"],
      [T.validation, (row) => formatNumber(row.validation), "number"],
    ];
    parts.push(makeDetails(T.labels(data.labels.length), makeTable(T.labelsCaption, columns, data.labels)));
  }
  const pieces = [
    [T.piece, (row) => row.piece],
    [T.times, (row) => formatNumber(row.count), "number"],
  ];
  const features = [
    [T.feature, (row) => row.name],
    [T.type, (row) => `${row.dtype} (${row.shape.join(", ")})`],
    [T.meaning, (row) => row.meaning],
  ];
  parts.push(
    makeDetails(T.frequent, makeTable(T.frequentCaption, pieces, data.frequent)),
    makeDetails(T.features, makeTable(T.featuresCaption, features, data.features)),
  );
  return parts;
}

// Bars as elements, with their numbers for those who do not see them.
function makeHistogram({ split, step, longest, counts }) {
  const most = Math.max(...counts);
  const bars = element("div", { className: "histogram", role: "img" });
  bars.ariaLabel = T.lengthsLabel(T.splits[split] ?? split, counts.indexOf(most) * step, formatNumber(most));
  counts.forEach((count, at) => {
    const [from, to] = [at * step, Math.min(longest, (at + 1) * step - 1)];
    const bar = element("span", { title: T.lengthBar(from, to, formatNumber(count)) });
    bar.style.height = `${count ? Math.max(2, (100 * count) / most) : 0}%`;
    bars.append(bar);
  });
  const axis = element("p", { className: "histogram-axis" }, element("span", "0"), element("span", T.tokensUpTo(longest)));
  return element("figure", {}, element("figcaption", T.lengths(T.splits[split] ?? split)), bars, axis);
}

// --- Evaluation ---------------------------------------------------------------------

export function makeEvaluation(of) {
  const parts = [];
  if (of.summary) parts.push(element("p", {}, element("bdi", of.summary)));
  parts.push(
    makeFacts(Object.entries(of.numbers).map(([name, value]) => [T.metrics[name] ?? name.replaceAll("_", " "), formatNumber(value)])),
  );
  const columns = [
    [T.metric, (row) => row.name.replaceAll("_", " ")],
    [T.value, (row) => formatNumber(row.score), "number"],
    [T.interval, (row) => T.intervalOf(formatNumber(row.low), formatNumber(row.high)), "number"],
    [T.onLine, (row) => makeInterval(row)],
  ];
  if (of.scores.some((row) => row.difference !== null)) {
    columns.splice(3, 0, [T.difference, (row) => formatNumber(row.difference), "number"]);
  }
  if (of.scores.length) parts.push(makeTable(T.scoresCaption, columns, of.scores));
  if (of.confusions) parts.push(...makeConfusions(of.confusions));
  if (of.examples.length) {
    const rest = of.examples.slice(FEW_EXAMPLES);
    parts.push(element("h3", T.errors), element("p", { className: "hint" }, T.errorsHint));
    parts.push(element("ol", { className: "examples" }, ...of.examples.slice(0, FEW_EXAMPLES).map(makeExample)));
    if (rest.length) {
      const more = makeDetails(T.moreErrors(rest.length));
      // Made when they are asked for: long texts take time to lay out.
      more.addEventListener("toggle", () => more.append(element("ol", { className: "examples" }, ...rest.map(makeExample))), {
        once: true,
      });
      parts.push(more);
    }
  }
  return parts;
}

// A score between 0 and 1 with its interval, on a line.
function makeInterval({ score, low, high }) {
  if (![score, low, high].every((value) => value !== null && value >= 0 && value <= 1)) return "";
  const bar = element("span", { className: "interval-bar" });
  const point = element("span", { className: "interval-point" });
  bar.style.left = `${100 * low}%`;
  bar.style.width = `${Math.max(1, 100 * (high - low))}%`;
  point.style.left = `${100 * score}%`;
  const line = element("span", { className: "interval" }, bar, point);
  line.ariaHidden = "true";
  return line;
}

// A table of right classes and guesses, with more color for a larger share of the row;
// of many classes only the most frequent errors.
function makeConfusions({ labels, counts, errors }) {
  const columns = [
    [T.target, (error) => error.target],
    [T.guess, (error) => error.guess],
    [T.times, (error) => formatNumber(error.count), "number"],
  ];
  const list = makeTable(T.frequentErrors, columns, errors);
  if (!counts) return [element("h3", T.confusions), list];
  const rows = counts.map((row, number) => ({ label: labels[number], number, row, all: row.reduce((sum, count) => sum + count, 0) }));
  const cells = labels.map((label, column) => [
    label,
    ({ row, number, all }) => {
      const cell = element("span", { className: column === number ? "count right" : "count" }, formatNumber(row[column]));
      cell.style.setProperty("--share", all ? row[column] / all : 0);
      return cell;
    },
    "number",
  ]);
  const table = makeTable(T.confusionsCaption, [[T.target, (row) => row.label], ...cells], rows);
  table.classList.add("confusions");
  return [element("h3", T.confusions), table];
}

function makeExample(example) {
  const item = element("li", { className: "example" });
  const facts = [example.source];
  if (example.nats !== null) facts.push(T.nats(formatNumber(example.nats)));
  if (example.error !== null) facts.push(T.errorOf(formatNumber(example.error)));
  item.append(element("p", { className: "hint" }, element("bdi", facts.join(" · "))));
  for (const text of [example.text, example.second_text]) {
    if (text) item.append(element("p", { className: "example-text", dir: "auto", tabIndex: 0 }, text));
  }
  const list = element("dl");
  for (const [name, text] of [
    [T.target, example.target],
    [T.guess, example.guess],
  ]) {
    list.append(element("dt", name), element("dd", { dir: "auto" }, text || "–"));
  }
  item.append(list);
  return item;
}

// --- Exports ------------------------------------------------------------------------

export function makeExports(exports, commands) {
  const full = Math.max(...exports.forms.map((form) => form.bytes ?? 0));
  const parts = [
    makeTable(
      T.formsCaption,
      [
        [T.form, (form) => form.name],
        [T.exportTarget, (form) => T.stages[form.target]],
        [T.size, (form) => formatBytes(form.bytes), "number"],
        [T.ofLargest, (form) => formatShare(form.bytes === null || !full ? null : form.bytes / full), "number"],
        [T.latency, (form) => form.latencies.map(latency).join("; ") || "–"],
        [T.file, (form) => form.path],
      ],
      exports.forms,
    ),
  ];
  if (exports.metrics.length) {
    const columns = [
      [T.form, (row) => row.model],
      [T.exportTarget, (row) => T.stages[row.target]],
      [T.metric, (row) => row.metric.replaceAll("_", " ")],
      [T.value, (row) => formatNumber(row.score), "number"],
    ];
    parts.push(makeTable(T.phoneMetricsCaption, columns, exports.metrics));
  }
  const passed = exports.checks.filter((check) => check.passed).length;
  const columns = [
    [T.form, (check) => check.form],
    [T.check, (check) => check.check],
    [T.found, (check) => formatNumber(check.value), "number"],
    [T.allowed, (check) => formatNumber(check.limit), "number"],
    [T.outcome, (check) => (check.passed ? T.passed : T.failed)],
  ];
  parts.push(
    element("p", T.parity(passed, exports.checks.length)),
    makeDetails(T.parityDetails, makeTable(T.parityCaption, columns, exports.checks)),
  );
  return [...parts, ...commands];
}

function latency({ threads, tokens, ms }) {
  const time = `${formatNumber(ms)} ms`;
  return threads === null ? time : T.latencyOf(time, tokens, threads);
}

// --- Sweep --------------------------------------------------------------------------

export function makeSweep(sweep) {
  const names = [...new Set(sweep.runs.flatMap((run) => Object.keys(run.scores)))];
  const best = Math.min(...sweep.runs.map((run) => run.loss ?? Infinity));
  const columns = [
    [T.replaced, (run) => run.replaced.join(" ") + (run.is_this ? T.thisRun : "")],
    [T.metrics.loss, (run) => formatNumber(run.loss) + (run.loss === best ? T.best : ""), "number"],
    ...names.map((name) => [name.replaceAll("_", " "), (run) => formatNumber(run.scores[name]), "number"]),
    [T.parameters, (run) => formatNumber(run.parameters), "number"],
    [T.time, (run) => (run.seconds === null ? "–" : formatSeconds(run.seconds)), "number"],
    [T.error, (run) => run.error ?? ""],
  ];
  return [makeTable(T.sweepCaption(sweep.name), columns, sweep.runs)];
}
