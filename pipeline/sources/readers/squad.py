"""Reads questions and answers on paragraphs: the JSON of SQuAD 1.1 and 2.0.

A document is a question: `text` is the paragraph, `second_text` the question. Duplicate
answers of annotators are removed; a question that is marked impossible has no answers.
A question is rejected if an answer does not match the paragraph at the answer's offset,
if the question has no answer and is not marked impossible, or if it has an answer and
is marked impossible. A question's offset is its number in the file, counted from 0. A
`hash_range` selects whole articles by their titles, or by the first paragraph of an
article without a title, so that two ranges share no paragraph.

The file is one JSON value and therefore read as a whole.

References:
    - [Rajpurkar et al., 2018](https://arxiv.org/abs/1806.03822)
"""

import json
from collections.abc import Iterator
from typing import Any

from transbeam.configs.schema.table_sources import SquadSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Filtered,
    Item,
    Rejected,
    Span,
)
from transbeam.pipeline.documents.hash_range import OUTSIDE, is_in_range
from transbeam.pipeline.sources.decoding.text_decoding import decode
from transbeam.pipeline.sources.files.file_access import open_file


class _UnusableQuestion(Exception):
    """A question cannot be used for training."""


def read(span: Span, source: SquadSourceConfig) -> Iterator[Item]:
    """Yields a document per question.

    Raises:
        BrokenFile: The file is not JSON, or not SQuAD.
    """
    name = span.file.name
    with open_file(span.file) as stream:
        raw = stream.read()
    for number, (article, context, question) in enumerate(_questions(raw)):
        try:
            document = _document(context, question, name, number)
        except _UnusableQuestion as error:
            shown = json.dumps(question, ensure_ascii=False)
            yield Rejected.from_content(str(error), name, number, shown)
            continue
        if source.hash_range and not _is_in_range(article, source.hash_range):
            yield Filtered(OUTSIDE, name, number, document.size)
        elif source.answers == "texts":
            yield _with_target(document)
        else:
            yield document


def _questions(raw: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """Yields article, paragraph and question as parsed, without validation.

    Malformed articles and paragraphs are yielded in place of their questions, so that
    they are rejected and counted, too.
    """
    try:
        content = json.loads(decode(raw, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BrokenFile("not JSON", str(error)) from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise BrokenFile("not SQuAD JSON", "it has no list 'data'")
    for article in content["data"]:
        for paragraph in _inner(article, "paragraphs"):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for question in _inner(paragraph, "qas"):
                yield article, context, question


def _is_in_range(article: dict[str, Any], hash_range: tuple[float, ...]) -> bool:
    """Returns whether an article, which has a valid question, is in a range."""
    title = article.get("title")
    if not isinstance(title, str) or not title:
        title = json.dumps(article["paragraphs"][0])
    return is_in_range(title.encode("utf-8", "backslashreplace"), hash_range)


def _inner(outer: Any, name: str) -> list[Any]:
    inner = outer.get(name) if isinstance(outer, dict) else None
    return inner if isinstance(inner, list) else [outer]


def _document(context: Any, question: Any, source: str, number: int) -> Document:
    text = _text(context, "context")
    if not isinstance(question, dict):
        raise _UnusableQuestion("a question that is no JSON object")
    question_text = _text(question.get("question"), "question")
    impossible = question.get("is_impossible", False)
    answers = question.get("answers")
    if not isinstance(answers, list):
        raise _UnusableQuestion("no field 'answers'")
    if bool(answers) == bool(impossible):
        what = "marked impossible, yet answered" if impossible else "no answer"
        raise _UnusableQuestion(what)
    found = [_answer(answer, text) for answer in answers]
    return Document(
        text,
        source,
        number,
        second_text=question_text,
        answers=tuple(dict.fromkeys(found)),
    )


def _with_target(document: Document) -> Document | Filtered:
    """Replaces the answers' places by the first answer as the target text.

    Further answers are references.
    """
    name, number = document.source, document.offset
    if not document.answers:
        return Filtered("a question without an answer", name, number, document.size)
    texts = list(dict.fromkeys(text for _, text in document.answers))
    references = tuple(texts) if len(texts) > 1 else ()
    return document._replace(answers=(), target_text=texts[0], references=references)


def _answer(answer: Any, context: str) -> tuple[int, str]:
    if not isinstance(answer, dict):
        raise _UnusableQuestion("an answer that is no JSON object")
    text, offset = _text(answer.get("text"), "text"), answer.get("answer_start")
    if not isinstance(offset, int):
        raise _UnusableQuestion("no field 'answer_start'")
    if offset < 0 or context[offset : offset + len(text)] != text:
        raise _UnusableQuestion("answer offset does not match")
    return offset, text


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _UnusableQuestion(f"no field {name!r}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _UnusableQuestion(f"field {name!r} contains a lone surrogate") from None
    return value
