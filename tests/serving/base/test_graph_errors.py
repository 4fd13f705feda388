"""Errors of a graph, as TensorFlow words them: what clients are told of them."""

import pytest

from transbeam.serving.base.graph_errors import plain_message

RESHAPE = "Input to reshape is a tensor with 2 values, but the requested shape has 7"
GRAPH = "Graph execution error:\n\n"
STACK = (
    "Detected at node B/Assert defined at (most recent call last):\n"
    "<stack traces unavailable>\n"
)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (f"{RESHAPE}\n\t [[{{{{node Reshape}}}}]]", RESHAPE),
        (f"{RESHAPE}\n\t [[{{{{function_node __f_19}}}}{{{{node a/B}}}}]]", RESHAPE),
        (
            f"{RESHAPE}\n\t [[{{{{node B}}}}]]\n\t [[StatefulPartitionedCall_1]]",
            RESHAPE,
        ),
        (f"{{{{function_node __f_1}}}} {{{{function_node __g}}}} {RESHAPE}", RESHAPE),
        (f"{{{{function_node __wrapped__Reshape}}}} {RESHAPE} [Op:Reshape]", RESHAPE),
        (f"Graph execution error:\n\n{RESHAPE}\n\t [[{{{{node B}}}}]]", RESHAPE),
        (
            "Graph execution error:\n\nDetected at node B defined at (most recent call "
            f'last):\n  File "a.py", line 3, in f\n\n{RESHAPE}\n\t [[{{{{node B}}}}]] '
            "[Op:__inference_f_12]\n\nOriginal stack trace for 'B':\n  File a.py",
            RESHAPE,
        ),
        (
            f"2 root error(s) found.\n  (0) INVALID_ARGUMENT: {RESHAPE}\n\t [[{{{{node "
            f"B}}}}]]\n\t [[C/_3]]\n  (1) INVALID_ARGUMENT: {RESHAPE}\n\t [[{{{{node B"
            "}}]]\n0 successful operations.\n0 derived errors ignored.",
            RESHAPE,
        ),
        (
            "assertion failed: [top_p: found 2] \n\t [[{{node A/Assert}}]]",
            "top_p: found 2",
        ),
        (
            f"{GRAPH}{STACK}{RESHAPE}\n\t [[{{{{node B}}}}]] [Op:__inference_f_7]",
            RESHAPE,
        ),
        (
            f"{GRAPH}{STACK}{STACK}2 root error(s) found.\n  (0) INVALID_ARGUMENT:  "
            f"{RESHAPE}\n\t [[{{{{node A}}}}]]\n\t [[C/_8]]\n  (1) INVALID_ARGUMENT:  "
            f"{RESHAPE}\n\t [[{{{{node A}}}}]]\n0 successful operations.\n0 derived "
            "errors ignored. [Op:__inference_f_7]",
            RESHAPE,
        ),
        (
            "assertion failed: [stop: found [MASK] [x]; expected none]",
            "assertion failed: [stop: found [MASK] [x]; expected none]",
        ),
        (
            "assertion failed: [text: found a [MASK] there]",
            "text: found a [MASK] there",
        ),
        (
            "Shape of tensor StatefulPartitionedCall_3/StatefulPartitionedCall/model_1/"
            "cond/output/_94 [2,2] is not compatible with expected shape [?].",
            "Shape of tensor [2,2] is not compatible with expected shape [?].",
        ),
        ("assertion failed: [found] [9 8]\n\t [[{{node A}}]]", None),
        ("Matrix size-incompatible: In[0]: [1,2], In[1]: [5,5]", None),
        ("no [[tensor]] like that: [[1, 2], [3, 4]]", None),
        ("\n\t [[{{node A}}]]", "no message"),
        ("", "no message"),
    ],
)
def test_where_in_the_graph_is_left_out(message, told):
    found = plain_message(message)
    assert found == (message.split("\n")[0] if told is None else told)
