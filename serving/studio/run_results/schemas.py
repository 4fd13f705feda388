"""JSON schemas of what the page shows of a run, for the server's OpenAPI document."""

from typing import Any

from transbeam.serving.studio.run_results.run_results import PANELS
from transbeam.serving.studio.run_results.stage_states import STATES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_NUMBERS: Schema = {"type": "object", "additionalProperties": {"type": "number"}}
_FILE: Schema = {"description": "A path for `file`", **_MAYBE_TEXT}


def _object(optional: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_STAGE = _object(
    name=_TEXT,
    state={"enum": list(STATES)},
    command=_TEXT,
    summary=_MAYBE_TEXT,
    seconds=_MAYBE_NUMBER,
    peak_memory_mb=_MAYBE_NUMBER,
    finished=_MAYBE_TEXT,
    error=_MAYBE_TEXT,
)

_DATA_NAMES = {
    "objective": _TEXT,
    "source": _TEXT,
    "tokenizer": _TEXT,
    "vocabulary_size": _MAYBE_NUMBER,
    "source_files": _COUNT,
    "source_bytes": _MAYBE_NUMBER,
    "record_bytes": _MAYBE_NUMBER,
    "shards": _COUNT,
    "leaks_prevented": _MAYBE_NUMBER,
    "splits": _list(
        _object(
            name=_TEXT,
            documents=_MAYBE_NUMBER,
            records=_MAYBE_NUMBER,
            tokens=_MAYBE_NUMBER,
            unknown_tokens=_MAYBE_NUMBER,
            predictions=_MAYBE_NUMBER,
            padding=_MAYBE_NUMBER,
        )
    ),
    "documents": _list(_object(fate=_TEXT, reason=_TEXT, count={"type": "number"})),
    "lengths": _list(
        _object(
            split=_TEXT,
            step={"description": "Lengths per bar", **_COUNT},
            longest=_COUNT,
            counts=_list(_COUNT),
        )
    ),
    "labels": _list(
        _object(label=_TEXT, train=_MAYBE_NUMBER, validation=_MAYBE_NUMBER)
    ),
    "frequent": _list(_object(piece=_TEXT, count={"type": "integer"})),
    "features": _list(
        _object(name=_TEXT, dtype=_TEXT, shape=_list(_COUNT), meaning=_TEXT)
    ),
    "card": _FILE,
}
# Of an imported run only the first is there.
DATA = _object(tuple(_DATA_NAMES), is_imported=_FLAG, **_DATA_NAMES)

_TRAINING_NAMES = {
    "parameters": _MAYBE_NUMBER,
    "trained_parameters": _MAYBE_NUMBER,
    "steps": _MAYBE_NUMBER,
    "skipped_steps": _MAYBE_NUMBER,
    "seconds": _MAYBE_NUMBER,
    "tokens": _MAYBE_NUMBER,
    "tokens_per_second": _MAYBE_NUMBER,
    "report": _FILE,
}
TRAINING = _object(
    tuple(_TRAINING_NAMES), is_imported=_FLAG, is_finished=_FLAG, **_TRAINING_NAMES
)

EVALUATIONS = _object(
    evaluations=_list(
        _object(
            name={"description": "Its folder in `evaluation`", **_TEXT},
            model=_MAYBE_TEXT,
            summary=_MAYBE_TEXT,
            numbers=_NUMBERS,
            scores=_list(
                _object(
                    name=_TEXT,
                    score=_MAYBE_NUMBER,
                    low=_MAYBE_NUMBER,
                    high=_MAYBE_NUMBER,
                    difference={
                        "description": "From the run's own model, of an export",
                        **_MAYBE_NUMBER,
                    },
                )
            ),
            examples=_list(
                _object(
                    source=_TEXT,
                    nats=_MAYBE_NUMBER,
                    error=_MAYBE_NUMBER,
                    text=_TEXT,
                    second_text=_TEXT,
                    target=_TEXT,
                    guess=_TEXT,
                )
            ),
            report=_FILE,
        )
    )
)

_LATENCY = _object(threads=_MAYBE_TEXT, tokens=_MAYBE_TEXT, ms=_MAYBE_NUMBER)
EXPORTS = _object(
    forms=_list(
        _object(
            target={"enum": ["export", "phone"]},
            name=_TEXT,
            path=_TEXT,
            bytes=_MAYBE_NUMBER,
            latencies=_list(_LATENCY),
        )
    ),
    checks=_list(
        _object(
            target={"enum": ["export", "phone"]},
            form=_TEXT,
            check=_TEXT,
            value=_MAYBE_NUMBER,
            limit=_MAYBE_NUMBER,
            passed=_FLAG,
        )
    ),
    metrics=_list(
        _object(
            target={"enum": ["export", "phone"]},
            metric=_TEXT,
            model=_TEXT,
            score={"type": "number"},
        )
    ),
    picture=_FILE,
)

ANALYSIS = _object(
    checkpoint=_MAYBE_NUMBER,
    parts=_list(
        _object(
            name=_TEXT,
            title=_TEXT,
            summary=_TEXT,
            texts=_TEXT,
            notes=_list(_TEXT),
            figures=_list(_object(file=_TEXT, caption=_TEXT)),
        )
    ),
    report=_FILE,
)

SWEEP = _object(
    name=_TEXT,
    runs=_list(
        _object(
            run=_TEXT,
            is_this=_FLAG,
            replaced=_list(_TEXT),
            error=_MAYBE_TEXT,
            loss=_MAYBE_NUMBER,
            scores=_NUMBERS,
            parameters=_MAYBE_NUMBER,
            seconds=_MAYBE_NUMBER,
            tokens_per_second=_MAYBE_NUMBER,
        )
    ),
)

_FOUND = {
    "data": DATA,
    "training": TRAINING,
    "evaluation": EVALUATIONS,
    "exports": EXPORTS,
    "analysis": ANALYSIS,
    "sweep": SWEEP,
}
RUN_RESULTS = _object(
    run=_TEXT,
    stages=_list(_STAGE),
    **{
        panel: _object(
            found=_or_null(_FOUND[panel]),
            error={"description": "Damage of its files", **_MAYBE_TEXT},
            command={"description": "Makes it", **_MAYBE_TEXT},
        )
        for panel in PANELS
    },
)

LOG = _object(
    file={"description": "Identifies the log, for the next request", **_TEXT},
    start={"description": "The first byte of these lines", **_COUNT},
    next={"description": "`after` of the next request", **_COUNT},
    rows=_list(_NUMBERS),
    damaged={"description": "Lines that are no numbers", **_COUNT},
    is_whole={"description": "False if there are more lines", **_FLAG},
    is_finished={"description": "Whether the training is finished", **_FLAG},
)

_ROW = _object(
    name=_TEXT,
    pieces=_list(_TEXT),
    starts_word=_list(_FLAG),
    special=_list(_FLAG),
    documents=_list({"description": "Of each token, from 1", **_COUNT}),
    targets=_list({"description": "The masked token", **_MAYBE_TEXT}),
    tags=_list(_MAYBE_TEXT),
    given=_list({"description": "Of the prefix, or of the answer", **_FLAG}),
    left_out={"description": "Further tokens", **_COUNT},
    padding=_COUNT,
)
SAMPLES = _object(
    split={"enum": ["train", "validation"]},
    first=_COUNT,
    records=_list(
        _object(
            number=_COUNT,
            rows=_list(_ROW),
            values=_list(_object(name=_TEXT, text=_TEXT)),
        )
    ),
)
