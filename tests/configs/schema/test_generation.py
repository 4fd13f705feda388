"""A way of writing that is made in Python keeps to the same ranges as a file."""

import math

import numpy as np
import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GenerationConfig,
    SampleConfig,
    SpeculativeConfig,
)

WRONG = [
    (SampleConfig, {"temperature": 0}, "temperature=0 is out of range: .* least 0.01"),
    (SampleConfig, {"temperature": math.nan}, "temperature=nan is not finite"),
    (SampleConfig, {"temperature": np.float32(0)}, "temperature=0.0 is out of range"),
    (SampleConfig, {"top_p": 2.0}, "top_p=2.0 is out of range: .* from 0.0 to 1.0"),
    (SampleConfig, {"top_k": -1}, "top_k=-1 is out of range: it must be at least 0"),
    (SampleConfig, {"min_p": -0.1}, "min_p=-0.1 is out of range"),
    (SpeculativeConfig, {"temperature": -1.0}, "temperature=-1.0 is out of range"),
    (SpeculativeConfig, {"num_draft_tokens": 0}, "num_draft_tokens=0 is out of range"),
    (BeamConfig, {"num_beams": 0}, "num_beams=0 is out of range"),
    (BeamConfig, {"length_penalty": math.inf}, "length_penalty=inf is not finite"),
    (ContrastiveConfig, {"penalty": 1.5}, "penalty=1.5 is out of range"),
    (GenerationConfig, {"max_new_tokens": 0}, "max_new_tokens=0 is out of range"),
    (GenerationConfig, {"repetition_penalty": 0.0}, "repetition_penalty=0.0 is out of"),
    (GenerationConfig, {"pad_token_id": -1}, "pad_token_id=-1 is out of range"),
]


@pytest.mark.parametrize(("section", "options", "message"), WRONG)
def test_numbers_out_of_range_are_refused(section, options, message):
    with pytest.raises(ConfigError, match=message):
        section(**options)


def test_the_ends_of_a_range_are_in_it():
    sample = SampleConfig(temperature=0.01, top_p=1.0, min_p=0.0, top_k=0)
    assert GenerationConfig(method=sample, max_new_tokens=1).method == sample
