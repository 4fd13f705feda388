"""The three sources are one: the same functions in the same order, the same numbers.

Few machines have a compiler of Swift. What can be held without one is that its source
has no part, and no number in a part, that the Kotlin one has not.
"""

import ast
import re
from pathlib import Path

import pytest

from transbeam.serving.phone.tokenizer.sources import tokenizer

FOLDER = Path(tokenizer.__file__).parent
# Ways to read JSON, bytes and heaps, which each language has of its own.
OF_ONE_LANGUAGE = {
    *("init", "contains", "load", "main", "check", "checked"),
    *("damaged", "whole", "groups", "as_float", "code_points", "bytes", "from_base64"),
    *("ints", "arrays", "objects", "strings", "int_or_null", "get", "optional"),
    *(
        "fields",
        "base64",
        "precedes",
        "push",
        "pop",
        "text_of",
        "utf8",
        "number",
        "numbered",
    ),
    *("replacing", "split", "is_equal"),
}
NUMBER = re.compile(r"\b(?:0[xX][0-9A-Fa-f_]+|\d[\d_]*)\b")
DECLARED = re.compile(
    r"\bfunc? (?:JSON\w+\.)?(\w+)[(<]|\n(?:\w+ )*(?:class|struct) \w+"
)
COMMENT = re.compile(r"//.*|^ *(/\*|\*).*", re.MULTILINE)


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().strip("_")


def functions_of(name):
    """Each function's name and what follows up to the next one, or to a class."""
    text = COMMENT.sub("", (FOLDER / name).read_text("utf-8"))
    found = [(snake(m[1] or "init"), m.start()) for m in DECLARED.finditer(text)]
    ends = [start for _, start in found[1:]] + [len(text)]
    pairs = zip(found, ends, strict=True)
    parts = [(name, text[start:end]) for (name, start), end in pairs]
    return [part for part in parts if part[0] not in OF_ONE_LANGUAGE]


def numbers_of(text):
    found = {int(n.replace("_", ""), 0) for n in NUMBER.findall(text)}
    return {n for n in found if n > 2}


@pytest.mark.parametrize("name", ["Tokenizer.kt", "Tokenizer.swift"])
def test_the_functions_are_those_of_the_python_source(name):
    tree = ast.parse((FOLDER / "tokenizer.py").read_text("utf-8"))
    defined = sorted(
        (node.lineno, snake(node.name))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )
    expected = [each for _, each in defined if each not in OF_ONE_LANGUAGE]
    assert [each for each, _ in functions_of(name)] == expected
    assert len(expected) > 40


def test_the_numbers_of_the_swift_source_are_those_of_the_kotlin_one():
    kotlin, swift = map(functions_of, ("Tokenizer.kt", "Tokenizer.swift"))
    for (name, one), (_, other) in zip(kotlin, swift, strict=True):
        assert numbers_of(one) == numbers_of(other), name
    assert any(0x800000FF in numbers_of(text) for _, text in swift)


@pytest.mark.parametrize("name", ["Tokenizer.kt", "Tokenizer.swift"])
def test_brackets_are_closed(name):
    text = (FOLDER / name).read_text("utf-8")
    text = re.sub(r'"(\\.|[^"\\\n])*"|//.*|\'(\\.|[^\'\\])\'', "", text)
    for opening, closing in ("()", "[]", "{}"):
        assert text.count(opening) == text.count(closing)
