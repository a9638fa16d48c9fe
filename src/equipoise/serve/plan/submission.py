"""What a user sends, as a job: the long form of `place`, or the short one: so many workers for so long."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from equipoise import units
from equipoise.errors import InputError, unknown_name
from equipoise.place import read
from equipoise.place.cluster import Cluster
from equipoise.place.job import Job
from equipoise.serve.plan.events import Body

SHORT = ("workers", "duration")
LONG = ("work", "samples", "epochs", "batch", "time_per_sample", "gradient", "requested", "most")
WORTH = ("utility", "value", "deadline")
OTHER = ("name", "worker", "server", "workers_per_server", "restart", "inside", "between", "tags")
FIELDS = (*OTHER, *SHORT, *LONG, *WORTH)
LONGEST_NAME, MOST_TAGS = 200, 32
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
DEFAULT_VALUE = 1.0


def job_of(body: Mapping[str, object], cluster: Cluster, *, id: str, slot: float, horizon: int, now: int) -> Job:
    """The job that a request describes, arriving now. Every mistake is one line."""
    values = {name: value for name, value in body.items() if value is not None}
    for name in values:
        if name not in FIELDS:
            raise unknown_name("field", str(name)[:60], FIELDS)
    label = name_of(values)
    tags = values.get("tags")
    if isinstance(tags, Mapping):
        if len(tags) > MOST_TAGS:
            raise InputError(f"{len(tags)} tags; expected at most {MOST_TAGS}")
        for word in (*tags, *tags.values()):
            if CONTROL.search(str(word)):
                raise InputError(f"a tag is {str(word)[:40]!r}; expected text without control characters")
    values.pop("name", None)
    values |= _short(values, slot)
    values["utility"] = _worth(values, horizon)
    for name in ("value", "deadline", *SHORT):
        values.pop(name, None)
    try:
        return read.job_from({**values, "id": id, "arrival": now}, cluster, slot)
    except InputError as error:
        raise InputError(str(error).replace(f"job {id!r}: ", f"job {label!r}: " if label else "", 1)) from None


def name_of(body: Mapping[str, object]) -> str:
    """What the user calls the job; "" when nothing was said."""
    name = body.get("name")
    if name is None:
        return ""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise InputError(f"name is {str(name)[:40]!r}; expected text of at most {LONGEST_NAME} characters")
    if CONTROL.search(name):
        raise InputError(f"name is {name[:40]!r}; expected text without control characters")
    return name


def _short(values: Mapping[str, object], slot: float) -> Body:
    """`workers` for `duration` as work: a sample is one worker for one slot; never wider than asked."""
    given = [name for name in SHORT if name in values]
    if not given:
        return {}
    if clash := [name for name in LONG if name in values]:
        raise InputError(f"{given[0]} and {clash[0]} are both given; expected workers and duration, or the long form")
    if "duration" not in values:
        raise InputError('workers without duration; expected both, as "workers": 4, "duration": "2h"')
    workers = values.get("workers", 1)
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 1_000_000:
        raise InputError(f"workers is {workers!r}; expected a whole number from 1 to 1,000,000")
    seconds = units.seconds(values["duration"], "duration")
    if seconds == 0:
        raise InputError(f'duration is {values["duration"]!r}; expected a time such as "2h"')
    return {"work": workers * seconds / slot, "batch": workers, "time_per_sample": "1 slots", "requested": workers}


def _worth(values: Mapping[str, object], horizon: int) -> Any:
    """`utility` as given; else a value that is lost at the deadline, or that fades over twice the horizon."""
    if "utility" in values:
        if clash := [name for name in ("value", "deadline") if name in values]:
            raise InputError(f"utility and {clash[0]} are both given; keep one")
        return values["utility"]
    value = values.get("value", DEFAULT_VALUE)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"value is {value!r}; expected a number: what finishing the job is worth")
    if "deadline" in values:
        return {"kind": "deadline", "value": value, "slots": _time(values["deadline"])}
    return {"kind": "linear", "value": value, "slots": 2 * horizon}


def _time(deadline: object) -> str:
    """A time with its unit; a bare number is seconds."""
    units.seconds(deadline, "deadline")
    return f"{deadline}s" if not isinstance(deadline, str) or not deadline.strip()[-1:].isalpha() else deadline
