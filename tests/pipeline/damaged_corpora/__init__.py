"""Damaged corpora, and the outcome of a data job for each.

`tests/pipeline/test_ledger.py` holds the job to it; `python -m bench.ledger` prints the
books.
"""

from tests.pipeline.damaged_corpora.archives import damaged_archives
from tests.pipeline.damaged_corpora.corpus import LEVELS, TORN, DamagedCorpus
from tests.pipeline.damaged_corpora.streams import damaged_streams
from tests.pipeline.damaged_corpora.tables import damaged_tables

__all__ = ["LEVELS", "TORN", "DamagedCorpus", "corpora"]


def corpora() -> list[DamagedCorpus]:
    """All of them."""
    return [*damaged_streams(), *damaged_tables(), *damaged_archives()]
