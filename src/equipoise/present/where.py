"""What runs where, of every verb: simulation, execution, calculation or service; who reads which data; what leaves.

`where` knows it from the settings and, where there is one, the result of a run: of one that is about to begin (the command
line says it first) and of a document of any version (pages say it below their title).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from equipoise.document import Document, Plain
from equipoise.present.text import count
from equipoise.present.values import Text

SIMULATION, CALCULATION = "Simulation", "Calculation"
EXECUTION, RAY, SERVICE = "Execution on this machine", "Execution on a Ray cluster", "Service"
STAYS = "Nothing leaves this machine."
NEGOTIATED, HELD = "CPU shares are negotiated, not enforced.", "CPU shares are enforced: workers are held to them."
BESIDE = "The simulation of the same tasks stands beside it."
DATA_SETS = {"mnist": "MNIST"}
ONE = "one process on this machine plays"


@dataclass(frozen=True)
class Where:
    """One or two short sentences for each question.

    Parameters
    ----------
    kind
        SIMULATION, EXECUTION, RAY, CALCULATION or SERVICE.
    who
        Which process plays, runs or computes what.
    reads
        Which process reads which data.
    leaves
        What leaves a place, and what does not.
    more
        What else a reader might take for granted, such as that CPU is held.
    """

    kind: str
    who: str
    reads: str
    leaves: str
    more: str = ""

    @property
    def words(self) -> str:
        """All but the kind."""
        return " ".join(filter(None, (self.who, self.reads, self.leaves, self.more)))

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"

    @property
    def block(self) -> Text:
        """For pages and the terminal."""
        return Text(self.words, f"{self.kind}:")


@dataclass(frozen=True)
class Asked:
    """A run: the settings and the result, as plain values. `over`: where a sweep was sent, in words, if it is known."""

    config: Mapping[str, Plain]
    result: Mapping[str, Plain]
    over: str | None = None

    def name(self, key: str) -> str:
        """The name of a file among the settings; "" without."""
        return name_of((self.names(key) or [""])[0])

    def names(self, *keys: str) -> list[str]:
        """The names of all files of these settings, each once."""
        found: list[str] = []
        for key in keys:
            value = self.config.get(key) or []
            found += [name_of(one) for one in (value if isinstance(value, list) else [value])]
        return list(dict.fromkeys(found))


def where(
    verb: str,
    config: Mapping[str, Plain] | None = None,
    result: Mapping[str, Plain] | None = None,
    *,
    over: str | None = None,
) -> Where | None:
    """What runs where; None for a verb that is not known here, such as that of a bare CSV file.

    Parameters
    ----------
    verb
        As in a document: "train", "share execute", "place verify".
    config
        The settings, of which any may be missing. Of a run of train that is about to begin, with `engine`, `address`,
        `workers` and `limiter`; a document has these in its result.
    result
        What came out, where it is known.
    over
        Of a sweep that is about to begin: where its parts are sent, as `engine.spread` says it; "" for where they are by
        themselves. None where that is not known, as of a document.
    """
    known = KNOWN.get(verb)
    return None if known is None else known(Asked(config or {}, result or {}, over))


def where_of(document: Document) -> Where | None:
    """What ran where, of a document."""
    return where(document.verb, document.config, document.result)


def name_of(path: Plain) -> str:
    """The last part of a path, as text that steers no terminal."""
    name = Path(str(path)).name if path else ""
    return "".join(letter if letter.isprintable() else "·" for letter in name)


def listed(words: list[str], most: int = 3) -> str:
    """a, b and c; many by their number."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} other files"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# train


def _train(asked: Asked) -> Where:
    """The rounds of a run: in one process, or on workers, which a document has in its result under `engine`."""
    played = asked.result.get("engine") or {}
    told = str(played.get("where", ""))
    engine = asked.config.get("engine", "embedded")
    centres = _centres(asked)
    shared = asked.config.get("cost", "") not in (None, "none")
    if engine == "embedded" and (not told or told.startswith("threads")):
        who = f"{ONE} {centres}."
        return Where(SIMULATION, who, _read(asked, "It reads"), _between(asked, STAYS), NEGOTIATED if shared else "")
    rays = engine == "ray" or " on Ray" in told
    away = rays and (bool(asked.config.get("address")) or "Ray at " in told)
    return Where(
        RAY if away else EXECUTION,
        f"{_workers(asked, told, rays)} play {centres}.",
        _read(asked, "The process of the command reads") + _handed(asked, away),
        _between(asked, _left(asked, away)),
        (HELD if _held(asked) else NEGOTIATED) if shared else "",
    )


def _workers(asked: Asked, told: str, rays: bool) -> str:
    if told:
        return told.partition(": ")[0]
    workers, address = asked.config.get("workers"), asked.config.get("address")
    many = "workers, one for each core," if workers is None else count(int(workers), "worker")
    if not rays:
        return f"{many} of this machine, each a process," if workers is None else f"{many}, processes of this machine,"
    return f"{many} on Ray at {name_of(address)}" if address else f"{many} on Ray on this machine"


def _centres(asked: Asked) -> str:
    """all 20 centres; without a number where a file of links has it, and no result says it."""
    config, network = asked.config, asked.result.get("network")
    if isinstance(network, dict) and "nodes" in network:
        nodes = network["nodes"]
    elif len(config.get("files") or []) > 1:
        nodes = len(config["files"])
    elif config.get("couple"):
        nodes = 20
    else:
        nodes = None if config.get("network") == "file" else config.get("nodes")
    return "all centres" if nodes is None else "its only centre" if nodes == 1 else f"all {int(nodes):,} centres"


def _no_data(asked: Asked) -> bool:
    config = asked.config
    without = "model" in config and config["model"] in (None, "none")
    return (config.get("data") == "none" or without) and not (config.get("couple") or config.get("files"))


def _read(asked: Asked, begins: str) -> str:
    """Which data the main process reads, and that it is it that divides it."""
    config = asked.config
    if _no_data(asked):
        return f"{begins} no data: only CPU is shared."
    files = config.get("files") or []
    if len(files) > 1:
        return f"{begins} all {len(files)} files, one for each centre."
    if not config.get("couple") and config.get("data") == "csv":
        file = listed(asked.names("files", "data_file")[:1] or ["the file"])
        return f"{begins} all of {file} and deals its rows to the centres."
    data = "digits" if config.get("couple") else str(config.get("data") or "")
    data = DATA_SETS.get(data, data.replace("_", " "))
    return f"{begins} all data ({data}) and deals its rows to the centres." if data else f"{begins} all data."


def _handed(asked: Asked, away: bool) -> str:
    if _no_data(asked):
        return ""
    return f" It hands each worker the rows of its own centres{', over the network' if away else ''}."


def _left(asked: Asked, away: bool) -> str:
    if not away:
        return STAYS
    if _no_data(asked):
        return "No data leaves this machine; settings and messages of centres do, for the hosts of the cluster."
    return "So rows leave this machine, for the hosts of the cluster where workers run."


def _between(asked: Asked, leaves: str) -> str:
    """Who trains on files asks what leaves a centre, not only what leaves this machine."""
    if len(asked.config.get("files") or []) < 2:
        return leaves
    between = (
        "Between centres move counts, sums, names, a fingerprint of each file, prices and models, never rows (the run "
        "lists what left each)."
    )
    return f"{between} {leaves}"


def _held(asked: Asked) -> bool:
    """Whether workers are held to their shares: with --couple, by a limiter that limits."""
    config, engine = asked.config, asked.result.get("engine")
    if engine:
        return "held" in engine and not str(engine["held"].get("limiter", "")).startswith("none")
    return bool(config.get("couple")) and config.get("limiter") != "none"


def _train_compare(asked: Asked) -> Where:
    return Where(
        SIMULATION,
        f"{ONE} every method on the same instances.",
        "It draws the instances itself and reads no data.",
        STAYS,
        NEGOTIATED,
    )


def _train_analyse(asked: Asked) -> Where:
    who = "nothing is simulated or executed. One process on this machine computes what theory says of the run."
    return Where(CALCULATION, who, _read(asked, "It reads"), STAYS)


def _train_verify(asked: Asked) -> Where:
    who = "nothing is simulated or executed. One process on this machine computes the certificate again."
    reads = "It reads the files of the run folder and, once more, the data that the run was made from."
    return Where(CALCULATION, who, reads, STAYS)


def _train_predict(asked: Asked) -> Where:
    who = "nothing is simulated or trained. One process on this machine computes what the model of the run says."
    return Where(CALCULATION, who, f"It reads the run folder and {asked.name('data_file') or 'the new rows'}.", STAYS)


# share


def _swept(asked: Asked, who: str, what: str, reads: str, sent: str) -> Where:
    """A sweep by `who` plays `what`; of it, `sent` leaves this machine where it goes over a Ray cluster."""
    leaves, over = STAYS, (asked.over or "").partition(": ")[0]
    if asked.over is None:
        leaves = f"Nothing leaves this machine, unless --address sent {sent} to a Ray cluster."
    elif over and over != "this process":
        who = f"{over} play"
        leaves = f"So {sent} leave this machine, for the hosts of the cluster." if " of Ray at " in over else STAYS
    return Where(SIMULATION, f"{who} {what}", reads, leaves)


def _tasks(curves: str, recorded: bool) -> str:
    """Where the tasks of share come from: no file but a recording has any."""
    if curves:
        return f"It draws tasks from the recorded curves of {curves}, and reads no other data."
    if recorded:
        return "It draws tasks from recorded curves that come with Equipoise, and reads no other data."
    return "It draws the tasks itself and reads no data."


def _share(asked: Asked) -> Where:
    what = "every policy on the same tasks, in simulated time. Nothing is trained."
    reads = _tasks(asked.name("curves"), asked.config.get("preset") == "recorded")
    return _swept(asked, ONE, what, reads, "settings, policies and tasks")


def _share_bundles(asked: Asked) -> Where:
    what = "every policy on the same bundles, in simulated time. Nothing is trained."
    return _swept(asked, ONE, what, _tasks(asked.name("curves"), True), "settings, policies and recorded curves")


def _share_played(what: str) -> Callable[[Asked], Where]:
    who = f"{ONE} {what}, in simulated time. Nothing is trained."
    return lambda asked: Where(SIMULATION, who, _tasks("", False), STAYS)


def _share_execute(asked: Asked) -> Where:
    config, site = asked.config, asked.result.get("site") or {}
    cpus = config.get("cpus", site.get("cpus"))
    held = "held to the CPU that policies give it"
    if str(asked.result.get("limiter", config.get("limiter"))).startswith("none"):
        held = "not held to the CPU that policies give it"
    elif cpus is not None:
        held += f" ({float(cpus):g} CPUs for all)"
    reads = "Each reads a data set that comes with scikit-learn, from memory; transfers are simulated."
    if work := config.get("work"):
        reads = f"Each reads what {name_of(work)} reads; transfers are simulated."
    return Where(EXECUTION, f"every task is a process that really trains, {held}.", reads, STAYS, BESIDE)


def _share_record(asked: Asked) -> Where:
    who = "one process on this machine really trains scikit-learn models, one after the other. No CPU is shared."
    return Where(EXECUTION, who, "It reads data sets that come with scikit-learn.", STAYS)


# place


def _jobs(asked: Asked) -> str:
    """Which files of jobs and machines are read."""
    names = asked.names("jobs", "cluster", "history", "calendar")
    if not asked.config.get("jobs"):
        others = f" It reads {listed(names)}." if names else ""
        return f"It draws the jobs itself.{others}"
    return f"It reads {listed(names)}."


def _place(asked: Asked) -> Where:
    what = "every policy on the same jobs, in simulated time. No job is run."
    return _swept(asked, ONE, what, _jobs(asked), "jobs and machines")


def _place_sweep(asked: Asked) -> Where:
    who = "processes of this machine, one for each core, play"
    what = "every policy with every seed, in simulated time. No job is run."
    return _swept(asked, who, what, _jobs(asked), "jobs and machines")


def _place_played(what: str) -> Callable[[Asked], Where]:
    who = f"{ONE} {what}, in simulated time. No job is run."
    return lambda asked: Where(SIMULATION, who, _jobs(asked), STAYS)


def _place_computed(what: str) -> Callable[[Asked], Where]:
    def found(asked: Asked) -> Where:
        names = asked.names("schedule", "jobs", "cluster", "claims", "calendar")
        reads = f"It reads {listed(names, most=5)}." if names else _jobs(asked)
        who = f"nothing is simulated or executed. One process on this machine {what}."
        return Where(CALCULATION, who, reads, STAYS)

    return found


# others


def _reproduce(asked: Asked) -> Where:
    return Where(
        SIMULATION,
        "processes on this machine play what the papers claim.",
        "They draw what they play, and read data sets that come with scikit-learn, or MNIST from its folder.",
        STAYS,
    )


def _serve(asked: Asked) -> Where:
    return Where(
        SERVICE,
        "one process decides and records; your cluster runs the jobs.",
        "It reads what is submitted, never what jobs train on.",
        "All of it is kept in its store, and nothing is sent elsewhere.",
    )


KNOWN: Mapping[str, Callable[[Asked], Where]] = {
    "train": _train,
    "train compare": _train_compare,
    "train analyse": _train_analyse,
    "train verify": _train_verify,
    "train predict": _train_predict,
    "share": _share,
    "share published": _share_played("the authors' own sequence of runs"),
    "share bundles": _share_bundles,
    "share run": _share_played("one policy"),
    "share check": _share_played("the policy on small sites"),
    "share execute": _share_execute,
    "share record": _share_record,
    "place": _place,
    "place run": _place_played("one policy"),
    "place sweep": _place_sweep,
    "place whatif": _place_played("the jobs twice, as they are and with the change"),
    "place explain": _place_played("one policy until the job is decided"),
    "place calibrate": _place_played("past jobs at every candidate price"),
    "place bound": _place_computed("computes what no schedule can pass"),
    "place verify": _place_computed("checks the schedule"),
    "place import": _place_computed("turns the trace into jobs, and writes them"),
    "reproduce": _reproduce,
    "serve": _serve,
}
