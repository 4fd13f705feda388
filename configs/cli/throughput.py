"""Estimates the throughput of some work, for the remaining time."""

from bisect import bisect_right

_SETTLING = 3.0  # seconds
_MOST_UNLIKE = 1.5
_MOST_RATIO = _MOST_UNLIKE**2
_MOST_SAMPLES = 256


class Pace:
    """The speed of some work, once it is stable.

    The first piece of work includes one-time costs, such as compilation, and does not
    count. The speed is reported once the last half of the time and the last quarter
    have about the same speed.

    Example:
    >>> pace = Pace()
    >>> for step in range(1, 9):
    ...     pace.add(60.0 + step, step)  # the first one compiled for a minute
    ...     if step in (2, 8):
    ...         pace.speed(60.0 + step)
    1.0
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        self._counts: list[float] = []
        self._is_settled = False

    def add(self, now: float, completed: float) -> None:
        """Records the total of finished units at a time in seconds."""
        self._times.append(now)
        self._counts.append(completed)
        if len(self._times) > _MOST_SAMPLES:  # keeps the first and the last
            del self._times[1:-1:2], self._counts[1:-1:2]

    def speed(self, now: float) -> float | None:
        """Units per second; None while the speed is not stable."""
        if len(self._times) < 2 or now - self._times[0] < _SETTLING:
            return None
        places = [self._begin(now, share) for share in (2, 4)]
        half, quarter = (
            (self._counts[-1] - self._counts[place]) / (now - self._times[place])
            for place in places
        )
        # With a single piece of work in both periods, both speeds would be equal.
        if places[0] < places[1] and half < _MOST_UNLIKE * quarter < _MOST_RATIO * half:
            self._is_settled = True
        return half if self._is_settled and half > 0 else None

    def _begin(self, now: float, share: int) -> int:
        """Index of the sample at which the last 1/`share` of the time begins."""
        begin = now - (now - self._times[0]) / share
        return bisect_right(self._times, begin, hi=len(self._times) - 1) - 1
