"""A tokenizer of bytes and words, questions, and a task."""

from typing import Any

from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.task_file import GenerationTaskConfig
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_folder import build_tokenizer
from transbeam.trainer.tasks.questions import Question

END = "<|endoftext|>"
# Joins a space and an a, and b and c.
MODEL = ByteBPEModel(
    pieces=(*ALPHABET, "Ġa", "bc", END), merges=(("Ġ", "a"), ("b", "c"))
)
TOKENIZER = build_tokenizer(MODEL)


def task(**keys: Any) -> GenerationTaskConfig:
    given = {"name": "t", "source": TextSourceConfig(path="a"), "prompt": "{text}"}
    return GenerationTaskConfig(**{**given, **keys})


def question(prompt: str, *answers: str, right: int = 0, offset: int = 0) -> Question:
    return Question("q.csv", offset, prompt, answers or ("a",), right)


def text_of(ids) -> str:
    written = "".join(TOKENIZER.pieces[token] for token in ids)
    return written.replace("Ġ", " ").replace("Ċ", "\n")
