"""JSON schemas of what the page shows of a run, for the server's OpenAPI document."""

from transbeam.serving.studio.run_results.run_results import PANELS
from transbeam.serving.studio.run_results.stage_states import STATES
from transbeam.serving.studio.schemas import (
    COUNT,
    FLAG,
    TEXT,
    Schema,
    list_of,
    object_of,
    or_null,
)

_MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_NUMBERS: Schema = {"type": "object", "additionalProperties": {"type": "number"}}
_FILE: Schema = {"description": "A path for `file`", **_MAYBE_TEXT}


def _object(optional: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return object_of(properties, optional)


_STAGE = _object(
    name=TEXT,
    state={"enum": list(STATES)},
    command=TEXT,
    summary=_MAYBE_TEXT,
    seconds=_MAYBE_NUMBER,
    peak_memory_mb=_MAYBE_NUMBER,
    finished=_MAYBE_TEXT,
    error=_MAYBE_TEXT,
)

_DATA_NAMES = {
    "objective": TEXT,
    "source": TEXT,
    "tokenizer": TEXT,
    "vocabulary_size": _MAYBE_NUMBER,
    "source_files": COUNT,
    "source_bytes": _MAYBE_NUMBER,
    "record_bytes": _MAYBE_NUMBER,
    "shards": COUNT,
    "leaks_prevented": _MAYBE_NUMBER,
    "splits": list_of(
        _object(
            name=TEXT,
            documents=_MAYBE_NUMBER,
            records=_MAYBE_NUMBER,
            tokens=_MAYBE_NUMBER,
            unknown_tokens=_MAYBE_NUMBER,
            predictions=_MAYBE_NUMBER,
            padding=_MAYBE_NUMBER,
        )
    ),
    "documents": list_of(_object(fate=TEXT, reason=TEXT, count={"type": "number"})),
    "lengths": list_of(
        _object(
            split=TEXT,
            step={"description": "Lengths per bar", **COUNT},
            longest=COUNT,
            counts=list_of(COUNT),
        )
    ),
    "labels": list_of(
        _object(label=TEXT, train=_MAYBE_NUMBER, validation=_MAYBE_NUMBER)
    ),
    "frequent": list_of(_object(piece=TEXT, count={"type": "integer"})),
    "features": list_of(
        _object(name=TEXT, dtype=TEXT, shape=list_of(COUNT), meaning=TEXT)
    ),
    "card": _FILE,
}
# Of an imported run only the first is there.
DATA = _object(tuple(_DATA_NAMES), is_imported=FLAG, **_DATA_NAMES)

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
    tuple(_TRAINING_NAMES), is_imported=FLAG, is_finished=FLAG, **_TRAINING_NAMES
)

HEADS = _object(
    steps={"description": "Of each analysis", **list_of(_MAYBE_NUMBER)},
    idle_heads=list_of(_MAYBE_NUMBER),
    statistics=list_of(
        _object(
            name=TEXT,
            rows={"description": "Layer and head, or block", **list_of(TEXT)},
            columns={
                "description": "A value of each row, for each analysis",
                **list_of(list_of(_MAYBE_NUMBER)),
            },
        )
    ),
)

EVALUATIONS = _object(
    evaluations=list_of(
        _object(
            name={"description": "Its folder in `evaluation`", **TEXT},
            model=_MAYBE_TEXT,
            summary=_MAYBE_TEXT,
            numbers=_NUMBERS,
            scores=list_of(
                _object(
                    name=TEXT,
                    score=_MAYBE_NUMBER,
                    low=_MAYBE_NUMBER,
                    high=_MAYBE_NUMBER,
                    difference={
                        "description": "From the run's own model, of an export",
                        **_MAYBE_NUMBER,
                    },
                )
            ),
            confusions=or_null(
                _object(
                    labels=list_of(TEXT),
                    counts={
                        "description": "Of each class how often each was guessed",
                        **or_null(list_of(list_of(COUNT))),
                    },
                    errors=list_of(_object(target=TEXT, guess=TEXT, count=COUNT)),
                )
            ),
            examples=list_of(
                _object(
                    source=TEXT,
                    nats=_MAYBE_NUMBER,
                    error=_MAYBE_NUMBER,
                    text=TEXT,
                    second_text=TEXT,
                    target=TEXT,
                    guess=TEXT,
                )
            ),
            report=_FILE,
        )
    )
)

_TARGET: Schema = {"enum": ["export", "phone"]}
_LATENCY = _object(threads=_MAYBE_TEXT, tokens=_MAYBE_TEXT, ms=_MAYBE_NUMBER)
EXPORTS = _object(
    forms=list_of(
        _object(
            target=_TARGET,
            name=TEXT,
            path=TEXT,
            bytes=_MAYBE_NUMBER,
            latencies=list_of(_LATENCY),
        )
    ),
    checks=list_of(
        _object(
            target=_TARGET,
            form=TEXT,
            check=TEXT,
            value=_MAYBE_NUMBER,
            limit=_MAYBE_NUMBER,
            passed=FLAG,
        )
    ),
    metrics=list_of(
        _object(
            target=_TARGET,
            metric=TEXT,
            model=TEXT,
            score={"type": "number"},
        )
    ),
    picture=_FILE,
)

ANALYSIS = _object(
    checkpoint=_MAYBE_NUMBER,
    parts=list_of(
        _object(
            name=TEXT,
            title=TEXT,
            summary=TEXT,
            texts=TEXT,
            notes=list_of(TEXT),
            figures=list_of(_object(file=TEXT, caption=TEXT)),
        )
    ),
    report=_FILE,
)

SWEEP = _object(
    name=TEXT,
    runs=list_of(
        _object(
            run=TEXT,
            is_this=FLAG,
            replaced=list_of(TEXT),
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
    "heads": HEADS,
    "evaluation": EVALUATIONS,
    "exports": EXPORTS,
    "analysis": ANALYSIS,
    "sweep": SWEEP,
}
RUN_RESULTS = _object(
    run=TEXT,
    stages=list_of(_STAGE),
    **{
        panel: _object(
            found=or_null(_FOUND[panel]),
            error={"description": "Damage of its files", **_MAYBE_TEXT},
            command={"description": "Makes it", **_MAYBE_TEXT},
        )
        for panel in PANELS
    },
)

LOG = _object(
    file={"description": "Identifies the log, for the next request", **TEXT},
    start={"description": "The first byte of these lines", **COUNT},
    next={"description": "`after` of the next request", **COUNT},
    rows=list_of(_NUMBERS),
    damaged={"description": "Lines that are no numbers", **COUNT},
    is_whole={"description": "False if there are more lines", **FLAG},
    is_finished={"description": "Whether the training is finished", **FLAG},
)

_ROW = _object(
    name=TEXT,
    pieces=list_of(TEXT),
    starts_word=list_of(FLAG),
    special=list_of(FLAG),
    documents=list_of({"description": "Of each token, from 1", **COUNT}),
    targets=list_of({"description": "The masked token", **_MAYBE_TEXT}),
    tags=list_of(_MAYBE_TEXT),
    given=list_of({"description": "Of the prefix, or of the answer", **FLAG}),
    left_out={"description": "Further tokens", **COUNT},
    padding=COUNT,
)
SAMPLES = _object(
    split={"enum": ["train", "validation"]},
    first=COUNT,
    records=list_of(
        _object(
            number=COUNT,
            rows=list_of(_ROW),
            values=list_of(_object(name=TEXT, text=TEXT)),
        )
    ),
)
