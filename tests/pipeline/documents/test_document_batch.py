from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.documents.document import Document, document_key
from transbeam.pipeline.documents.document_batch import DocumentBatch

TEXT_FIELDS = ("text", "second_text", "target_text", "negative_text")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DOCUMENTS = st.builds(
    Document,
    text=TEXTS,
    source=st.sampled_from(["a.txt", "b/c.csv", "ü.txt"]),
    offset=st.integers(0, 2**40),
    second_text=TEXTS,
    target_text=TEXTS,
    label=TEXTS,
    words=st.lists(TEXTS, max_size=3).map(tuple),
    tags=st.lists(TEXTS, max_size=3).map(tuple),
    answers=st.lists(st.tuples(st.integers(0, 99), TEXTS), max_size=2).map(tuple),
    image=st.binary(max_size=12),
    image_shape=st.sampled_from([(), (2, 2, 3)]),
    messages=st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    negative_text=TEXTS,
    choices=st.lists(TEXTS, max_size=3).map(tuple),
    references=st.lists(TEXTS, max_size=2).map(tuple),
)


def documents_in(batch: DocumentBatch) -> list[Document]:
    columns = {
        name: batch.values(name) for name in Document._fields if name not in TEXT_FIELDS
    }
    for name in TEXT_FIELDS:
        columns[name] = [text.decode("utf-8") for text in batch.texts(name)]
    for name in ("words", "tags", "image_shape", "choices", "references"):
        columns[name] = [tuple(value) for value in columns[name]]
    columns["answers"] = [
        tuple((answer["offset"], answer["text"]) for answer in row)
        for row in columns["answers"]
    ]
    columns["messages"] = [
        tuple((message["role"], message["content"]) for message in row)
        for row in columns["messages"]
    ]
    columns["image"] = [bytes(value) for value in columns["image"]]
    rows = zip(*columns.values(), strict=True)
    return [Document(**dict(zip(columns, row, strict=True))) for row in rows]


@given(st.lists(DOCUMENTS, max_size=6))
def test_saved_and_loaded_is_the_same(tmp_path_factory, documents) -> None:
    path: Path = tmp_path_factory.mktemp("batch") / "part.arrow"
    batch = DocumentBatch.from_documents(documents)
    batch.save(path)
    loaded = DocumentBatch.load(path)
    assert documents_in(loaded) == documents_in(batch) == documents
    assert loaded.keys.tolist() == [document_key(d) for d in documents]


def test_columns_nobody_has_are_left_out() -> None:
    batch = DocumentBatch.from_documents([Document("a", "f", 0), Document("b", "f", 2)])
    assert batch.table.column_names == ["text", "source", "offset"]
    assert batch.values("words") == [[], []]
    assert batch.texts("target_text").tolist() == [b"", b""]


def test_copies_stand_side_by_side_with_keys_of_their_own() -> None:
    batch = DocumentBatch.from_documents([Document(text, "f", 0) for text in "abc"])
    copied = batch.with_copies(np.array([1, 0, 3]))
    assert copied.texts().tolist() == [b"a", b"c", b"c", b"c"]
    assert copied.keys[:2].tolist() == batch.keys[[0, 2]].tolist()
    assert len(set(copied.keys.tolist())) == 4


def test_every_field_of_a_document_is_in_its_key() -> None:
    plain = Document("text", "a.txt", 0)
    variants = [
        plain,
        Document("text", "a.txt", 0, second_text="x"),
        Document("text", "a.txt", 0, target_text="x"),
        Document("text", "a.txt", 0, label="x"),
        Document("text", "a.txt", 0, words=("x",)),
        Document("text", "a.txt", 0, tags=("x",)),
        Document("text", "a.txt", 0, answers=((0, "x"),)),
        Document("text", "a.txt", 0, image=b"x", image_shape=(1, 1, 1)),
        Document("text", "a.txt", 0, image=b"y", image_shape=(1, 1, 1)),
        Document("text", "a.txt", 0, negative_text="x"),
        Document("text", "a.txt", 0, choices=("x",)),
        Document("text", "a.txt", 0, references=("x",)),
    ]
    assert len({document_key(document) for document in variants}) == len(variants)
    assert document_key(Document("text", "b.txt", 9)) == document_key(plain)


def test_documents_without_newer_fields_keep_the_keys_of_older_versions() -> None:
    """By the key a document is in its split, in the same place of its shard."""
    pair = Document("a", "f", 0, second_text="b", label="c")
    pair = pair._replace(image=b"x", image_shape=(1, 1, 1))
    assert document_key(pair) == 0x2A4F0B8E13F49DA3
    assert document_key(pair._replace(negative_text="n")) != 0x2A4F0B8E13F49DA3
    assert document_key(pair._replace(choices=("n",))) != 0x2A4F0B8E13F49DA3
