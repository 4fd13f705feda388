"""Keeps pytest from importing what runs in another environment."""

# It imports Playwright: see `test_page.py`.
collect_ignore = ["browser_checks.py"]
