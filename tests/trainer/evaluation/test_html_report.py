"""The report stands alone, is well-formed and shows texts as they are."""

from html.parser import HTMLParser

import numpy as np
import pytest

from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.split_calibration import (
    Temperature,
    calibrate_split,
)
from transbeam.trainer.evaluation.calibration_findings import CalibrationFindings
from transbeam.trainer.evaluation.collectors import Confusions
from transbeam.trainer.evaluation.error_analysis import ErrorAnalysis
from transbeam.trainer.evaluation.examples import Example
from transbeam.trainer.evaluation.html_report import report
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.objectives.targets import Target

EMPTY = {"meta", "img", "rect", "br"}
SPIKED = "<script>alert('&')</script>"


class Checked(HTMLParser):
    """Collects text and attributes, and sees that what is opened is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.sources: list[str] = []
        self.pictures: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe")
        links = [v for k, v in attrs if k in ("src", "href")]
        self.sources += [link for link in links if not link.startswith("#")]
        self.pictures += [v for k, v in attrs if tag == "svg" and k == "aria-label"]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def page_of(
    labels: tuple[str, ...],
    table: np.ndarray,
    calibration: CalibrationFindings | None = None,
) -> Checked:
    pixels = Document("", "0.png", 0, label="a", image=bytes(4), image_shape=(2, 2, 1))
    documents = [Document(SPIKED, "a.txt", 7), pixels]
    held_out = ValidationDocuments(
        (DocumentBatch.from_documents(documents),), (np.arange(2),), {}
    )
    confusions = Confusions(Target("logits", "label"), labels)
    confusions.table += table
    examples = [
        Example("a.txt", 7, 2.5, SPIKED, "yes", SPIKED, 0),
        Example("0.png", 0, 1.0, "", "a", "b", 1),
    ]
    scores = {
        "accuracy": Interval(0.75, 0.7, 0.8),
        "perplexity": Interval(12.3, 11.0, 14.0),
        "macro_f1": Interval(0.5, float("nan"), float("nan")),
    }
    findings = ErrorAnalysis(examples=examples, confusions=confusions)
    facts = {"k": "v"}
    more = {} if calibration is None else {"calibration": calibration}
    return Checked(report("A & B", "told", facts, scores, findings, held_out, **more))


def test_a_table_of_few_classes() -> None:
    page = page_of(("no", "yes"), np.array([[31, 2], [3, 44]]))
    told = " ".join(page.texts)
    assert SPIKED in told
    for value in ("0.7500", "0.7000 to 0.8000", "12.30", "– to –", "31", "44"):
        assert value in told
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert len(page.sources) == 1


def test_the_reliability_of_probabilities_as_a_picture_and_in_numbers() -> None:
    # Three of four are right where 0.9 is predicted, one of two where 0.6 is.
    shares = np.array([0.9] * 4 + [0.6] * 2)
    logits = np.log(np.stack([shares, 1 - shares], axis=1)).astype(np.float32)
    targets = np.array([0, 0, 0, 1, 0, 1])
    found = ClassLogits(logits, targets, np.arange(6), 6)
    split = calibrate_split(found, 0, Temperature(0.5, "fitted elsewhere"))
    page = page_of(("no", "yes"), np.eye(2, dtype=np.int64), CalibrationFindings(split))
    told = " ".join(page.texts)
    assert "observed frequency" in told  # of the picture's axis
    row = [cell.strip() for cell in page.texts[page.texts.index("0.867 to 0.933") :]]
    assert [cell for cell in row if cell][:5] == [
        *("0.867 to 0.933", "4", "0.900", "0.750", "0.301 to 0.954")
    ]
    assert "0.000 to 0.067" not in told  # nothing was predicted with it
    assert "temperature 0.500, fitted elsewhere: nats" in told
    # 0.81 : 0.01 and 0.36 : 0.16, which are 0.9878 and 0.6923.
    row = page.texts[page.texts.index("In numbers: temperature 0.5") :]
    assert {"0.988", "0.692"} <= {cell.strip() for cell in row}
    (picture,) = [label for label in page.pictures if label]
    assert "how often the predicted class is right; as trained and temp" in picture


@pytest.mark.parametrize("count", [21, 40])
def test_of_many_classes_the_most_frequent_mistakes(count) -> None:
    table = np.eye(count, dtype=np.int64) * 100
    table[3, 7], table[4, 2] = 9, 5
    page = page_of(tuple(f"class {n}" for n in range(count)), table)
    at = page.texts.index("class 3")
    assert page.texts[at : at + 3] == ["class 3", "class 7", "9"]
    assert page.texts[at + 3 : at + 6] == ["class 4", "class 2", "5"]
