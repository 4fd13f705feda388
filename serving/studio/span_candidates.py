"""Spans of a context that may answer a question, with their probabilities."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from transbeam.serving.signatures.span_qa import SpanQATask
from transbeam.serving.studio.answers import Answer, Outcomes, Prediction, softmax
from transbeam.serving.studio.token_rows import without_padding

# Less probable spans are left out.
_LEAST = 1e-4
_MOST = 1000


def answer_spans(
    task: SpanQATask,
    texts: Mapping[str, str],
    ask: Callable[[str, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]],
) -> Answer:
    """Computes the probability of each span of a context, and that of no answer.

    The score of a span is the sum of its start and end logits, as in the signature
    `serving_default`; the probabilities are the softmax over all spans of all windows
    that are short enough, and over the least no-answer score of a window.

    Args:
        task: The signatures of the model.
        texts: `question` and `context`.
        ask: Calls a signature on ids.
    """
    question, context = texts["question"], texts["context"]
    tokens = task.tokenizer.tokenize(tf.constant([context]))
    windows = task.windows(task.tokenizer.tokenize(tf.constant([question])), tokens)
    # Of the span from a token over a number of further ones: (N, longest).
    scores = np.full((int(tokens.row_lengths()[0]), task.longest_answer), -np.inf)
    none = np.inf
    for window in range(int(tf.size(windows.text))):
        rows = windows.rows(tf.constant(window), tf.constant(window + 1))
        padded = {name: getattr(rows, name) for name in task.id_inputs}
        inputs = {name: ids[0] for name, ids in without_padding(padded).items()}
        outputs = ask("read_ids", inputs)
        length = len(inputs["token_ids"])
        start, end = (outputs[f"{n}_logits"][:length] for n in ("start", "end"))
        none = min(none, float(start[0] + end[0]))
        inside = np.flatnonzero(rows.inside.numpy()[0])
        if not len(inside):
            continue  # an empty context
        first = int(inside[0] + rows.to_text.numpy()[0])
        start, end = start[inside], end[inside]
        for further in range(min(task.longest_answer, len(inside))):
            found = start[: len(start) - further] + end[further:]
            known = scores[first : first + len(found), further]
            np.maximum(known, found, out=known)
    shares = softmax(np.append(scores.ravel(), none))
    kept = np.argsort(-shares[:-1], kind="stable")[:_MOST]
    kept = kept[shares[kept] >= _LEAST]
    [found] = task.tokenizer.tokenize_with_offsets([context])
    names, shown, values = [""], [""], [shares[-1]]
    for index in kept.tolist():
        first, further = divmod(index, task.longest_answer)
        begin, end = found.offsets[first][0], found.offsets[first + further][1]
        text = context[begin:end]
        begin += len(text) - len(text.lstrip())
        name = f"{begin}-{begin + len(text.strip())}"
        if name not in names:
            names.append(name)
            shown.append(text.strip())
            values.append(shares[index])
    outcomes = Outcomes(tuple(names), tuple(shown))
    return Answer("spans", outcomes, [Prediction(0, "", np.array(values))])
