"""Specs as options of a command: each field is an option of the command line and a key of config.yaml."""

from __future__ import annotations

import inspect
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from typer.core import TyperGroup

from equipoise.cli.output import warn
from equipoise.errors import InputError
from equipoise.spec import Spec

AnySpec = TypeVar("AnySpec", bound=Spec)


def application(default: str | None = None) -> typer.Typer:
    """An application for one command, or for a group of them; words that name no command are for the `default` one."""
    return typer.Typer(
        cls=None if default is None else with_default(default),
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        subcommand_metavar=None if default is None else "[COMMAND]",
    )


def with_default(default: str) -> type[TyperGroup]:
    """A group of commands: `place jobs.yaml` is `place compare jobs.yaml`, and --help shows the options of both."""

    class WithDefault(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "-h", "--help"):
                args = [default, *args]
            return super().parse_args(ctx, args)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            super().format_help(ctx, formatter)
            command = self.commands[default]
            command.format_help(type(ctx)(command, info_name=f"[{default}]", parent=ctx), formatter)

    return WithDefault


def has_command(context: typer.Context) -> bool:
    """Whether a command of this group follows; options that stand before it would be lost, and are refused."""
    command = context.invoked_subcommand
    if command is None:
        return False
    if any(str(context.get_parameter_source(name)).endswith("COMMANDLINE") for name in context.params):
        raise InputError(f"options stand after the command: {context.command_path} {command} [OPTIONS]")
    return True


def with_options(config: type[BaseModel]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per field of `config`; it receives those the user set as the dict `chosen`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "chosen"]
        fields = [_option(name, field) for name, field in config.model_fields.items() if _on_command_line(field)]
        names = {p.name for p in fields}

        def run(**given: Any) -> None:
            chosen = {name: value for name, value in given.items() if name in names and value is not None}
            command(chosen=chosen, **{name: value for name, value in given.items() if name not in names})

        run.__doc__ = command.__doc__
        run.__signature__ = inspect.Signature([*own, *fields])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*own, *fields]}
        return run

    return decorate


def read_spec(kind: type[AnySpec], config: Path | None, chosen: dict[str, object]) -> AnySpec:
    """The spec, and then the notes on what of an old file was read as something else: a mistake is told alone."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        spec = kind.read(config, chosen)
    warn([note.message for note in notes])
    return spec


def _on_command_line(field: Any) -> bool:
    return not (field.json_schema_extra or {}).get("only_in_file", False)


def _option(name: str, field: Any) -> inspect.Parameter:
    """Text for names and mixed types, so that the configuration class does all checking; numbers and flags as such."""
    extra = field.json_schema_extra or {}
    kinds = {kind for kind in _kinds(field.annotation) if kind is not type(None)}
    kind = kinds.pop() if len(kinds) == 1 else str
    if kind not in (int, float, bool):
        kind = str
    flag = "--" + name.replace("_", "-")
    flags = [f"{flag}/--no-{name.replace('_', '-')}"] if kind is bool else [flag]
    flags += [f"--{extra['old']}"] if "old" in extra else []  # its name in an earlier version
    repeats = extra.get("repeats", False)
    default = "" if field.default is None or repeats else f" (default: {field.default})"
    option = typer.Option(
        *flags, help=field.description + default, rich_help_panel=extra.get("panel"), metavar=extra.get("metavar")
    )
    annotation = Annotated[list[str] | None if repeats else kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kinds(annotation: Any) -> list[Any]:
    """The types that a field takes, without what Annotated adds to them."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _kinds(annotation.__origin__)
    if origin in (typing.Union, types.UnionType):
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part)]
    return [annotation]


# What several commands have, beside their spec.

File = Annotated[Path | None, typer.Option(help="Repeat a run from its config.yaml; options given here win.")]
Out = Annotated[Path, typer.Option(help="Where run folders are made.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]

# Where a sweep runs. No part of its settings, for they never change what comes out.

WHERE = "Where it runs"
Workers = Annotated[
    int | None,
    typer.Option(help="Parts that run at once. (default: all cores)", metavar="COUNT", rich_help_panel=WHERE),
]
Spread = Annotated[str | None, typer.Option(help="threads, processes, or ray.", metavar="KIND", rich_help_panel=WHERE)]
Address = Annotated[
    str | None,
    typer.Option(help="A Ray cluster: HOST:PORT, ray://HOST:PORT or auto.", metavar="ADDRESS", rich_help_panel=WHERE),
]


@contextmanager
def spreading(usual: str, workers: int | None, kind: str | None, address: str | None, *, quiet: bool) -> Iterator[str]:
    """Sweeps inside run where the options say, which is printed; gives that place in words, "" if they say nothing.

    `usual` is the verb's own kind.
    """
    if workers is None and kind is None and address is None:
        yield ""
        return
    from equipoise.engine.spread import spread

    kind = usual if kind is None and address is None else kind
    with spread(kind, workers=workers, address=address) as where:
        if not quiet:
            print(f"over {where}", file=sys.stderr, flush=True)
        yield where
