"""Heavy imports are silent, stay visible when they fail, and leave logging alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transbeam.configs.system.quiet_imports import quiet_environment

REPOSITORY = Path(__file__).parents[3]


def python(program: str, folder: Path, **environment: str):
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_noise_of_an_import_is_dropped_at_every_level(tmp_path):
    (tmp_path / "noisy.py").write_text(
        "import logging, os, sys, warnings\n"
        "os.write(2, b'from C++\\n')\n"
        "print('from Python', file=sys.stderr)\n"
        "warnings.warn('from warnings')\n"
        "logging.warning('from the root logger')\n"
        "logging.getLogger().setLevel(logging.DEBUG)\n"
    )
    program = (
        "import logging, os, sys\n"
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "mine = logging.NullHandler(); logging.getLogger().addHandler(mine)\n"
        "quiet_import('noisy', 'json')\n"
        "assert 'noisy' in sys.modules\n"
        "assert logging.getLogger().handlers == [mine]\n"
        "assert logging.getLogger().level == logging.WARNING\n"
        "os.write(2, b'after\\n'); print('the import', file=sys.stderr)\n"
    )
    result = python(program, tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "after\nthe import\n"


def test_failing_import_shows_all_it_said(tmp_path):
    (tmp_path / "broken.py").write_text(
        "import os, sys\n"
        "os.write(2, b'libfoo.so is missing\\n')\n"
        "print('so there', file=sys.stderr)\n"
        "raise ImportError('no libfoo')\n"
    )
    program = (
        "from transbeam.configs.system import quiet_imports\n"
        "quiet_imports.quiet_import('broken')"
    )
    result = python(program, tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("libfoo.so is missing\nso there\nTraceback")
    assert "ImportError: no libfoo" in result.stderr


def test_closed_stderr_is_no_obstacle(tmp_path):
    program = (
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "quiet_import('json'); print(1)"
    )
    result = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -c "{program}" 2>&-'],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert result.stdout == b"1\n"


def test_environment_of_children_keeps_what_the_user_has_set(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert quiet_environment()["TF_CPP_MIN_LOG_LEVEL"] == "2"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert quiet_environment()["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert quiet_environment()["PATH"] == os.environ["PATH"]


@pytest.mark.thorough(instead="test_noise_of_an_import_is_dropped_at_every_level")
def test_the_libraries_we_use_are_silent(tmp_path):
    program = (
        "import logging\n"
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "quiet_import('tensorflow', 'tensorflow_text', 'keras', 'apache_beam')\n"
        "import tensorflow as tf\n"
        "tf.constant([1.0]) + 1\n"
        "doubled = tf.function(lambda x: 2 * x)\n"
        "for length in range(1, 9):\n"
        "    doubled(tf.zeros(length))\n"
        "assert logging.getLogger().handlers == []\n"
    )
    result = python(program, tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_garbage_collector_skips_what_was_imported_and_works_on(tmp_path):
    (tmp_path / "large.py").write_text("import gc; seen = gc.isenabled(); kept = [[]]")
    program = (
        "import gc\n"
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "quiet_import('large')\n"
        "import large\n"
        "assert not large.seen and gc.isenabled()\n"
        "assert not any(known is large.kept for known in gc.get_objects())\n"
    )
    done = python(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_during_an_import_shows_none_of_its_noise(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import sys\nprint('noise', file=sys.stderr)\nraise KeyboardInterrupt\n"
    )
    program = (
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "try:\n    quiet_import('slow')\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    done = python(program, tmp_path)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.parametrize("library", ["matplotlib", "sklearn", "jax"])
def test_optional_library_is_there_again_after_the_import(tmp_path, library):
    (tmp_path / f"{library}.py").touch()
    (tmp_path / "keras_like.py").write_text(
        f"try:\n    import {library} as found\nexcept ImportError:\n    found = None\n"
    )
    program = (
        "from transbeam.configs.system.quiet_imports import quiet_import\n"
        "quiet_import('keras_like')\n"
        "import keras_like\n"
        "assert keras_like.found is None\n"
        f"import {library}\n"
    )
    done = python(program, tmp_path, KERAS_BACKEND="tensorflow")
    assert (done.returncode, done.stderr) == (0, "")


def test_jax_is_there_for_who_computes_with_it(tmp_path):
    (tmp_path / "jax.py").touch()
    (tmp_path / "keras_like.py").write_text("import jax")
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    program = (
        "from transbeam.configs.system import quiet_imports\n"
        "quiet_imports.quiet_import('keras_like')"
    )
    codes = [
        python(program, tmp_path, **environment).returncode
        for environment in (
            {"KERAS_BACKEND": "jax"},
            {"KERAS_BACKEND": "", "KERAS_HOME": str(tmp_path)},
            {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": str(tmp_path)},
        )
    ]
    assert codes == [0, 0, 1]
