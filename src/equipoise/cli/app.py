"""The root of the command line. A command's file is imported when it is called, so that --help answers at once."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

import typer
from typer.core import TyperCommand, TyperGroup

from equipoise import __version__
from equipoise.cli import Interrupted

if TYPE_CHECKING:
    from typer._click import Command, Context

FIRST = """Equipoise {version}: who trains, with how much CPU, where and when.

Start with:
  equipoise train              20 centres train one model and share 500 CPUs
  equipoise share              policies compete for a crowded site
  equipoise place              policies put jobs on a cluster
  equipoise reproduce --quick  what three papers claim, measured here
  equipoise serve              the planner as a service, with a live page

Each run ends in a certificate. All commands: equipoise --help
"""


COMMANDS = {  # each is a file of this folder
    "train": "Centres train one model together and negotiate a CPU budget, over quantised messages.",
    "predict": "What a model that was trained on your own files says of new rows.",
    "share": "Tasks with learning curves and deadlines crowd one site: compare policies that divide it.",
    "place": "Jobs arrive at a cluster: compare policies that admit, size, place and time them.",
    "reproduce": "What the three papers claim, measured here: a computed verdict for every claim.",
    "doctor": "What works on this machine: holding a process to its CPU, measured; what is missing.",
    "serve": "The planner as a service: decisions with reasons, a live page, nothing lost.",
    "jobs": "Jobs of a running service: submit, list, show, cancel, progress.",
    "admin": "Run a service: token, tenant, machines, prices, clock, shadow.",
}
# Names of 0.1.0: they work until 0.3, and --help does not show them.
ALIASES = {
    "submit": ("jobs", "submit"),
    "job": ("jobs", "show"),
    "cancel": ("jobs", "cancel"),
    "report": ("jobs", "progress"),
    **{name: ("admin", name) for name in ("token", "tenant", "machines", "prices", "clock", "shadow")},
}


class LazyGroup(TyperGroup):
    """Commands that are a name and a line of help until one of them is called, or completed in a shell."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in ALIASES and sys.stderr.isatty():
            print(
                f"equipoise {name} is now: equipoise {' '.join(ALIASES[name])}; the old name goes in 0.3",
                file=sys.stderr,
            )
        return name, command if name is None else load(name), rest

    def invoke(self, ctx: Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(str(interrupt)) from None


def load(name: str) -> Command:
    """The command itself, from its file."""
    file, *below = ALIASES.get(name, (name,))
    command: Command = typer.main.get_command(import_module(f"equipoise.cli.{file}").app)
    for word in below:
        command = cast(TyperGroup, command).commands[word]
    return command


app = typer.Typer(
    name="equipoise",
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Decide who trains, with how much CPU, where and when. Every run ends in a certificate."""
    if context.invoked_subcommand is None:
        print(FIRST.format(version=__version__), end="")


def _stand_in() -> None:
    """Never called: the group loads the command of this name first."""


for _name in (*COMMANDS, *ALIASES):
    app.command(_name, help=COMMANDS.get(_name), hidden=_name in ALIASES, cls=TyperCommand)(_stand_in)
