"""What all tests share: quiet libraries, patient hypothesis, small runs."""

import gc

import hypothesis
import pytest

from configs.quiet import quiet_import

quiet_import("tensorflow", "tensorflow_text", "apache_beam")

pytest_plugins = ["tests.harness.report", "tests.small_run"]

# Deadlines measure the machine, not the code.
hypothesis.settings.register_profile("transbeam", deadline=None, max_examples=60)
hypothesis.settings.load_profile("transbeam")

# Files in these take longest, some a minute for a single test.
LONG = ("e2e", "serving", "trainer")


@pytest.hookimpl(trylast=True)  # after the order was drawn at random
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with long files, or at the end one worker waits for the other."""
    items.sort(key=lambda item: not set(LONG) & set(item.nodeid.split("/")))


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_left_alone():
    """Keeps the garbage collector away from what a module's tests left behind.

    Graphs that TensorFlow and Keras hold on to are a million objects after some hundred
    tests. Keras goes through all of them for each layer that it makes smaller.
    """
    yield
    gc.collect()
    gc.freeze()
