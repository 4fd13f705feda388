"""Keeps pytest from importing what runs in another environment."""

# They import Playwright: see `test_page.py`.
collect_ignore = ["browser_checks.py", "compare_checks.py", "run_page_checks.py"]
