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
  savePage: "Save as HTML",
  savePageHint: "One file with this text's views, which works without a server",
  saving: "Saving…",
  savedPage: "Saved",
  savedLayer: (layer) => `Saved, with layer ${layer} alone: all layers would take more than 32 MB.`,
  notSaved: "This saved page has no server, and did not keep this.",
  savedNotice: (run) => `A saved page of ${run}: other texts need the server.`,
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
      definition: "Mean weight on the previous token; the first one counts as 0.",
    },
    next: {
      name: "To the next token",
      definition: "Mean weight on the next token; the last one counts as 0.",
    },
    first: { name: "To the first token", definition: "Mean weight on the first token." },
    first_to_second: {
      name: "From the first text to the second",
      definition: "Weight of the first text's tokens on the second text, mean over these tokens.",
    },
    second_to_first: {
      name: "From the second text to the first",
      definition: "Weight of the second text's tokens on the first text, mean over these tokens.",
    },
  },
  cell: (layer, head, value) => `Layer ${layer}, head ${head}${value}`,
  layerLabel: (layer) => `L${layer}`,

  one: (layer, head) => `Layer ${layer}, ${head}`,
  headName: (head) => `head ${head}`,
  meanName: "mean of all heads",
  maximumName: "maximum of all heads",
  numbersTitle: "Numbers of the head",
  tabs: { lines: "Lines", map: "Map", tree: "Tree", radar: "Radar", score: "Query · key" },
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

  tree: {
    label: "Tree of the tokens that a token attends to most",
    hint: (label) => `What “${label}” attends to most, and what that attends to. Point at another token to begin there.`,
    children: "Branches",
    depth: "Levels",
  },
  radar: {
    label: "Radar of the head's numbers",
    hint: "From the middle, 0, to the edge. Weights reach 1 at the edge; entropy and distance their largest value in all heads.",
    mean: "mean of the layer's heads",
    axis: (name) =>
      name.replace(/^To (the )?/, "→ ").replace(/^From the (.*) text to the (.*)/, "$1 → $2 text"),
    shares: ["confidence", "self", "previous", "next", "first", "first_to_second", "second_to_first"],
  },
  queryKey: {
    label: "Query, key and their products by dimension",
    query: "query of the attending token",
    key: "key of the attended token",
    products: (most) => `products, up to ±${most.toPrecision(2)}; their sum is the score`,
    hint: (query, key, score, weight) =>
      `The score of “${query}” → “${key}” is ${score.toFixed(3)}, without biases of positions; its weight is ${weight}. Blue or yellow adds to it, the other color takes away. Hold a token to choose it.`,
    oneHead: "Choose a single head: means and maxima of heads have no query.",
  },
  stagesTitle: "Stages and shapes",
  stages: {
    hint: "What the model computes of the text, in its order. Lengths are mean L2 norms of the tokens' vectors; updates are what a part adds to its input.",
    columns: ["Stage", "Shape", "Length"],
    text: (row) => (row === "Tokens" ? "text" : `text of the ${row.toLowerCase()}`),
    characters: (count) => `${count.toLocaleString("en")} characters`,
    pieces: "tokens",
    name: (path) =>
      path
        .replace(/(encoder|decoder)_layer_(\d+)/, "layer $2")
        .replaceAll("_", " ")
        .replaceAll("/", " · "),
  },
  lensTitle: "Predictions by layer",
  lens: {
    label:
      "Table of predictions: a column for each token, a row for each layer. Arrow keys move between cells, Enter explains one.",
    hint: {
      next: "The next token that each layer would predict, if it were the last (logit lens). Darker is more probable; the model's own prediction is on top. Click on a cell to see which parts of the model are for it.",
      masked: "The token that each layer would put at each place, if it were the last (logit lens), also at tokens that are not masked. The model's own prediction is on top.",
    },
    embeddings: "emb.",
    embeddingsName: "The embeddings",
    said: (layer, token, top, final, rank) =>
      `${layer}, at “${token}”: ${top}. The model's own prediction, “${final}”, is here number ${rank.toLocaleString("en")}.`,
  },
  contributions: {
    label: "Bars of the contributions of each part",
    title: "Contributions",
    of: (token, against) => `Why “${token}” and not “${against}”`,
    hint: (token, against, difference) =>
      `The logit of “${token.piece}” (probability ${token.probability.toPrecision(2)}) minus that of “${against.piece}” (${against.probability.toPrecision(2)}) is ${difference.toFixed(3)}: the sum of what each part adds directly (Elhage et al., 2021).`,
    part: ({ layer, head }) => {
      const name = layer
        .replace(/(?:decoder|encoder)_layer_(\d+)/, "L$1")
        .replaceAll("_", " ")
        .replace("/", " ");
      return head === null ? name : `${name}, head ${head}`;
    },
    rest: (count) => `${count} other parts`,
  },
  flowTitle: "Flow between layers",
  flow: {
    label: "Flow from the tokens of the input to those of the last layer",
    hint: "Where the vectors of the last layer, on the right, come from: half through the residual connection, half by attention, as a mean over heads. What arrives on the left is the attention rollout (Abnar & Zuidema, 2020). Point at a token to see its own flow.",
    input: "input",
    tooLong: (most) => `The flow is drawn for texts of up to ${most} tokens.`,
    onlySelf: "The flow is drawn for self-attention: choose it at “Attention”.",
  },

  save: "Save",
  saveAs: (kind) => `Save this view as ${kind}`,
  unreachable: "The server does not answer. Is it still running?",
};
