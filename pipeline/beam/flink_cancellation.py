"""Cancelling a job on Flink.

Of a batch job, Beam's job server cancels only its own waiting: the job runs on. Flink's
REST interface ends it, even when the job server is gone, as it is when it was started
for this job and the terminal sent the Ctrl-C to it too.
"""

import json
from urllib.request import Request, urlopen

_PATIENCE = 10  # seconds for an answer


def cancel_on_flink(master: str, name: str) -> None:
    """Asks for the end of a job; Flink stops its tasks in the seconds that follow.

    Args:
        master: Where the job manager answers, such as `host:8081`.
        name: The job's name. One that has ended is left alone.

    Raises:
        OSError: It does not answer, or refuses.
        LookupError: It knows no such job, which may yet be on its way.
    """
    address = master if "://" in master else f"http://{master}"
    with urlopen(f"{address}/jobs/overview", timeout=_PATIENCE) as answer:
        jobs = json.load(answer)["jobs"]
    named = [job for job in jobs if job["name"] == name]
    if not named:
        raise LookupError(f"{master} does not know it")
    for job in named:
        if job["end-time"] < 0:
            end = Request(f"{address}/jobs/{job['jid']}?mode=cancel", method="PATCH")
            urlopen(end, timeout=_PATIENCE).close()
