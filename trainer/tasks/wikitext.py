"""WikiText as it was written: without the spaces and marks of its tokenization.

Words of WikiText are separated from punctuation (`km ( 14 mi ) .`, `2 @.@ 5`), which
models that learned from ordinary text have not seen. Published perplexities, from
GPT-2's on, are of texts in which that is undone, per word of the text as it stands in
the file ([Radford et al.,
2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf),
section 3.1). The replacements, and their order, are those of Megatron-LM, which
lm-evaluation-harness applies, too.
"""

import re

# Brackets and quotation marks, inside of which spaces are removed at both ends.
_ENCLOSING = ("()", "[]", "{}", '""', "''")
_REPLACED = (
    ("= = = =", "===="),
    ("= = =", "==="),
    ("= =", "=="),
    (" \N{DEGREE SIGN} ", "\N{DEGREE SIGN}"),
    (" \n", "\n"),
    ("\n ", "\n"),
    (" N ", " 1 "),
    (" 's", "'s"),
)


def detokenize_wikitext(text: str) -> str:
    """Undoes the tokenization of WikiText.

    Example:
    >>> detokenize_wikitext("Lobsters grow to 60 cm ( 24 in ) , or 2 @.@ 5 ' feet ' .")
    "Lobsters grow to 60 cm (24 in), or 2.5 'feet' ."
    """
    text = text.replace("s '", "s'")
    for mark in "-,.":
        text = text.replace(f" @{mark}@ ", mark)
    for mark in ":;.!?,":
        text = text.replace(f" {mark} ", f"{mark} ")
    for left, right in _ENCLOSING:
        begin, end = re.escape(left), re.escape(right)
        inner = rf"{begin}\s*([^{end}]*?)\s*{end}"
        text = re.sub(inner, rf"{left}\1{right}", text)
    for before, after in _REPLACED:
        text = text.replace(before, after)
    return text
