"""`objective`: contrastive learning of text embeddings from pairs."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class ContrastivePairsConfig:
    """Text embeddings from pairs: ranks each text's partner above other texts.

    The candidates of a `text` are the second texts of all pairs in a micro-batch, its
    own among them. Pairs that share a text are not compared. The loss is the
    cross-entropy of scaled cosine similarities (multiple negatives ranking loss).
    """

    kind: Literal["contrastive_pairs"] = "contrastive_pairs"
    scale: float = option(20.0, minimum=0.01, maximum=1000.0)
    """Factor of the cosine similarities, the inverse of the temperature."""

    symmetric: bool = False
    """Also rank the texts for each second text; the loss is the mean of both."""

    hard_negatives: bool = False
    """Read a hard negative of each text from the column `negative_text`, as a further
    candidate of all texts in the micro-batch. Rows may lack it.
    """

    equal_texts: Literal["filter", "keep"] = "filter"
    """Pairs whose texts have the same tokens: `filter` them, or `keep` them as texts
    whose vectors differ by dropout alone, as in SimCSE; so a text without a partner can
    be learned from, and have a hard negative.
    """

    @property
    def texts_per_record(self) -> int:
        """Number of texts in a record: a pair, and its hard negative.

        Example:
        >>> ContrastivePairsConfig(hard_negatives=True).texts_per_record
        3
        """
        return 3 if self.hard_negatives else 2
