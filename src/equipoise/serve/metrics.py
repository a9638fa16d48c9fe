"""What Prometheus is told, in a registry of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from equipoise.serve import event as kinds
from equipoise.serve.event import Event

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        given = {"registry": self.registry}
        self._decisions = Counter("equipoise_decisions", "Decisions about jobs", ["state", "reason"], **given)
        self._events = Counter("equipoise_events", "Events stored", ["kind"], **given)
        self._answers = Histogram("equipoise_answer_seconds", "From request to stored answer", buckets=BUCKETS, **given)
        self._commits = Histogram("equipoise_commit_seconds", "Of one transaction", buckets=BUCKETS, **given)
        self._seq = Gauge("equipoise_seq", "The last event stored", **given)
        self._slot = Gauge("equipoise_slot", "The slot it is", **given)
        self.waiting = Gauge("equipoise_waiting_requests", "Requests not yet taken up", **given)
        self.jobs = Gauge("equipoise_jobs", "Jobs by state", ["state"], **given)
        self.utilisation = Gauge("equipoise_utilisation", "Share held in this slot", ["resource"], **given)
        self.machines = Gauge("equipoise_machines", "Machines by status", ["status"], **given)

    def happened(self, event: Event) -> None:
        self._events.labels(event.kind).inc()
        self._seq.set(event.seq)
        self._slot.set(event.slot)
        if event.kind == kinds.DECIDED:
            self._decisions.labels(event.data["state"], event.data["reason"]).inc()

    def stored(self, seconds: float) -> None:
        self._commits.observe(seconds)

    def answered(self, seconds: float) -> None:
        self._answers.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
