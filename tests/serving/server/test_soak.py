"""A server that is asked for two minutes, and renewed meanwhile, keeps nothing."""

import pytest

from bench.soak.run import soak
from tests.serving.untrained import untrained, write_version

RELOADS = 4  # at least
EARLY = 20  # seconds in which memory is filled for the first time
GROWTH = 60  # MB from then on; of each version that is kept come 40
SPARE = 8  # files and threads that may come once: of pools, and of who has just left


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A masked language model and a classifier, with weights at random."""
    folder = tmp_path_factory.mktemp("soak")
    names = ("masked", "classifier_small")
    for name in names:
        write_version(untrained(name, folder), folder / name / "1")
    return [folder / name for name in names]


@pytest.mark.thorough(
    instead="test_versions_that_are_let_go_leave_no_thread_and_no_file, "
    "test_closing_gives_its_memory_back"
)
def test_nothing_is_left_of_requests_and_versions(models):
    found = soak(models, minutes=2, reload_seconds=5)
    assert not found.tally.wrong
    assert not found.tally.errors
    assert found.reloads >= RELOADS
    first, last = found.samples[0], found.samples[-1]
    assert last.files <= first.files + SPARE
    assert last.threads <= first.threads + SPARE
    early = [s.megabytes for s in found.samples if 60 * s.minute <= EARLY]
    assert last.megabytes <= max(early) + GROWTH
