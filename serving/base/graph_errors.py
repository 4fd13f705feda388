"""Shortens TensorFlow graph errors for clients to the reason, without locations."""

import re

# "Detected at node X defined at (most recent call last):" and the stack below it.
_PLACE = re.compile(
    r"^(?:Detected at node .*?(?:<stack traces unavailable>\n+|\n\n(?=\S)))+", re.DOTALL
)
# "2 root error(s) found.\n  (0) CODE: what\n ...\n  (1) ...".
_FIRST_OF_ALL = re.compile(
    r"^\d+ root error\(s\) found\.\s*\(0\) (?:[A-Z_ ]+: )?(.*?)(?:\n\s*\(1\) .*)?$",
    re.DOTALL,
)
_NODES = re.compile(
    r"\s*\[\[(?:\{\{[^}]*\}\})+\]\]|\n\s*\[\[[\w/]+\]\](?=\s|$)"
    r"|\{\{(?:function_)?node [^}]*\}\}\s*"
    r"|\b(?:Stateful)?PartitionedCall[\w/.:]*\s*"
    r"|\s*\[Op:[^\]]*\]|,? name: [\w/]+$|\n\d+ (?:successful|derived) .*$",
    re.MULTILINE,
)
_ASSERTION = re.compile(r"assertion failed: \[((?:(?!\] \[).)*)\]", re.DOTALL)


def plain_message(message: str) -> str:
    r"""Removes graph locations, which are useless to a client, from an error message.

    Removes node and function names and Python stack traces. If there are several root
    errors, the first one is returned; for a failed assertion, its message is returned.

    Example:
    >>> plain_message(
    ...     "Graph execution error:\n\nDetected at node Assert defined at (most recent "
    ...     "call last):\n<stack>\n\nassertion failed: [top_p: found 2]\n\t "
    ...     "[[{{node Assert}}]] [Op:__inference_f_12]"
    ... )
    'top_p: found 2'
    """
    kept = message.split("\n\nOriginal stack trace")[0]
    kept = kept.removeprefix("Graph execution error:").strip()
    kept = _PLACE.sub("", kept)
    kept = _FIRST_OF_ALL.sub(r"\1", kept)
    kept = _NODES.sub("", kept).strip()
    assertion = _ASSERTION.fullmatch(kept)
    return (assertion.group(1) if assertion else kept) or "no message"
