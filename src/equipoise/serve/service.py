"""The service: one planner thread that decides, stores and only then answers.

Requests that wait together are decided one after the other and stored in one fully synchronous transaction; an answer
leaves when its decision, and the cells it reserves, are on disk. Reads look at the last published `View` or at the store.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from equipoise.errors import InputError, unknown_name
from equipoise.place.cluster import Cluster
from equipoise.serve.plan import events as kinds
from equipoise.serve.plan.decide import Conflict, NotFound, Scheduler, opening, price_rows
from equipoise.serve.plan.events import Body, Event
from equipoise.serve.plan.machines import Machines
from equipoise.serve.plan.messages import job_out, wall_of
from equipoise.serve.plan.state import Held, State
from equipoise.serve.replay import replayed, snapshot_of, usable_snapshot
from equipoise.serve.store import Batch, Fenced, JobRow, Store, StoredAnswer, StoreLost
from equipoise.serve.telemetry import Metrics, say
from equipoise.serve.view import View

PER_JOB = 10  # events a live job between snapshots, at least
Command = Callable[[Scheduler], Body]
MOST_WAITING = 2_000  # requests: some seconds of work; a further one is refused at once
SHORTLY = 0.2, 5.0  # seconds before the store is tried again: first, and at most
OTHER_BODY = "this Idempotency-Key was used with another body; send a new key with a new request"
LOG = logging.getLogger("equipoise.serve")
CLOCKS, FINISHES = ("real", "virtual"), ("assumed", "reported")
MOST_HORIZON, LONGEST_SLOT = 100_000, 7 * 86400.0


@dataclass(frozen=True)
class Settings:
    """What a service is started with. `finish`: jobs whose plan is over are taken as finished, or only as they report."""

    slot_seconds: float = 600.0
    horizon: int = 168  # slots ahead that a job is planned in
    clock: str = "real"
    finish: str = "assumed"
    snapshot_every: int = 5_000  # events
    batch: int = 64  # requests that one transaction may carry

    def __post_init__(self) -> None:
        for what, given, known in (("clock", self.clock, CLOCKS), ("finish", self.finish, FINISHES)):
            if given not in known:
                raise unknown_name(what, str(given), known)
        if not 1 <= self.horizon <= MOST_HORIZON:
            raise InputError(f"horizon is {self.horizon}; expected 1 to {MOST_HORIZON:,} slots")
        if not 0.01 <= self.slot_seconds <= LONGEST_SLOT:
            raise InputError(f"slot is {self.slot_seconds:g} s; expected a length from 10ms to 7 days")


class Unavailable(Exception):
    """The service cannot answer now; what was asked may be asked again with the same key."""


@dataclass
class Ask:
    """A command on its way to the planner thread. `key` is (tenant, idempotency key, digest of the body)."""

    command: Command
    key: tuple[str, str, str] | None
    status: int
    answer: Future[tuple[int, Body]] = field(default_factory=Future)
    result: tuple[int, Body] | Exception | None = None
    asked: float = field(default_factory=time.perf_counter)


def body_digest(body: Mapping[str, object]) -> str:
    """The same for the same request, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Service:
    """Opened on a store that this process alone writes to."""

    def __init__(self, store: Store, settings: Settings, cluster: Cluster | None = None) -> None:
        self.store, self.settings, self.metrics = store, settings, Metrics()
        self.failed: Exception | None = None  # why it cannot go on
        self.trouble = ""  # why the last transaction could not be stored
        self.on_failure: Callable[[], None] = lambda: None
        self.began = time.time()
        self._queue: queue.SimpleQueue[Ask | None] = queue.SimpleQueue()
        self._quotas: dict[str, dict[str, int]] = {}
        self._quotas_read = -1.0
        self._listeners: list[Callable[[list[Event]], None]] = []
        self.read_quotas()
        self._restore()
        if self.state.seq == 0:
            self._open(cluster)
        else:
            self._same(cluster)
        if settings.clock == "real":
            self._catch_up()
        self._notified = self.state.seq
        self._thread = threading.Thread(target=self._run, name="planner", daemon=True)

    # Opening.

    def _restore(self) -> None:
        """The state from the last snapshot and the events after it."""
        kept = usable_snapshot(self.store)
        self.state = replayed(self.store, kept)
        self.scheduler = Scheduler(self.state, time.time, self.quota, finish=self.settings.finish)
        self._snapshot_seq = kept.seq if kept is not None else 0
        if self.state.seq:
            self._publish_all()

    def _publish_all(self) -> None:
        self.view = View.of(self.state, {id: held.copied() for id, held in self.state.jobs.items()})

    def _open(self, cluster: Cluster | None) -> None:
        if cluster is None:
            raise InputError("the store is new; say which machines there are, with --cluster FILE", code="store.new")
        settings, resources = self.settings, cluster.resources
        base, growth = price_rows({}, 1.0, resources)
        machines = Machines(cluster, settings.horizon + 1, base, growth)  # type: ignore[arg-type]
        data = opening(machines, settings.slot_seconds, settings.horizon, time.time(), settings.clock)
        self.scheduler.record(kinds.OPENED, **data)
        self._publish_all()
        self._store([])

    def _same(self, cluster: Cluster | None) -> None:
        """A store keeps its slots, horizon and clock; its machines change by events only."""
        state, settings = self.state, self.settings
        for what, kept, given in (
            ("--slot", state.slot_seconds, settings.slot_seconds),
            ("--horizon", state.horizon, settings.horizon),
            ("--clock", state.clock, settings.clock),
        ):
            if kept != given:
                raise InputError(
                    f"{what} is {given}; this store was opened with {kept}: use that, or another store",
                    code="store.setting",
                )
        if cluster is not None:
            first = next(iter(self.store.events(0, 1)))
            if Machines.restored(first.data["floor"], 0).cluster != cluster:
                raise InputError(
                    "--cluster is not what this store was opened with; leave it out, and change machines with"
                    " `equipoise admin machines add|drain|down|up`",
                    code="store.cluster",
                )

    def _catch_up(self) -> None:
        """Slots that passed while no server ran."""
        now = self.slot_at(time.time())
        if now > self.state.now:
            self.scheduler.tick(now)
            self._store([])

    def slot_at(self, moment: float) -> int:
        return max(0, int((moment - self.state.start) // self.state.slot_seconds))

    def elapsed(self) -> float:
        """The part of the current slot that has passed, 0 to 1; a virtual clock stands at its beginning."""
        if self.state.clock != "real":
            return 0.0
        part = (time.time() - self.state.start) / self.state.slot_seconds - self.state.now
        return min(1.0, max(0.0, part))

    def quota(self, tenant: str) -> Mapping[str, int]:
        return self._quotas.get(tenant, {})

    def read_quotas(self) -> None:
        self._quotas = {row.name: row.quota for row in self.store.tenants()}

    # Asking.

    def start(self) -> None:
        self._thread.start()

    def ask(
        self, command: Command, *, key: tuple[str, str, str] | None = None, status: int = 200, urgent: bool = False
    ) -> Future[tuple[int, Body]]:
        """The answer to a command, once it is stored: a status and a body."""
        one = Ask(command, key, status)
        one.answer.set_running_or_notify_cancel()  # a client that no longer waits does not stop what is under way
        if self.failed is not None:
            one.answer.set_exception(Unavailable(str(self.failed)))
        elif self._queue.qsize() >= MOST_WAITING and not urgent:
            one.answer.set_exception(Unavailable("too many requests wait for the planner; come back"))
        else:
            self._queue.put(one)
        return one.answer

    def listen(self, listener: Callable[[list[Event]], None]) -> None:
        """Call `listener` with events after they are stored, from the planner thread."""
        self._listeners.append(listener)

    @property
    def waiting(self) -> int:
        """Requests not yet taken up."""
        return self._queue.qsize()

    def stop(self) -> None:
        """Answer what was asked, keep a snapshot, and end."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    # The planner thread.

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as problem:  # never silently: /health reports it
            self._fail(problem if isinstance(problem, Exception) else RuntimeError(repr(problem)))
            self._end("the service cannot go on")
            raise

    def _work(self) -> None:
        """Take up what waits, until told to stop."""
        stopping = False
        while not stopping:
            asks: list[Ask] = []
            one = self._next()
            while one is not None:
                asks.append(one)
                if len(asks) == self.settings.batch or self._queue.empty():
                    break
                one = self._queue.get()
            stopping = one is None
            if asks:
                self._carry_out(asks)
        if self.failed is None and self.state.seq > self._snapshot_seq:
            try:
                self._store([], snapshot=True)
            except (StoreLost, Fenced) as problem:  # the log has all of it
                say(LOG, logging.WARNING, "no last snapshot", error=str(problem))
        self._end("the service is stopping")

    def _end(self, why: str) -> None:
        """Refuse requests that still wait."""
        while not self._queue.empty():
            late = self._queue.get()
            if late is not None:
                late.answer.set_exception(Unavailable(why))

    def _next(self) -> Ask | None:
        """What is asked next. After a failed transaction one is tried now and then, so that health comes back by itself."""
        while self.trouble and self.failed is None:
            try:
                return self._queue.get(timeout=SHORTLY[1])
            except queue.Empty:
                with suppress(StoreLost):
                    self.store.probe()
                    self.trouble = ""
        return self._queue.get()

    def _carry_out(self, asks: list[Ask]) -> None:
        """Decide, store, publish, answer."""
        if self.failed is not None:
            self._refuse(asks, self.failed)
            return
        stored = self.view.seq
        try:
            if time.monotonic() - self._quotas_read > 1.0:  # seconds
                self.read_quotas()
                self._quotas_read = time.monotonic()
            answers = self._decide(asks)
            events = self._store(answers)
        except Fenced as problem:
            self._refuse(asks, problem)
            self._fail(problem)
            return
        except StoreLost as problem:  # nothing of this batch is answered: what is in memory may not be in the store
            self._lose(problem)
            self._refuse(asks, problem)
            self._recover()
            return
        except Exception as problem:  # a mistake of the service: only the request that met it fails
            LOG.exception("batch failed")
            self._recover()
            again = len(asks) > 1 and self.view.seq == stored  # else it was stored after all: never carry it out twice
            if not again:
                self._refuse(asks, problem)
            for one in asks if again else ():
                self._carry_out([one])
            return
        self._notify(events)
        done = time.perf_counter()
        for one in asks:
            self.metrics.answers.observe(done - one.asked)
            if isinstance(one.result, Exception):
                one.answer.set_exception(one.result)
            elif one.result is not None:
                one.answer.set_result(one.result)

    def _notify(self, events: list[Event]) -> None:
        if events:
            self._notified = events[-1].seq
            for listener in self._listeners:
                try:
                    listener(events)
                except Exception:  # it is stored, though a listener failed
                    LOG.exception("a listener failed")

    def _decide(self, asks: list[Ask]) -> list[StoredAnswer]:
        """Run every command; one asked before with the same key gets the answer it got then."""
        known = self.store.answers([one.key[:2] for one in asks if one.key is not None])
        new: list[StoredAnswer] = []
        for one in asks:
            if one.key is not None and (before := known.get(one.key[:2])) is not None:
                one.result = (before.status, before.body) if before.digest == one.key[2] else Conflict(OTHER_BODY)
                continue
            recorded = len(self.scheduler.fresh)
            try:
                one.result = (one.status, one.command(self.scheduler))
            except (InputError, NotFound, Conflict) as refusal:
                if len(self.scheduler.fresh) > recorded:  # refused halfway: what was recorded must not be kept
                    raise RuntimeError("a command was refused after it had changed something") from refusal
                one.result = refusal
                continue
            if one.key is not None:
                answer = StoredAnswer(*one.key, one.status, one.result[1])
                known[one.key[:2]] = answer
                new.append(answer)
        return new

    def _store(self, answers: list[StoredAnswer], *, snapshot: bool = False) -> list[Event]:
        """One transaction: events, the rows they change, answers, and a snapshot when it is time for one."""
        state, events = self.state, self.scheduler.taken()
        if not events and not answers and not snapshot:
            return []
        changed = dict.fromkeys(event.job for event in events if event.job)
        helds: list[Held] = [state.jobs.get(id) or state.over[id] for id in changed]
        rows = [_row(held, state) for held in helds]
        every = max(self.settings.snapshot_every, PER_JOB * len(state.jobs))  # its cost grows with the jobs
        due = snapshot or state.seq - self._snapshot_seq >= every
        kept = snapshot_of(state) if due else None
        began = time.perf_counter()
        self.store.append(Batch(events, rows, answers, kept))
        try:
            self.metrics.commits.observe(time.perf_counter() - began)
            self.trouble = ""
            if due:
                self._snapshot_seq = state.seq
            self._publish(events, helds)
        except Exception:  # it is stored: the answer says so, and nothing may be carried out twice
            LOG.exception("publishing failed")
            self._recover()
        return events

    def _publish(self, events: list[Event], helds: list[Held]) -> None:
        state, live = self.state, dict(self.view.live)
        for event in events:
            self.metrics.happened(event)
        for held in helds:
            if held.id in state.jobs:
                live[held.id] = held.copied()
            else:
                live.pop(held.id, None)
        if any(event.kind in (kinds.TICK, kinds.MACHINE) for event in events):  # progress, and the order of resources
            for held in state.jobs.values():
                live[held.id] = held.copied()
        state.over.clear()
        self.view = View.of(state, live)

    def _refuse(self, asks: list[Ask], problem: Exception) -> None:
        for one in asks:
            if not one.answer.done():
                one.answer.set_exception(
                    Unavailable(f"perhaps not stored ({type(problem).__name__}); ask again with the same key")
                )

    def _fail(self, problem: Exception) -> None:
        say(LOG, logging.ERROR, "cannot go on", error=type(problem).__name__, why=str(problem))
        self.failed = problem
        self.on_failure()

    def _lose(self, problem: Exception) -> None:
        say(LOG, logging.ERROR, "store lost", error=str(problem))
        self.trouble = str(problem)
        self.metrics.failures.inc()

    def _refuse_for(self, seconds: float, problem: Exception) -> None:
        """Refuse requests while the store is away. When asked to stop, give up: memory may be ahead of the store."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with suppress(queue.Empty):
                one = self._queue.get(timeout=left)
                if one is None:
                    self._queue.put(None)
                    self.failed = problem
                    return
                self._refuse([one], problem)

    def _recover(self) -> None:
        """The store is the truth: forget what is in memory and read it again, as long as it takes."""
        wait = SHORTLY[0]
        while self.failed is None:
            try:
                self.store.hold_on()
                self._restore()
                self._notify(list(self.store.events(self._notified)))  # stored, though no listener was called
                say(LOG, logging.INFO, "recovered", seq=self.state.seq)
                return
            except Fenced as problem:
                self._fail(problem)
                return
            except (StoreLost, OSError) as problem:
                self._lose(problem)
                self._refuse_for(wait, problem)
                wait = min(2 * wait, SHORTLY[1])
            except Exception as problem:
                LOG.exception("cannot recover")
                self._fail(problem)
                return


def _row(held: Held, state: State) -> JobRow:
    return JobRow(
        n=held.n,
        id=held.id,
        tenant=held.tenant,
        name=held.name,
        state=held.state,
        reason=held.reason,
        submitted=held.job.arrival,
        finish=held.finish,
        seq=held.seq,
        data=job_out(held, state.machines.names, wall_of(state)),
    )
