"""Damaged corpora, and the outcome of a data job for each.

`tests/pipeline/accounting/test_damaged_corpora.py` holds the job to it, and
`python -m bench.ledger` prints the books.
"""

from tests.pipeline.accounting.damaged_corpora.archives import damaged_archives
from tests.pipeline.accounting.damaged_corpora.corpus import DamagedCorpus
from tests.pipeline.accounting.damaged_corpora.streams import damaged_streams
from tests.pipeline.accounting.damaged_corpora.tables import damaged_tables


def corpora() -> list[DamagedCorpus]:
    """All of them."""
    return [*damaged_streams(), *damaged_tables(), *damaged_archives()]
