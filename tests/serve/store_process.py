"""Run by the store's tests in a process of its own: open the store at the URL given and do what is said on stdin.

Says "waiting" when another server has the store, "open EPOCH" when it has it, then answers each line: "append K" with the
last seq after K batches ("fenced" when taken over), "forever" with the last seq after every batch until it is killed.
"""

from __future__ import annotations

import sys

from store_model import submission

from equipoise.serve.store import Fenced, Store, open_store


def say(*words: object) -> None:
    print(*words, flush=True)


def append(store: Store) -> None:
    store.append(submission(store.last() // 2 + 1))


def main() -> None:
    store = open_store(sys.argv[1], on_wait=lambda: say("waiting"))
    say("open", store.epoch)
    for line in sys.stdin:
        try:
            if line.strip() == "forever":
                while True:
                    append(store)
                    say(store.last())
            for _ in range(int(line.split()[1])):
                append(store)
            say(store.last())
        except Fenced:
            say("fenced")
    store.close()


if __name__ == "__main__":
    main()
