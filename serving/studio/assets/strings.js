// All English text of the page.

export const TEXT = {
  title: "Transbeam Studio",
  skip: "Skip to the views",
  footer: "All computations run on this server; the page makes no request elsewhere.",

  pagesLabel: "Pages",
  pages: { try: "Try", inside: "Inside", compare: "Compare", run: "Run" },

  copyLink: "Copy link",
  copyLinkHint: "A link that restores this view, with its text",
  copied: "Copied",
  copiedWithoutText: "Copied, without the text, which is too long for a link",
  notCopied: "The browser does not allow copying; the link is in the address bar.",
  theme: "Theme",
  themes: { auto: "As the system", light: "Light", dark: "Dark" },

  askTitle: "Text",
  run: "Run",
  look: "Look inside",
  lookHint: "Ctrl + Enter",
  loading: "Computing… A model is loaded when it is first used.",
  reading: "Reading the runs…",
  noRuns: "This server has no runs.",
  inputs: {
    text: "Text",
    second_text: "Second text",
    target_text: "Text of the decoder",
    question: "Question",
    context: "Context",
  },
  noMaps: (why) => `There are no attention maps to show: ${why}.`,

  token: "Access token",
  tokenHint: "This server asks for a token. It stays in this tab and is forgotten with it.",
  useToken: "Use token",

  facts: (run) => [
    run.objective.replaceAll("_", " "),
    run.decoder_layers
      ? `${run.layers} + ${run.decoder_layers} layers`
      : `${run.layers} layers`,
    `${run.heads} heads`,
    `${run.attention.replaceAll("_", " ")} attention`,
    `up to ${run.max_length.toLocaleString("en")} tokens`,
  ],
  done: (tokens, seconds) =>
    `${tokens.toLocaleString("en")} tokens` +
    (seconds < 0.001 ? "" : `, ${Math.ceil(1000 * seconds).toLocaleString("en")} ms on the server`),
  truncated: (limit) =>
    ` · The text is longer than the ${limit.toLocaleString("en")} tokens that can be shown, and was cut.`,

  piecesTitle: "Tokens",
  piecesHint:
    "Point at a token, or move with the arrow keys, to see its weights in all views; click or Enter holds it, Escape lets go.",
  direction: "Direction",
  directions: { to: "attends to", from: "is attended by" },
  ids: "Ids",
  rows: { text: "Tokens", encoder: "Encoder", decoder: "Decoder" },
  tokenTitle: (token, place) =>
    `${token.piece} · token ${place} · id ${token.id}` +
    (token.start === null ? "" : ` · characters ${token.start}–${token.end}`),

  toolsTitle: "Selection",
  group: "Attention",
  groups: {
    attention: "Self-attention",
    encoder_attention: "Encoder self-attention",
    decoder_attention: "Decoder self-attention",
    cross_attention: "Cross-attention",
  },
  layer: "Layer",
  head: "Head",
  mean: "Mean of all heads",
  maximum: "Maximum of all heads",
  words: "Merge pieces of words",
  special: "Special tokens",
  threshold: "Weights from",

  overviewTitle: "All layers and heads",
  shown: "Show",
  layersFrom: "Layers",
  layersTo: "to",
  overviewHint: (step) =>
    `Rows are layers, columns are heads. In each map, rows attend to columns; each map is scaled to its maximum` +
    (step > 1 ? `, and each point is the maximum of ${step} × ${step} tokens.` : "."),
  metricHint: (definition) => `Rows are layers, columns are heads. ${definition}`,
  maps: "Maps",
  metrics: {
    entropy: {
      name: "Entropy",
      definition: "Entropy of a token's weights in nats, mean over tokens.",
    },
    confidence: {
      name: "Confidence",
      definition: "Largest weight of a token, mean over tokens (Voita et al., 2019).",
    },
    distance: {
      name: "Distance",
      definition: "Distance in tokens, weighted by the weights, mean over tokens.",
    },
    self: { name: "To itself", definition: "Mean weight of tokens on themselves." },
    previous: {
      name: "To the previous token",
      definition: "Mean weight on the previous token.",
    },
    next: { name: "To the next token", definition: "Mean weight on the next token." },
    first: { name: "To the first token", definition: "Mean weight on the first token." },
  },
  cell: (layer, head, value) => `Layer ${layer}, head ${head}${value}`,
  layerLabel: (layer) => `L${layer}`,

  one: (layer, head) => `Layer ${layer}, ${head}`,
  headName: (head) => `head ${head}`,
  meanName: "mean of all heads",
  maximumName: "maximum of all heads",
  numbersTitle: "Numbers of the head",
  tabs: { lines: "Lines", map: "Map" },
  linesLabel:
    "Lines from each token on the left to the tokens on the right that it attends to. Arrow keys move between tokens.",
  mapLabel:
    "Attention map: each row's token attends to the columns' tokens. Arrow keys move between cells.",
  queries: "attending token",
  keys: "attended token",
  strongest: "Strongest weights",
  strongestFor: (label) => `Strongest weights of “${label}”`,
  from: "From",
  to: "To",
  weight: "Weight",
  pair: (query, key, weight) => `${query} → ${key}: ${weight}`,
  linesCut: (shown, all) =>
    `The strongest ${shown.toLocaleString("en")} of ${all.toLocaleString("en")} lines are drawn.`,
  scale: "weight, square-root scale",
  mergeHint:
    "With merged pieces, weights are added over the pieces of the attended word and averaged over those of the attending word.",

  save: "Save",
  saveAs: (kind) => `Save this view as ${kind}`,
  unreachable: "The server does not answer. Is it still running?",

  try: {
    task: "Task",
    tasks: {
      fills: "Fill the masks",
      gaps: "Fill the gaps",
      stream: "Write",
      generate: "Write",
      search: "Write with beam search",
      likelihood: "Score a text",
      classes: "Classify",
      number: "Predict a number",
      tags: "Tag the words",
      span: "Find the answer",
      embedding: "Compute vectors",
      outputs: "Answer",
    },
    asks: { stream: "Write", generate: "Write", search: "Write", likelihood: "Score", fills: "Fill" },
    ask: "Answer",
    stop: "Stop",
    texts: { likelihood: { target_text: "Text that is scored" } },
    compared: "Compare with (may be empty)",
    standard: "default",
    settings: {
      max_new_tokens: ["New tokens", "The most tokens that are written"],
      temperature: ["Temperature", "0 takes the most probable token; 1 draws by the model's probabilities"],
      top_k: ["Top-k", "Draw from the k most probable tokens; 0 for all"],
      top_p: ["Top-p", "Draw from the most probable tokens that together have this probability"],
      min_p: ["Min-p", "Drop tokens below this share of the most probable one"],
      repetition_penalty: ["Repetition penalty", "Above 1, tokens of the text become less probable"],
      no_repeat_ngram_size: ["No repeats of", "Write no sequence of n tokens twice; 0 allows all"],
      seed: ["Seed", "The same seed draws the same text"],
      num_beams: ["Beams", "Texts that are kept at each token"],
      length_penalty: ["Length penalty", "Above 1 prefers longer texts, below 1 shorter ones"],
      stop: ["Stop at", "Texts that end the writing, one on each line"],
    },
    stopHint: "one on each line",
    moreSettings: "More settings",

    loading: "Loading the export… A large one takes a while.",
    working: "Waiting for the answer…",
    brokeOff: "The server broke off amid the text.",
    notServed: (why) => `There are no answers to show: ${why}`,
    images: "This model reads images, and the page has no field for them yet. Its attention and answers can be had by programs: see /openapi.json.",
    noTask: "This export has no default signature, and so nothing to ask.",
    answered: (version, ms) => `Version ${version} answered in ${milliseconds(ms)}`,
    facts: (model, version, ms) => `${model}, version ${version} · ${milliseconds(ms)}`,
    truncated: " · The text was longer than the model reads, and was cut.",

    answerTitle: "Answer",
    share: (share) => (share > 0 && share < 0.0005 ? "< 0.1%" : `${(100 * share).toFixed(1)}%`),
    number: (number) => String(Number(number.toPrecision(4))),
    more: (count) => `${count.toLocaleString("en")} more`,
    mask: (number) => `Mask ${number}`,
    fillsHint: "Choose another piece to see it in the text. Each mask is filled on its own.",
    noMask: (mark) => `There is nothing to fill: write ${mark} where the model is to guess.`,
    nothing: "(nothing)",
    classes: "Probabilities of the classes",
    noLabel: "(no label applies)",
    score: "Predicted number",
    words: (count, most) =>
      count > most
        ? `The first ${most.toLocaleString("en")} of ${count.toLocaleString("en")} words`
        : `All ${count.toLocaleString("en")} words`,
    manySpans: (most) => `Only the first ${most.toLocaleString("en")} are marked.`,
    wordColumns: ["Word", "Tag", "Probability"],
    noEntity: "The model finds nothing in this text.",
    noAnswer: "“No answer” has a higher score. It counts if the model was trained with questions that have none.",
    answerScore: "Score of the answer",
    noAnswerScore: "Score of “no answer”",
    vector: (number) => `Vector of text ${number}`,
    entries: "Entries",
    norm: "Length (norm)",
    cosine: "Cosine similarity",
    likelihood: "Log-likelihood (nats)",
    scored: "Scored tokens",
    perplexity: "Perplexity per token",

    tokensLabel: "Written tokens; arrow keys move between them",
    searching: "Looking for the alternatives…",
    noAlternatives: (why) => `No alternatives can be shown: ${why}`,
    tokenLabel: (text, share) => `${text}, ${(100 * share).toFixed(1)}%`,
    alternatives: (place, all) => `Token ${place} of ${all}: the most probable ones at its place`,
    alternativesHint:
      "The model's own probabilities, without temperature, top-k and other settings. A token has the more color, the less probable it was.",
    written: ({ tokens, finished, isStopped, first, perSecond, score }) =>
      [
        `${tokens.toLocaleString("en")} tokens`,
        isStopped ? "stopped by you" : finished ? "ended by itself" : "ended at the limit",
        ...(first === undefined ? [] : [`first token after ${milliseconds(first)}`]),
        ...(perSecond ? [`${perSecond.toPrecision(3)} tokens per second`] : []),
        ...(score === undefined ? [] : [`score ${Number(score.toPrecision(4))}`]),
      ].join(" · "),

    requestTitle: "Request",
    requestHint: "What a program sends for this answer. The server's REST API is that of TF Serving.",
    languages: { curl: "curl", python: "Python" },
    copy: "Copy",
    notCopied: "The browser does not allow copying here; select the text instead.",
    cutCode: "… cut here; Copy has all of it.",
  },
};

function milliseconds(ms) {
  return ms < 10_000 ? `${Math.round(ms).toLocaleString("en")} ms` : `${(ms / 1000).toFixed(1)} s`;
}
