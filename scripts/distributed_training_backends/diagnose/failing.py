"""What failed first: the exception at the root, and the process that it belongs to."""

from collections.abc import Sequence

from ..model_diagnose import Failure
from .scan import Scan
from .tracebacks import Raised

# Exceptions that report another process's end.
REPORTING = frozenset(
    (
        *("ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit"),
        *("SignalException", "BrokenPipeError", "ConnectionResetError", "KeyboardInterrupt", "DistBackendError"),
        "BrokenProcessPool",
    )
)


def first_failure(scan: Scan) -> Failure | None:
    """Give the first failure; of an exception that came while another one was handled, that other one."""
    end = scan.end
    raised = first_raised(scan.raised, end.rank if end else None)
    if raised is None:
        return Failure(line=end.line, rank=end.rank, host=end.host or "", exit_code=end.code) if end else None
    root = _root(scan.raised, raised)
    rank = root.source.rank if root.source.rank is not None else (end.rank if end else None)
    return Failure(
        exception=root.text,
        raised_as=raised.text if raised is not root else "",
        line=root.line,
        rank=rank,
        host=root.source.host or (end.host or "" if end else ""),
        exit_code=end.code if end else None,
    )


def first_raised(raised: Sequence[Raised], rank: int | None) -> Raised | None:
    """The first exception of the rank that failed first, or of any; those that only report others come last."""
    telling = [one for one in raised if one.name not in REPORTING] or list(raised)
    links = {one.after for one in telling if one.after >= 0}
    heads = [one for number, one in enumerate(raised) if one in telling and number not in links] or telling
    own = [one for one in heads if rank is not None and one.source.rank == rank]
    return next(iter(own or heads), None)


def _root(raised: Sequence[Raised], last: Raised) -> Raised:
    seen = {last.line}
    while 0 <= last.after < len(raised) and raised[last.after].line not in seen:
        last = raised[last.after]
        seen.add(last.line)
    return last
