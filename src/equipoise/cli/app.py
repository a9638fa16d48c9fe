"""The root of the command line. A verb is imported only when it is called, so that --help answers at once."""

from __future__ import annotations

import importlib

import typer

from equipoise import __version__

VERBS = {
    "train": "Centres train one model together and negotiate a CPU budget, over quantised messages.",
    "share": "Tasks with learning curves and deadlines crowd one site: compare policies that divide it.",
    "place": "Jobs arrive at a cluster: compare policies that admit, size, place and time them.",
    "reproduce": "What the three papers claim, measured here: a computed verdict for every claim.",
    "serve": "The planner as a service: decisions with reasons, a live page, nothing lost.",
    "doctor": "What works on this machine: holding a process to its CPU, measured; what is missing.",
    "submit": "Submit a job to a running service, or ask what it would be told.",
    "jobs": "List the jobs of a running service.",
    "job": "Show one job: its plan, why it was treated so, its history.",
    "cancel": "Cancel jobs.",
    "report": "Say how far a job is, or that it is done.",
    "machines": "List the machines of a running service; add, drain, down, up.",
    "prices": "Show the prices of a running service; set them, or learn them from past jobs.",
    "clock": "Show the slot it is; move a virtual clock on.",
    "shadow": "Feed a service from a growing sacct export or a trace, and report what it would have done.",
    "token": "Add, list and revoke the tokens of a service.",
    "tenant": "Set, list and remove the quotas of tenants.",
}

app = typer.Typer(
    name="equipoise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Decide who trains, with how much CPU, where and when. Every run ends in a certificate."""


def _forward(verb: str, summary: str) -> None:
    """Hand everything after the verb to its own file."""

    @app.command(
        verb,
        help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def call(context: typer.Context) -> None:
        module = importlib.import_module(f"equipoise.cli.{verb}")
        code = module.app(args=context.args, prog_name=f"equipoise {verb}", standalone_mode=False)
        raise typer.Exit(code if isinstance(code, int) else 0)


for _verb, _summary in VERBS.items():
    _forward(_verb, _summary)
