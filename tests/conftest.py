"""What all tests share: quiet libraries, patient hypothesis, small runs."""

import hypothesis

from configs.quiet import quiet_import

quiet_import("tensorflow", "tensorflow_text", "apache_beam")

pytest_plugins = ["tests.small_run"]

# Deadlines measure the machine, not the code.
hypothesis.settings.register_profile("transbeam", deadline=None, max_examples=60)
hypothesis.settings.load_profile("transbeam")
