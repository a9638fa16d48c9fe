"""What Prometheus is told, in a registry of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from equipoise.serve import event as kinds
from equipoise.serve.event import Event

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = to = CollectorRegistry()
        self._decisions = Counter("equipoise_decisions", "Decisions about jobs", ["state", "reason"], registry=to)
        self._events = Counter("equipoise_events", "Events stored", ["kind"], registry=to)
        self._answers = Histogram(
            "equipoise_answer_seconds", "From request to stored answer", buckets=BUCKETS, registry=to
        )
        self._commits = Histogram("equipoise_commit_seconds", "Of one transaction", buckets=BUCKETS, registry=to)
        self._failures = Counter("equipoise_store_failures", "Times the store failed", registry=to)
        self._seq = Gauge("equipoise_seq", "The last event stored", registry=to)
        self._slot = Gauge("equipoise_slot", "The slot it is", registry=to)
        self.waiting = Gauge("equipoise_waiting_requests", "Requests not yet taken up", registry=to)
        self.jobs = Gauge("equipoise_jobs", "Jobs by state", ["state"], registry=to)
        self.utilisation = Gauge("equipoise_utilisation", "Share held in this slot", ["resource"], registry=to)
        self.machines = Gauge("equipoise_machines", "Machines by status", ["status"], registry=to)

    def happened(self, event: Event) -> None:
        self._events.labels(event.kind).inc()
        if event.kind == kinds.DECIDED:
            self._decisions.labels(event.data["state"], event.data["reason"]).inc()

    def lost(self) -> None:
        self._failures.inc()

    def stored(self, seconds: float) -> None:
        self._commits.observe(seconds)

    def answered(self, seconds: float) -> None:
        self._answers.observe(seconds)

    def at(self, seq: int, slot: int) -> None:
        self._seq.set(seq)
        self._slot.set(slot)

    def text(self) -> bytes:
        return generate_latest(self.registry)
