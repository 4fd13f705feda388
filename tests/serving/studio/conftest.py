"""Keeps pytest from importing what runs in another environment."""

# They import Playwright: see `test_page.py`.
collect_ignore_glob = ["*_checks.py"]
