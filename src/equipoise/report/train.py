"""The page of a training run: what was done in words, the certificate, key numbers, and the charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.present.html import render, verdict
from equipoise.present.text import NOTHING, count, number, percent, scaled
from equipoise.report import train_charts, train_coupling, train_deep, train_faults
from equipoise.report.train_network import network
from equipoise.train.hostile.run import HostileRun
from equipoise.train.run import Run

MODEL_WORDS = {
    "LeastSquares": "least squares",
    "SmoothSVM": "a smooth SVM",
    "Softmax": "softmax",
    "TorchModel": "a net",
    "Perceptron": "a net",
}
NETS = {"mlp": "a net with one hidden layer", "cnn": "a convolutional net"}


def train_page(run: Run, document: dict[str, Any]) -> str:
    """The whole page as text; `document` is what stands in result.json."""
    result = document["result"]
    accuracy = result.get("accuracy")
    charts = [
        train_coupling.allocations(result.get("allocations")),
        train_coupling.allocations(result.get("allocations"), equal=True),
        train_charts.convergence(run, _target(document)),
        train_charts.shares_over_time(run),
        network(run, None if accuracy is None else accuracy["nodes"]),
        train_faults.in_flight(run),
        train_charts.bits_spent(run),
        train_charts.final_shares(run),
        None if accuracy is None else train_charts.node_accuracy(accuracy),
        train_deep.node_losses(result.get("losses")),
        train_deep.rivals(result.get("rivals")),
    ]
    return render(
        "train.html.j2",
        title=title(run, document),
        document=document,
        charts=[chart for chart in charts if chart is not None],
        banner=run.reason if run.status == "diverged" else "",
        events=train_faults.words_of_events(run),
        numbers=_key_numbers(run, document["result"], _target(document)),
        seconds=number(run.seconds, 2),
    )


def title(run: Run, document: dict[str, Any]) -> str:
    """20 centres trained softmax on digits and shared 500 CPUs: certificate passed."""
    deeds = []
    if run.problem.model is not None:
        data = _data_name(document["config"])
        name = NETS.get(document["config"].get("model", ""), _model_name(run.problem.model))
        deeds.append(f"trained {name}" + (f" on {data}" if data else ""))
    if run.budget is not None:
        deeds.append(f"shared {count_of_cpus(run.budget)}")
    outcome = f"certificate {verdict(document['certificate'])}"
    if run.status == "diverged":
        outcome = f"the run diverged, {outcome}"
    where = " over a hostile network" if isinstance(run, HostileRun) else ""
    lost = len(document["result"].get("engine", {}).get("lost", ()))
    if lost:
        where += f" and lost {count(lost, 'worker')}"
    return f"{count(run.network.n, 'centre')} {' and '.join(deeds)}{where}: {outcome}"


def count_of_cpus(amount: float) -> str:
    return f"{number(amount)} {'CPU' if amount == 1 else 'CPUs'}"


def _model_name(model: object) -> str:
    name = type(getattr(model, "wrapped", model)).__name__  # a user's own model comes wrapped
    return MODEL_WORDS.get(name, name)


def _data_name(config: dict[str, Any]) -> str:
    """digits, or the name of the file the data came from."""
    name = config.get("data")
    if name == "csv" and config.get("data_file"):
        return Path(str(config["data_file"])).name
    return name.replace("_", " ") if isinstance(name, str) and name != "none" else ""


def _target(document: dict[str, Any]) -> float | None:
    """The relative gap that the certificate asks for."""
    return next((check["limit"] for check in document["certificate"]["checks"] if check["name"] == "gap"), None)


def _engine_numbers(engine: dict[str, Any] | None) -> list[dict[str, str]]:
    """Where rounds were played, by whom, and what CPU they were held to."""
    if engine is None:
        return []
    note = engine["where"]
    if "lost" in engine:
        died = "; ".join(f"worker {row['worker']} died in round {row['round']}" for row in engine["lost"])
        note = f"{note}; {died}"
    sent = scaled(engine["bytes_a_round"], "B")
    found = [{"name": "between workers", "value": sent, "note": f"a round; {note}"}]
    if "held" in engine:
        asked = sum(row["asked_cpu_seconds"] for row in engine["held"]["workers"])
        value = f"{number(engine['held']['cpu_seconds'])} s"
        found.append({"name": "CPU of workers", "value": value, "note": f"of the {number(asked)} s they were held to"})
    return found


def _key_numbers(run: Run, result: dict[str, Any], target: float | None) -> list[dict[str, str]]:
    gap = result.get("relative_gap")
    found = [
        {"name": "rounds", "value": f"{run.rounds:,}", "note": run.status if run.status == "diverged" else run.reason}
    ]
    if run.convex or run.shares is not None:
        since = "at the last event" if train_faults.events_of(run) else "at the start"
        half = "of the gap" if run.convex else "of the gap of the CPU cost"
        asked = "" if target is None else f"; asked for {number(target)}"
        value = NOTHING if run.status == "diverged" else number(gap)
        found.append({"name": "relative gap", "value": value, "note": f"{half} {since}{asked}"})
    if "loss" in result:
        first = number(float(run.history["loss"][0]))
        found.append({"name": "worst node's loss", "value": number(result["loss"]), "note": f"{first} at the start"})
    found += _engine_numbers(result.get("engine"))
    found += [
        {
            "name": "sent over all links",
            "value": scaled(run.bits, "bit"),
            "note": f"{scaled(run.bits / 8, 'B')} over {count(len(run.link_bits.bits), 'directed link')}",
        },
        *train_faults.key_numbers(run),
    ]
    if "accuracy" in result:
        worst, central = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        note = "on data that nobody trained on" if central is None else f"centralised: {percent(central)}"
        found.append({"name": "worst node's test accuracy", "value": percent(worst), "note": note})
    return found
