"""The planner thread: what is answered is stored, what fails hurts only who asked for it, and reads wait for nobody."""

import logging
import threading

import pytest

from equipoise.errors import InputError
from equipoise.place import Cluster, Machine
from equipoise.serve.plan.decide import Conflict
from equipoise.serve.plan.state import digest_of
from equipoise.serve.replay import usable_snapshot, verify_log
from equipoise.serve.service import Service, Settings, Unavailable, body_digest
from equipoise.serve.store import Fenced, StoreLost, open_store, peek_store
from equipoise.serve.store.transaction import pack
from refusals import refused

CLUSTER = Cluster((Machine({"gpu": 4}, 2, "gpu"),))
SETTINGS = Settings(slot_seconds=600.0, horizon=12, clock="virtual")
PATIENCE = 300.0  # seconds: kernels may have to be compiled first
JOB = {"name": "one", "worker": {"gpu": 1}, "workers": 2, "duration": "30m", "value": 5}


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/e.db") as opened:
        yield opened


@pytest.fixture
def service(store):
    one = Service(store, SETTINGS, CLUSTER)
    one.start()
    yield one
    one.stop()


def submission(body, key=None):
    def command(scheduler):
        return {"id": scheduler.submit(body, "").id}

    return {"command": command, "key": ("", key, body_digest(body)) if key else None, "status": 201}


def ask(service, **how):
    return service.ask(how.pop("command"), **how).result(PATIENCE)


def together(service, *asks):
    """Ask several things that the planner takes up as one batch: it is kept busy while they queue."""
    go = threading.Event()
    first = service.ask(lambda scheduler: go.wait(20) and {})
    while service.waiting:
        pass
    futures = [service.ask(one["command"], key=one.get("key"), status=one.get("status", 200)) for one in asks]
    go.set()
    first.result(PATIENCE)
    return futures


def test_requests_that_wait_together_are_one_transaction(service, store, monkeypatch):
    """Eight submissions queue while the planner is busy: one append carries all their events, and each its own answer."""
    appended = []
    whole = type(store).append
    monkeypatch.setattr(type(store), "append", lambda self, batch: (appended.append(batch), whole(self, batch))[1])
    answers = [f.result(PATIENCE) for f in together(service, *(submission(JOB | {"name": str(k)}) for k in range(8)))]
    assert [body["id"] for _, body in answers] == [f"j{k}" for k in range(1, 9)]
    (batch,) = [one for one in appended if one.events]
    assert len(batch.events) == 16


def test_a_command_that_breaks_fails_alone(service):
    """Three requests in a batch, the middle one raises what nobody expected: the other two are stored all the same."""
    futures = together(service, submission(JOB), {"command": lambda scheduler: 1 // 0}, submission(JOB | {"name": "b"}))
    assert futures[0].result(PATIENCE)[1]["id"] == "j1"
    with pytest.raises(Unavailable):
        futures[1].result(PATIENCE)
    assert futures[2].result(PATIENCE)[1]["id"] == "j2"
    assert service.store.counts() == {"admitted": 2}


def test_what_a_broken_command_had_changed_is_forgotten(service):
    """It submits a job and then raises: the job is neither in memory nor in the store, and its number is given again."""

    def command(scheduler):
        scheduler.submit(JOB, "")
        raise ValueError("no")

    with pytest.raises(Unavailable):
        service.ask(command).result(PATIENCE)
    assert ask(service, **submission(JOB))[1]["id"] == "j1"
    assert len(list(service.store.events())) == 3  # opened, submitted, decided


def test_a_commit_whose_answer_was_lost_is_found_again_by_its_key(service, store, monkeypatch):
    """The database keeps the batch and then the connection breaks. Asked again with its key: the same job, not another;
    and streams are told of what nobody heard."""
    told = []
    service.listen(told.extend)
    whole = type(store).append

    def keeps_and_breaks(self, batch):
        whole(self, batch)
        monkeypatch.setattr(type(store), "append", whole)
        raise StoreLost("the connection broke")

    monkeypatch.setattr(type(store), "append", keeps_and_breaks)
    with pytest.raises(Unavailable):
        ask(service, **submission(JOB, "k"))
    assert ask(service, **submission(JOB, "k")) == (201, {"id": "j1"})
    assert service.store.counts() == {"admitted": 1}
    assert [event.seq for event in told] == [2, 3]


def test_a_commit_that_failed_leaves_nothing(service, store, monkeypatch):
    """The database refuses the batch: who asked hears so, nothing is in memory, and the next request works."""
    whole = type(store).append

    def breaks(self, batch):
        monkeypatch.setattr(type(store), "append", whole)
        raise StoreLost("disk full")

    monkeypatch.setattr(type(store), "append", breaks)
    with pytest.raises(Unavailable):
        ask(service, **submission(JOB, "k"))
    assert not service.view.live
    assert ask(service, **submission(JOB, "k"))[1]["id"] == "j1"


def test_the_same_key_within_one_batch_is_one_job(service):
    """Two equal requests and one with another body, all with one key, queue together: one job, one answer, one refusal."""
    twice, other = submission(JOB, "k"), submission(JOB | {"value": 6}, "k")
    first, second, third = together(service, twice, twice, other)
    assert first.result(PATIENCE) == second.result(PATIENCE) == (201, {"id": "j1"})
    with pytest.raises(Conflict):
        third.result(PATIENCE)
    assert service.store.counts() == {"admitted": 1}


def test_reads_wait_for_nobody(service):
    """The planner is stuck in a command: what is live, what is stored and what is planned is still told at once."""
    ask(service, **submission(JOB))
    go = threading.Event()
    stuck = service.ask(lambda scheduler: go.wait(20) and {})
    assert service.view.told("j1")["state"] == "admitted"
    assert service.store.job("j1").state == "admitted"
    assert service.view.used(0, 2).sum() == 3 * 2 * 1000
    assert not stuck.done()
    go.set()
    stuck.result(PATIENCE)


def test_a_server_that_was_taken_over_stops(service, store, monkeypatch):
    """The epoch has moved: the batch is refused, the service says why it cannot go on, and answers nothing more."""
    ended = threading.Event()
    service.on_failure = ended.set

    def fenced(self, batch):
        raise Fenced("epoch 2, ours is 1")

    monkeypatch.setattr(type(store), "append", fenced)
    with pytest.raises(Unavailable):
        ask(service, **submission(JOB))
    assert ended.wait(20)
    assert isinstance(service.failed, Fenced)
    with pytest.raises(Unavailable):
        ask(service, **submission(JOB))


def test_a_stop_leaves_a_snapshot_of_the_last_event(store, tmp_path):
    """So that the next start replays nothing."""
    service = Service(store, SETTINGS, CLUSTER)
    service.start()
    ask(service, **submission(JOB))
    service.stop()
    assert store.snapshots()[-1][0] == store.last() == 3
    with peek_store(f"sqlite:///{tmp_path}/e.db") as other:
        assert other.snapshot().digest == service.state.digest()


@pytest.mark.parametrize(
    ("settings", "cluster", "refusal"),
    [
        (Settings(slot_seconds=60.0, horizon=12, clock="virtual"), None, ("store.setting", "--slot")),
        (Settings(slot_seconds=600.0, horizon=13, clock="virtual"), None, ("store.setting", "--horizon")),
        (Settings(slot_seconds=600.0, horizon=12, clock="real"), None, ("store.setting", "--clock")),
        (SETTINGS, Cluster((Machine({"gpu": 8}, 2, "gpu"),)), ("store.cluster", "--cluster")),
    ],
)
def test_a_store_keeps_what_it_was_opened_with(store, settings, cluster, refusal):
    """Other slots, horizon, clock or machines than the log was made with are refused by name."""
    Service(store, SETTINGS, CLUSTER)
    with refused(*refusal):
        Service(store, settings, cluster)


def test_a_new_store_needs_machines(store):
    with refused("store.new", "--cluster"):
        Service(store, SETTINGS)


def test_what_fails_after_the_commit_is_not_carried_out_again(service, monkeypatch):
    """Publishing breaks once, after the transaction: both requests (without keys) are answered, there are two jobs and not
    four, and reads see them."""
    broken = []

    def breaks(self, events, helds):
        monkeypatch.undo()
        broken.append(len(events))
        raise ValueError("no view")

    monkeypatch.setattr(Service, "_publish", breaks)
    answers = [future.result(PATIENCE) for future in together(service, submission(JOB), submission(JOB))]
    assert broken and [body["id"] for _, body in answers] == ["j1", "j2"]
    assert service.store.counts() == {"admitted": 2}
    assert set(service.view.live) == {"j1", "j2"}


def test_a_snapshot_of_another_version_is_not_used(store):
    """After an upgrade the form of the state may be another: the log is replayed from its beginning, the store is called
    sound, and the next snapshot is in the new form."""
    service = Service(store, SETTINGS, CLUSTER)
    service.start()
    ask(service, **submission(JOB))
    service.stop()
    old = store.snapshot()
    foreign = {"form": 1, "what": "an older version kept"}
    with store.database.writing() as connection:
        packed = (digest_of(foreign), pack(foreign), old.seq)
        connection.exec_driver_sql("UPDATE snapshots SET digest = ?, state = ? WHERE seq = ?", packed)
    certificate, _ = verify_log(store)
    assert certificate.passed and "another version" in certificate["snapshots"].meaning
    again = Service(store, SETTINGS)
    assert again.state.digest() == old.digest
    again.start()
    ask(again, **submission(JOB))
    again.stop()
    assert usable_snapshot(store).seq == store.last() > old.seq


def test_who_gives_up_waiting_stops_nobody(service):
    """The future of a request is cancelled while the planner works on it: those behind it are answered."""
    gate = threading.Event()
    first = service.ask(lambda scheduler: {"waited": gate.wait(20)})
    gone, behind = service.ask(lambda scheduler: {}), service.ask(lambda scheduler: {"here": True})
    first.cancel(), gone.cancel()
    gate.set()
    assert behind.result(PATIENCE)[1] == {"here": True}


def test_a_listener_that_fails_stops_nobody(service):
    """As a stream does whose event loop is closed already."""

    def deaf(events):
        raise RuntimeError("Event loop is closed")

    service.listen(deaf)
    assert ask(service, **submission(JOB))[1]["id"] == "j1"
    assert ask(service, **submission(JOB))[1]["id"] == "j2"


def test_the_same_key_within_one_batch_needs_no_second_try(service, caplog):
    """Found among the answers of its own batch, not by the database refusing the second row: nothing fails."""
    with caplog.at_level(logging.ERROR):
        one, two = (f.result(PATIENCE) for f in together(service, submission(JOB, "k"), submission(JOB, "k")))
    assert one == two and not caplog.records


def test_a_refusal_after_a_change_keeps_nothing(service, store):
    """A command records something and is refused then (a mistake of ours): nothing of it is stored, and the next goes on."""

    def halfway(scheduler):
        scheduler.submit(JOB, "")
        raise InputError("too late")

    failure = service.ask(halfway).exception(20)
    assert isinstance(failure, Unavailable) and store.last() == 1
    assert ask(service, **submission(JOB))[1]["id"] == "j1"


def test_machines_with_a_new_resource_leave_what_is_shown_right(service):
    """A resource that stands before the others in order: what is held is still told in the right column."""
    ask(service, **submission(JOB))
    machine = {"name": "x", "capacity": {"apu": 1, "gpu": 1}}
    ask(service, command=lambda scheduler: {"names": scheduler.add_machines(machine)})
    view = service.view
    used = view.used(view.now, view.now).sum(axis=(0, 1))
    assert dict(zip(view.cluster.resources, used.tolist(), strict=True)) == {"apu": 0, "gpu": 2000}


def test_who_comes_when_too_many_wait_is_told_so_at_once(service, monkeypatch):
    """Two may wait here: the third is refused while the planner is busy, the clock is not, and then all goes on."""
    monkeypatch.setattr("equipoise.serve.service.MOST_WAITING", 2)
    gate = threading.Event()
    busy = service.ask(lambda scheduler: gate.wait(20) and {})
    while service.waiting:
        pass
    patient = [service.ask(lambda scheduler: {}) for _ in range(2)]
    with pytest.raises(Unavailable, match="too many"):
        service.ask(lambda scheduler: {}).result(PATIENCE)
    clock = service.ask(lambda scheduler: {}, urgent=True)
    gate.set()
    assert [future.result(PATIENCE)[0] for future in (busy, *patient, clock)] == [200] * 4
