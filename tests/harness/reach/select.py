"""A pytest plugin: of the files that are collected, the tests that were chosen."""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chosen", type=Path, help="a file that says which tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keeps what was chosen and what nobody knows, in the order of the files."""
    wanted = json.loads(config.getoption("--chosen").read_text("utf-8"))
    known, files = set(wanted["known"]), wanted["files"]
    kept, left = [], []
    for item in items:
        file = item.nodeid.partition("::")[0]
        new = item.nodeid not in known
        chosen = item.nodeid in wanted["tests"] or file in files or new
        (kept if chosen else left).append(item)
    order = {str(path): place for place, path in enumerate(config.args)}
    last = max([*wanted["tests"].values(), *files.values()], default=0) + 1
    kept.sort(
        key=lambda item: (
            order.get(item.nodeid.partition("::")[0], len(order)),
            wanted["tests"].get(item.nodeid, last),
        )
    )
    config.hook.pytest_deselected(items=left)
    items[:] = kept
