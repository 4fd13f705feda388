"""Cancels a job on Flink.

When asked to cancel a batch job, Beam's job server only stops waiting for it: the job
keeps running. Flink's REST API cancels it, even when the job server is gone, as is the
case if it was started for this job and received the terminal's Ctrl-C too.
"""

import json
from urllib.request import Request, urlopen

_PATIENCE = 10  # seconds for an answer


def cancel_on_flink(master: str, name: str) -> None:
    """Requests cancellation of a job; Flink stops its tasks within seconds.

    Args:
        master: The job manager's REST address, such as `host:8081`.
        name: The job's name. A job that has ended is ignored.

    Raises:
        OSError: The server is unreachable, or rejects the request.
        LookupError: There is no such job; it may still be in submission.
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
