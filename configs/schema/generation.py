"""Text generation: decoding methods and stop conditions."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import check_options, option


@dataclass(frozen=True, kw_only=True)
class GreedyConfig:
    """Always the token with the highest score."""

    kind: Literal["greedy"] = "greedy"


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Random sampling of the next token."""

    temperature: float = option(
        "Scores are divided by it: below 1 the likely become likelier.",
        default=1.0,
        minimum=0.01,
    )
    top_k: int = option(
        "Draw among so many of the likeliest; 0 for all.", default=0, minimum=0
    )
    top_p: float = option(
        "Draw among the likeliest that together have this probability (Holtzman et "
        "al., 2020).",
        default=1.0,
        minimum=0.0,
        maximum=1.0,
    )
    min_p: float = option(
        "Draw among those at least so likely, the likeliest being 1 (Nguyen et al., "
        "2024).",
        default=0.0,
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SampleConfig(SamplingConfig):
    """Draws each token by its probability; each request has a seed of its own."""

    kind: Literal["sample"] = "sample"


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """Keeps several beginnings and looks for the likeliest whole."""

    kind: Literal["beam"] = "beam"
    num_beams: int = option("Beginnings kept.", default=4, minimum=1)
    num_results: int = option("Texts returned, the best first.", default=1, minimum=1)
    length_penalty: float = option(
        "A text's log-probability is divided by its length to this power: above 0 "
        "favours long texts, 0 judges the sum.",
        default=1.0,
    )
    early_stopping: bool = option(
        "Stop once num_beams texts are finished. Else go on while a beginning could "
        "still beat the worst of them, if it ended now.",
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
    """Likely tokens that do not repeat what was said (Su et al., 2022)."""

    kind: Literal["contrastive"] = "contrastive"
    top_k: int = option("Likeliest tokens compared.", default=4, minimum=1)
    penalty: float = option(
        "Weight of the likeness to earlier tokens; the probability has the rest. 0 is "
        "greedy.",
        default=0.6,
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig(SamplingConfig):
    """A small model writes ahead, the large one checks several tokens at once.

    The output is that of the large model: identical with greedy decoding, and from the
    same distribution with sampling (Leviathan et al., 2023).
    """

    kind: Literal["speculative"] = "speculative"
    num_draft_tokens: int = option("Tokens written ahead.", default=4, minimum=1)
    sample: bool = option(
        "Draw tokens, by the keys of `sample`; else greedy.", default=False
    )


Method = (
    GreedyConfig | SampleConfig | BeamConfig | ContrastiveConfig | SpeculativeConfig
)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """One way of writing on from a prompt."""

    method: Method = option("How the next token is chosen.", default=GreedyConfig)
    max_new_tokens: int = option("Tokens written at most.", default=64, minimum=1)
    min_new_tokens: int = option(
        "No text ends before it has so many.", default=0, minimum=0
    )
    stop_token_ids: tuple[int, ...] = option("Tokens that end a text.", default=())
    stop_sequences: tuple[tuple[int, ...], ...] = option(
        "Sequences of written tokens that end a text: lists of ids.", default=()
    )
    repetition_penalty: float = option(
        "Scores of tokens already there, the prompt's too, are divided by it, or "
        "multiplied when negative (Keskar et al., 2019); 1 for none.",
        default=1.0,
        minimum=0.01,
    )
    banned_sequences: tuple[tuple[int, ...], ...] = option(
        "Sequences never written: lists of ids, one of a single token never at all.",
        default=(),
    )
    forced_tokens: tuple[int, ...] = option(
        "What every text begins with, such as the token of a language.", default=()
    )
    pad_token_id: int = option(
        "Fills the rows of texts that end early.", default=0, minimum=0
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
