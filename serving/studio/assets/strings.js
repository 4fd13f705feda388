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

  compare: {
    askTitle: "Two models and a text",
    sides: { a: "Model A", b: "Model B" },
    run: "Run",
    form: "Weights",
    finished: "finished",
    checkpoint: (step) => `checkpoint of step ${step.toLocaleString("en")}`,
    tflite: (variant) => `TFLite file, ${variant.replaceAll("_", " ")}`,
    go: "Compare",
    otherInputs: (a, b, ofA, ofB) =>
      `${a} reads ${ofA}, and ${b} reads ${ofB}. Only models that read the same texts can be compared.`,
    done: (seconds) =>
      seconds < 0.001 ? "" : `${Math.ceil(1000 * seconds).toLocaleString("en")} ms on the server`,
    same: "On this text there is no difference.",

    answersTitle: "Predictions",
    noAnswers: (why) => `There are no predictions to compare: ${why}.`,
    hints: {
      fills: "For each mask, the pieces that fill it.",
      classes: "The probabilities of the classes.",
      labels: "The probabilities of the labels, each for itself. The difference is the largest one.",
      number: "The number that each model predicts.",
      tags: "For each word, the probabilities of its tags.",
      spans: "The spans of the context that may be the answer.",
      tokens: "After each token of the text, the probabilities of the next one. ▸ is the token that follows there.",
    },
    totalVariation:
      "The difference is the total variation of the probabilities: half of the sum of all absolute differences, from 0 to 1. The largest comes first.",
    barsScaled: "Bars are scaled to the longest one of a prediction.",
    otherTokens:
      "The models have other tokens, and tokens are matched by their text. Along the text there is no common place but its end.",
    leftOut: (count) => `The first ${count.toLocaleString("en")} tokens are left out.`,
    predictions: {
      fills: ({ number }) => `Mask ${number + 1}`,
      classes: () => "Class",
      labels: () => "Labels",
      number: () => "Number",
      tags: ({ text }) => text,
      spans: () => "Answer",
      tokens: ({ text }) => text || "Start of the text",
    },
    noAnswer: "no answer",
    next: (name) => `▸ ${name}`,
    outcome: "Outcome",
    both: (name) => `both: ${name}`,
    each: (a, b) => `A: ${a} · B: ${b}`,
    difference: "B − A",
    differs: (value) => `difference ${value}`,
    all: (count) => `Show all ${count.toLocaleString("en")}`,
    fewer: "Show fewer",
    writtenTitle: "Written",
    writtenHint: "The most probable tokens, at most 16.",
    writesNothing: "nothing",

    headsTitle: "All layers and heads",
    noMaps: (why) => `There are no attention maps to compare: ${why}.`,
    headsHint:
      "The difference of two heads is the share of its weight that a token puts elsewhere: half of the sum of the absolute differences of its weights (total variation), mean over tokens, from 0 to 1.",
    grids: { difference: "B − A", number: "Difference" },
    scale: "B − A, square-root scale",
    gridHint: (step) =>
      "Rows are layers, columns are heads. Blue: A has more weight; orange: B has more. All maps have the same scale" +
      (step > 1 ? `, and each point is the largest difference of ${step} × ${step} tokens.` : "."),
    numberHint: "Rows are layers, columns are heads.",
    cardsTitle: "The largest differences",
    card: (layer, head, value) => `Layer ${layer}, head ${head}: difference ${value}`,
    name: (layer, head) => `L${layer} · head ${head}`,
    a: "A",
    b: "B",
    one: (layer, head) => `Layer ${layer}, ${head}: A, B and the difference`,
    pair: (query, key, a, b, difference) =>
      `${query} → ${key}: A ${a}, B ${b}, difference ${difference}`,

    numbersTitle: "Numbers of the heads",
    number: "Number",
    headColumn: "Head",
    title: (a, b) => `A ${a}, B ${b}`,
  },

  save: "Save",
  saveAs: (kind) => `Save this view as ${kind}`,
  unreachable: "The server does not answer. Is it still running?",
};
