"""A small run of every objective, each with tokenizers that fit it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.harness.stages import stage
from tests.small_run import SENTENCE, WORDS
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.tokenizer import UnigramConfig, WordPieceConfig
from transbeam.pipeline.stage import data
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model

YAML = """
name: job
seed: 5
data:
  source: {SOURCE}
  sequence_length: 32
  shard_megabytes: 0.006
  validation_fraction: 0.2
  LAYOUT
tokenizer: {TOKENIZER}
objective: {OBJECTIVE}
"""

TEXTS = "kind: jsonl, path: FOLDER/documents.jsonl"
WORDPIECE = "kind: wordpiece, vocabulary_size: 120"
BYTES = "kind: byte_bpe, vocabulary_size: 300"
ROBERTA = f"{BYTES}, specials: roberta"
T5 = "kind: unigram, vocabulary_size: 64, num_sentinels: 12"
ALBERT = "kind: unigram, vocabulary_size: 64, specials: albert"


@dataclass(frozen=True)
class Case:
    """An objective with a source and a tokenizer; what its records look like.

    Attributes:
        objective: YAML.
        tokenizer: YAML.
        source: YAML.
        layout: More YAML for `data`.
        model: YAML, if the records depend on it.
        shown: What `--inspect` must show of the first record, as it stands there.
    """

    objective: str
    tokenizer: str
    source: str = TEXTS
    layout: str = ""
    model: str = ""
    shown: tuple[str, ...] = ("token_ids  ",)


def with_columns(columns: str) -> str:
    return f"{TEXTS}, columns: {{{columns}}}"


CASES = {
    "masked": Case("kind: masked, copies: 2", WORDPIECE, shown=("[CLS] ", "[MASK]{")),
    "masked_dynamic": Case(
        "kind: masked, masking: dynamic, whole_words: true",
        ROBERTA,
        layout="compression: gzip",
        shown=("<s> ", " </s>", "word_ids  "),
    ),
    "masked_bucketed": Case(
        "kind: masked",
        "kind: pretrained, path: FOLDER/vocab.txt",
        layout="layout: {kind: bucketed, lengths: [16, 32]}",
    ),
    "sentence_pairs": Case("kind: sentence_pairs", ALBERT, shown=("[SEP] ", "label  ")),
    "sentence_order": Case(
        "kind: sentence_pairs, task: sentence_order",
        ALBERT,
        shown=("[SEP] ", "label  "),
    ),
    "causal": Case("kind: causal", BYTES, shown=("<|endoftext|>", "target_ids  ")),
    "prefix": Case("kind: prefix", T5, shown=("</s>", "prefix_mask  ")),
    "span_corruption": Case(
        "kind: span_corruption",
        T5,
        shown=("encoder_token_ids  ", "decoder_token_ids  ", "<extra_id_0>"),
    ),
    "seq2seq": Case(
        "kind: seq2seq, decoder_length: 16",
        "kind: pretrained, path: FOLDER/unigram",
        with_columns("target_text: target"),
        shown=("encoder_token_ids  ", "decoder_token_ids  <pad> ", "target_ids  "),
    ),
    "text_to_text": Case(
        "kind: text_to_text, source: 'mood: {text}', target: 'it is {label}', "
        "decoder_length: 16",
        "kind: pretrained, path: FOLDER/unigram",
        with_columns("label: mood"),
        shown=("encoder_token_ids  ▁ m o o d ", "decoder_token_ids  <pad> "),
    ),
    "completion": Case(
        "kind: completion, prompt: 'mood of {text} is: ', answer: '{label}'",
        BYTES,
        with_columns("label: mood"),
        shown=("token_ids  ", "\n  target_ids  Ġ c ", "<|endoftext|>"),
    ),
    "dialogue": Case(
        "kind: dialogue, chat_template: plain",
        BYTES,
        "kind: jsonl, path: FOLDER/talks.jsonl, columns: {messages: messages}",
        shown=("token_ids  ", "\n  target_ids  ", "<|endoftext|>"),
    ),
    "classification": Case(
        "kind: classification, labels: [calm, cross]",
        "kind: pretrained, path: FOLDER/vocab.txt",
        with_columns("label: mood"),
        shown=("[CLS] ", "label  "),
    ),
    "multi_label_classification": Case(
        "kind: multi_label_classification, labels: [calm, cross, sad]",
        WORDPIECE,
        with_columns("label: mood"),
        shown=("[CLS] ", "label  "),
    ),
    "pair_classification": Case(
        "kind: pair_classification, labels: [calm, cross]",
        WORDPIECE,
        with_columns("second_text: title, label: mood"),
        shown=("[SEP] ", "segment_ids  ", "label  "),
    ),
    "decoder_pairs": Case(
        "kind: pair_classification, labels: [calm, cross]",
        BYTES,
        with_columns("second_text: title, label: mood"),
        model="kind: decoder, pooler: {kind: end_token}",
        shown=("<|endoftext|>", "segment_ids  ", "label  "),
    ),
    "decoder_tags": Case(
        "kind: token_classification, labels: [O, NOUN]",
        BYTES,
        with_columns("words: words, tags: tags"),
        model="kind: decoder",
        shown=("label_ids  ",),
    ),
    "regression": Case(
        "kind: regression",
        WORDPIECE,
        with_columns("label: stars"),
        shown=("[CLS] ", "label  "),
    ),
    "pair_regression": Case(
        "kind: pair_regression",
        WORDPIECE,
        with_columns("second_text: title, label: stars"),
        shown=("[SEP] ", "segment_ids  ", "label  "),
    ),
    "token_classification": Case(
        "kind: token_classification, labels: [O, NOUN]",
        ROBERTA,
        with_columns("words: words, tags: tags"),
        shown=("<s> ", "label_ids  "),
    ),
    "span_qa": Case(
        "kind: span_qa, stride: 8, max_question_length: 8",
        "kind: pretrained, path: FOLDER/wordpiece",
        "kind: squad, path: FOLDER/questions.json",
        shown=("[SEP] ", "start_position  ", "end_position  "),
    ),
    "contrastive_pairs": Case(
        "kind: contrastive_pairs, hard_negatives: true",
        WORDPIECE,
        with_columns("second_text: title, negative_text: target"),
        shown=("[SEP] ‖ [CLS] ", "text_hashes  "),
    ),
    "decoder_vectors": Case(
        "kind: contrastive_pairs, hard_negatives: true",
        BYTES,
        with_columns("second_text: title, negative_text: target"),
        model="kind: decoder, pooler: {kind: end_token}",
        shown=("<|endoftext|> ‖ ", "text_hashes  "),
    ),
    "image_classification": Case(
        "kind: image_classification, labels: ['0', '1', '2'], image_size: 4",
        WORDPIECE,
        "kind: arrays, path: FOLDER/images.npz",
        shown=("image  [", "label  "),
    ),
}


def words_from(start: int, count: int) -> list[str]:
    return [WORDS[place % len(WORDS)] for place in range(start, start + count)]


def documents(count: int) -> Iterator[dict[str, Any]]:
    """Different documents of one to four sentences, with all that can go with them."""
    for i in range(count):
        sentences = [words_from(i * 7 + s, 3 + (i + s) % 9) for s in range(1 + i % 4)]
        words = [*sentences[0], str(i)]
        yield {
            "text": f"{i} "
            + " ".join(f"{' '.join(s).capitalize()}." for s in sentences),
            "title": " ".join(words_from(i, 4)),
            "target": f"{words[-2]} {i}",
            "mood": ("calm", "cross")[i % 2],
            "stars": i % 5 - 0.5,
            "words": words,
            "tags": ["NOUN" if len(word) > 4 else "O" for word in words],
        }


def questions(count: int) -> Iterator[dict[str, Any]]:
    """Paragraphs longer than a record, with a question each."""
    for i in range(count):
        context = f"{SENTENCE} {i} {SENTENCE}"
        start = context.index(WORDS[i % 12])
        answer = {"text": WORDS[i % 12], "answer_start": start}
        asked = {"question": f"what is word {i % 12}?", "answers": [answer]}
        yield {"paragraphs": [{"context": context, "qas": [asked]}]}


def talks(count: int) -> Iterator[dict[str, Any]]:
    """Conversations of one to three turns, some longer than a record."""
    for i in range(count):
        messages = [{"role": "system", "content": "Hi."}] if i % 3 == 0 else []
        for turn in range(1 + i % 3):
            question = f"{words_from(i + turn, 1)[0][:5]} {i}"
            messages += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": words_from(i * turn, 1)[0]},
            ]
        yield {"messages": messages}


def write_corpora(folder: Path) -> None:
    """The corpora of all cases, and the tokenizers that are brought along."""
    lines = "".join(f"{json.dumps(row)}\n" for row in documents(80))
    (folder / "documents.jsonl").write_text(lines, "utf-8")
    lines = "".join(f"{json.dumps(row)}\n" for row in talks(80))
    (folder / "talks.jsonl").write_text(lines, "utf-8")
    squad = {"data": list(questions(30))}
    (folder / "questions.json").write_text(json.dumps(squad), "utf-8")
    images = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(40) % 3)

    counts = {word: 5 + len(word) for word in WORDS}
    wordpiece = learn_model(counts, WordPieceConfig(vocabulary_size=90))
    save_tokenizer(folder / "wordpiece", wordpiece)
    vocabulary = (folder / "wordpiece/vocab.txt").read_bytes()
    (folder / "vocab.txt").write_bytes(vocabulary)
    unigram = UnigramConfig(vocabulary_size=40)
    save_tokenizer(folder / "unigram", learn_model(counts, unigram))


def corpora() -> Path:
    """The folder of `write_corpora`, of which the records of each case are made."""
    return stage("cases", write_corpora)


def finished(name: str) -> Invocation:
    """A case whose data job is done, with its result in `data/stage.json`."""

    def make(folder: Path) -> None:
        data(_invocation(folder, corpora(), name))

    return _invocation(stage(f"case-{name}", make), corpora(), name)


def invocation(folder: Path, name: str, *beam: str) -> Invocation:
    """A case, to be run in a folder of its name below another."""
    return _invocation(folder, corpora(), name, *beam)


def _invocation(folder: Path, corpora: Path, name: str, *beam: str) -> Invocation:
    case = CASES[name]
    text = YAML
    for key in ("source", "layout", "tokenizer", "objective"):
        text = text.replace(key.upper(), getattr(case, key))
    if case.model:
        text += f"model: {{{case.model}}}\n"
    file = folder / f"{name}.yaml"
    if not file.exists():
        file.write_text(text.replace("FOLDER", str(corpora)), "utf-8")
    return Invocation(
        config=load_run(file),
        config_file=file,
        overrides=(),
        run_folder=folder / name,
        console=Console(quiet=True),
        workers=1,
        beam_options=beam,
    )
