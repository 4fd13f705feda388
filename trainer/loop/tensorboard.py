"""TensorBoard event files of a training."""

import errno
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from transbeam.configs.base.atomic_files import writing


class TensorBoard:
    """Writes a training's metrics as TensorBoard scalars, by optimizer step."""

    def __init__(self, folder: Path):
        import tensorflow as tf

        self._summary = tf.summary
        self._writers = {
            name: tf.summary.create_file_writer(str(folder / name))
            for name in ("train", "validation")
        }

    def write(self, part: str, step: int, numbers: Mapping[str, float]) -> None:
        with self._writers[part].as_default(step):
            for name, value in numbers.items():
                self._summary.scalar(name.removeprefix("val_"), value)
        self._writers[part].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def cut_events(folder: Path, step: int) -> None:
    """Removes events of later steps, which will be repeated and would appear twice.

    Raises:
        ArtifactError: A file cannot be written.
    """
    import tensorflow as tf

    for file in sorted(folder.rglob("events.*")):
        records = list(_records(file))
        steps = [tf.compat.v1.Event.FromString(record).step for record in records]
        if max(steps, default=0) <= step:
            continue
        temporary = file.with_name(f".{os.getpid()}.tmp.{file.name}")
        with writing(file), tensorflow_as_os_errors():
            try:
                with tf.io.TFRecordWriter(str(temporary)) as writer:
                    for record, at in zip(records, steps, strict=True):
                        if at <= step:
                            writer.write(record)
                os.replace(temporary, file)
            finally:
                temporary.unlink(missing_ok=True)


def _records(file: Path) -> Generator[bytes, None, None]:
    """Reads the records of an event file whose last one a kill may have truncated."""
    import tensorflow as tf

    with suppress(tf.errors.DataLossError):
        for record in tf.data.TFRecordDataset(str(file)):
            yield bytes(record.numpy())


@contextmanager
def tensorflow_as_os_errors() -> Generator[None, None, None]:
    """A context that converts TensorFlow's disk errors to `OSError`.

    TensorFlow reports a full disk as `ResourceExhaustedError`, like a full device.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    except tf.errors.PermissionDeniedError as error:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error
