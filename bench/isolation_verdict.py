"""The verdict on a light reader beside a heavy writer, against what the disk itself can do.

A row is (name, p99, p99 over alone, writer over alone): of Weir at one setting, or of fio with so
many of the writer's requests in flight, which is the disk's own frontier.
"""

from typing import NamedTuple

MAX_P99 = 2.0  # of the reader, over alone
MIN_WRITER = 0.90  # over alone
# How far above the frontier the scheduler may be where the disk cannot keep the promise.
NEAR = 1.25
# A disk whose reader alone varies more than this between rounds works for somebody else too.
QUIET = 1.5


class Row(NamedTuple):
    name: str
    p99: float
    p99_ratio: float
    writer_ratio: float


def keeps(row):
    return row.p99_ratio <= MAX_P99 and row.writer_ratio >= MIN_WRITER


def frontier_row(setting, frontier):
    """The row that gives the writer as much as the setting does, and least more; None: none does."""
    enough = [row for row in frontier if row.writer_ratio >= setting.writer_ratio]
    return min(enough, key=lambda row: row.writer_ratio, default=None)


def over_frontier(setting, frontier):
    """The setting's p99 over that of the disk at the writer's share; None: it gives no such share."""
    row = frontier_row(setting, frontier)
    return None if row is None else setting.p99 / row.p99


def is_quiet(alone_p99s):
    return max(alone_p99s) <= QUIET * min(alone_p99s)


def judge(settings, frontier):
    """(held, text): HELD if a setting keeps the promise; where no row of the disk itself does, it is
    out of the disk's reach, and every setting must be near the frontier."""
    for setting in settings:
        if keeps(setting):
            return True, f"HELD by: {setting.name}"
    for row in frontier:
        if keeps(row):
            return False, f"MISSED: the disk itself can ({row.name})"
    far = [setting.name for setting in settings
           if (over_frontier(setting, frontier) or 0) > NEAR]
    if far:
        return False, (f"MISSED: out of this disk's reach, but more than x{NEAR} of its frontier: "
                       + ", ".join(far))
    return True, (f"OUT OF THIS DISK'S REACH: no depth of the disk itself gives both; every setting "
                  f"is within x{NEAR} of its frontier")
