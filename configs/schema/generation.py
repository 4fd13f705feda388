"""Text generation: decoding methods and stop conditions."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import check_options, option


@dataclass(frozen=True, kw_only=True)
class GreedyConfig:
    """Greedy decoding: always the most probable token."""

    kind: Literal["greedy"] = "greedy"


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Random sampling of the next token."""

    temperature: float = option(1.0, minimum=0.01)
    """Divisor of the logits: values below 1 make likely tokens likelier."""

    top_k: int = option(0, minimum=0)
    """Sample from this many of the most probable tokens; 0 for all."""

    top_p: float = option(1.0, minimum=0.0, maximum=1.0)
    """Nucleus sampling: sample from the smallest set of most probable tokens that
    together have this probability (Holtzman et al., 2020).
    """

    min_p: float = option(0.0, minimum=0.0, maximum=1.0)
    """Sample from the tokens whose probability is at least this share of the highest
    one (Nguyen et al., 2024).
    """

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SampleConfig(SamplingConfig):
    """Random sampling, with a separate seed per request."""

    kind: Literal["sample"] = "sample"


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """Beam search."""

    kind: Literal["beam"] = "beam"
    num_beams: int = option(4, minimum=1)
    """Number of beams."""

    num_results: int = option(1, minimum=1)
    """Number of texts returned, the best first."""

    length_penalty: float = 1.0
    """Exponent of the length by which a text's log-probability is divided: values above
    0 favor long texts; 0 compares the sums.
    """

    early_stopping: bool = True
    """Stop as soon as num_beams texts are finished. false: continue while an unfinished
    text, ended now, could still beat the worst finished one.
    """

    def __post_init__(self) -> None:
        check_options(self)
        if self.num_results > self.num_beams:
            raise ConfigError(
                f"num_results={self.num_results} is more than "
                f"num_beams={self.num_beams}: no more texts than beams are kept"
            )


@dataclass(frozen=True, kw_only=True)
class ContrastiveConfig:
    """Contrastive search, with a degeneration penalty (Su et al., 2022)."""

    kind: Literal["contrastive"] = "contrastive"
    top_k: int = option(4, minimum=1)
    """Number of most probable tokens that are compared."""

    penalty: float = option(0.6, minimum=0.0, maximum=1.0)
    """Weight of the degeneration penalty, the similarity to earlier tokens; the
    probability has weight 1 - penalty. 0 is greedy decoding.
    """

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig(SamplingConfig):
    """Speculative decoding: a small model drafts tokens that the large model verifies.

    The output is that of the large model alone: with greedy decoding the same tokens,
    with sampling tokens from the same distribution (Leviathan et al., 2023).
    """

    kind: Literal["speculative"] = "speculative"
    num_draft_tokens: int = option(4, minimum=1)
    """Tokens that the draft model proposes at a time."""

    sample: bool = False
    """Sample tokens, with the sampling keys of this section; false: greedy decoding."""


Method = (
    GreedyConfig | SampleConfig | BeamConfig | ContrastiveConfig | SpeculativeConfig
)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Decoding method and stop conditions of text generation."""

    method: Method = option(GreedyConfig)
    """Decoding method."""

    max_new_tokens: int = option(64, minimum=1)
    """Maximum number of generated tokens."""

    min_new_tokens: int = option(0, minimum=0)
    """Minimum number of generated tokens."""

    stop_token_ids: tuple[int, ...] = ()
    """Ids of tokens that end the generation."""

    stop_sequences: tuple[tuple[int, ...], ...] = ()
    """Sequences of generated tokens that end the generation, as lists of ids."""

    repetition_penalty: float = option(1.0, minimum=0.01)
    """Logits of tokens that occur in the prompt or the generated text are divided by
    it, or multiplied where negative (Keskar et al., 2019); 1 for none.
    """

    banned_sequences: tuple[tuple[int, ...], ...] = ()
    """Token sequences that are never generated, as lists of ids; a list of one id bans
    that token.
    """

    forced_tokens: tuple[int, ...] = ()
    """Ids of tokens that every generated text begins with, such as a language token."""

    pad_token_id: int = option(0, minimum=0)
    """Id that pads the rows of texts that end early."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.min_new_tokens > self.max_new_tokens:
            raise ConfigError(
                f"min_new_tokens={self.min_new_tokens} is more than "
                f"max_new_tokens={self.max_new_tokens}"
            )
        _check_tokens("stop_token_ids", self.stop_token_ids)
        _check_tokens("forced_tokens", self.forced_tokens)
        for key in ("stop_sequences", "banned_sequences"):
            for sequence in getattr(self, key):
                if not sequence:
                    raise ConfigError(f"{key}: a sequence has at least one token")
                _check_tokens(key, sequence)


def _check_tokens(key: str, token_ids: tuple[int, ...]) -> None:
    if any(token < 0 for token in token_ids):
        raise ConfigError(f"{key}: {list(token_ids)} has an id below 0")
