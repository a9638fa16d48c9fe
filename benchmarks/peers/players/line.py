"""How a player speaks: one line of JSON in, one line of JSON out, with the seconds it took. Imports nothing of ours."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work gives, and its wall and CPU seconds in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def open_answers() -> Callable[[Request], None]:
    """Standard output is kept for answers; whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Request) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    return say


def listen(play: Callable[[Request], Request]) -> None:
    """Answer every request until there is none."""
    say = open_answers()
    for line in sys.stdin:
        say(play(json.loads(line)))
