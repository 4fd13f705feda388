"""Helper process that buffers the log of another process; see `native_log`.

A standalone script with few imports: `python native_log_holder.py < PIPE`.
"""

import re
import sys
from collections import deque

DROP = b"\0drop\n"  # a line after which nothing is shown
_FATAL = re.compile(rb"F\d{4} ")
_MOST_LINES = 10_000


def main() -> None:
    """Buffers stdin, and copies it to stderr at its end or after a fatal error line."""
    held: deque[bytes] = deque(maxlen=_MOST_LINES)
    shown = sys.stderr.buffer
    is_held, is_dropped = True, False
    for line in sys.stdin.buffer:
        is_dropped = is_dropped or line.endswith(DROP)
        if is_dropped:
            continue
        held.append(line)
        # After a fatal line the process aborts; in a container this one ends with it.
        is_held = is_held and not _FATAL.match(line)
        if not is_held:
            shown.writelines(held)
            shown.flush()
            held.clear()
    if not is_dropped:
        shown.writelines(held)


if __name__ == "__main__":
    main()
