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

    temperature: float = option(
        "Divisor of the logits: values below 1 make likely tokens likelier.",
        default=1.0,
        minimum=0.01,
    )
    top_k: int = option(
        "Sample from this many of the most probable tokens; 0 for all.",
        default=0,
        minimum=0,
    )
    top_p: float = option(
        "Nucleus sampling: sample from the smallest set of most probable tokens that "
        "together have this probability (Holtzman et al., 2020).",
        default=1.0,
        minimum=0.0,
        maximum=1.0,
    )
    min_p: float = option(
        "Sample from the tokens whose probability is at least this share of the "
        "highest one (Nguyen et al., 2024).",
        default=0.0,
        minimum=0.0,
        maximum=1.0,
    )

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
    num_beams: int = option("Number of beams.", default=4, minimum=1)
    num_results: int = option(
        "Number of texts returned, the best first.", default=1, minimum=1
    )
    length_penalty: float = option(
        "Exponent of the length by which a text's log-probability is divided: values "
        "above 0 favor long texts; 0 compares the sums.",
        default=1.0,
    )
    early_stopping: bool = option(
        "Stop as soon as num_beams texts are finished. false: continue while an "
        "unfinished text, ended now, could still beat the worst finished one.",
        default=True,
    )

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
    top_k: int = option(
        "Number of most probable tokens that are compared.", default=4, minimum=1
    )
    penalty: float = option(
        "Weight of the degeneration penalty, the similarity to earlier tokens; the "
        "probability has weight 1 - penalty. 0 is greedy decoding.",
        default=0.6,
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig(SamplingConfig):
    """Speculative decoding: a small model drafts tokens that the large model verifies.

    The output is that of the large model alone: with greedy decoding the same tokens,
    with sampling tokens from the same distribution (Leviathan et al., 2023).
    """

    kind: Literal["speculative"] = "speculative"
    num_draft_tokens: int = option(
        "Tokens that the draft model proposes at a time.", default=4, minimum=1
    )
    sample: bool = option(
        "Sample tokens, with the sampling keys of this section; false: greedy "
        "decoding.",
        default=False,
    )


Method = (
    GreedyConfig | SampleConfig | BeamConfig | ContrastiveConfig | SpeculativeConfig
)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Decoding method and stop conditions of text generation."""

    method: Method = option("Decoding method.", default=GreedyConfig)
    max_new_tokens: int = option(
        "Maximum number of generated tokens.", default=64, minimum=1
    )
    min_new_tokens: int = option(
        "Minimum number of generated tokens.", default=0, minimum=0
    )
    stop_token_ids: tuple[int, ...] = option(
        "Ids of tokens that end the generation.", default=()
    )
    stop_sequences: tuple[tuple[int, ...], ...] = option(
        "Sequences of generated tokens that end the generation, as lists of ids.",
        default=(),
    )
    repetition_penalty: float = option(
        "Logits of tokens that occur in the prompt or the generated text are divided "
        "by it, or multiplied where negative (Keskar et al., 2019); 1 for none.",
        default=1.0,
        minimum=0.01,
    )
    banned_sequences: tuple[tuple[int, ...], ...] = option(
        "Token sequences that are never generated, as lists of ids; a list of one id "
        "bans that token.",
        default=(),
    )
    forced_tokens: tuple[int, ...] = option(
        "Ids of tokens that every generated text begins with, such as a language "
        "token.",
        default=(),
    )
    pad_token_id: int = option(
        "Id that pads the rows of texts that end early.", default=0, minimum=0
    )

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
