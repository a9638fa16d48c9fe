"""What a run is, as a pydantic model: the options of the command line, the keys of config.yaml, and the Python call.

A field made with `setting` has its help text and the panel of `--help` it stands in. `config.yaml` states the version that
wrote it; a file without one is of 0.1.0.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from equipoise import __version__
from equipoise._short import short
from equipoise.errors import InputError, unknown_name

VERSION = "version"  # the key of config.yaml
FIRST = "0.1.0"  # wrote no version
Values = dict[str, object]


def setting(default: object, description: str, panel: str, metavar: str | None = None, **extra: object) -> Any:
    """A field with its help text.

    Parameters
    ----------
    default
        Its value when nobody sets it.
    description
        The help text.
    panel
        The heading it stands under in `--help`.
    metavar
        How its value is called there; the type if None.
    extra
        `only_in_file=True`: no option; `repeats=True`: the option may be given several times.
    """
    # The return type is Any because pydantic reads the default of a field of any type from it.
    return Field(
        default, description=description, json_schema_extra=cast(Any, {"panel": panel, "metavar": metavar, **extra})
    )


def panel(name: str) -> Callable[..., Any]:
    """`setting` for the fields of one panel of `--help`: called with default, description, metavar and extra.

    Parameters
    ----------
    name
        The heading they stand under.
    """

    def made(default: object, description: str, metavar: str | None = None, **extra: object) -> Any:
        return setting(default, description, name, metavar, **extra)

    return made


def whole(least: int, most: float = math.inf) -> AfterValidator:
    """For the annotation of a field that takes whole numbers, or None.

    Parameters
    ----------
    least
        The smallest that is taken.
    most
        The largest.
    """

    def check(value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value < least:
            raise InputError(f"{info.field_name} must be {least} or more, not {value}", code=f"{info.field_name}.range")
        if value is not None and value > most:
            raise InputError(
                f"{info.field_name} must be at most {most:,}, not {value}", code=f"{info.field_name}.range"
            )
        return value

    return AfterValidator(check)


def known_names(known: Mapping[str, Sequence[str]]) -> Any:
    """A validator for a spec's body: each of these fields takes one of its names, or None.

    Parameters
    ----------
    known
        Names by field.
    """

    def check(value: str | None, info: ValidationInfo) -> str | None:
        field = str(info.field_name)
        if value is not None and value not in known[field]:
            raise unknown_name(field, value, known[field])
        return value

    return field_validator(*known)(check)


def _absolute(value: str | None) -> str | None:
    return None if value is None else os.path.abspath(value)


Whole = Annotated[str, AfterValidator(_absolute)]  # an absolute path
WholePath = Annotated[str | None, AfterValidator(_absolute)]  # so that a config.yaml repeats its run from any folder


class Brief(str):
    """Text that stands in a `repr` as it is."""

    def __repr__(self) -> str:
        return str(self)


class Spec(BaseModel):
    """Base of all specs. A subclass has fields made with `setting`, and `build()`, which makes the objects of a run."""

    model_config = ConfigDict(extra="forbid", validate_default=True, ser_json_inf_nan="strings")

    @classmethod
    def read(cls, file: Path | None = None, chosen: Mapping[str, object] | None = None) -> Self:
        """Defaults, then the file, then what was chosen beside it.

        Parameters
        ----------
        file
            A config.yaml.
        chosen
            Values by field name, such as the options of a command.

        Raises
        ------
        InputError
            One line that names the file or the option, the value and the way out.
        """
        values = {} if file is None else _upgraded(cls, file)
        return cls._made(values, {name: str(file) for name in values}, chosen or {})

    def __init__(self, **values: object) -> None:
        _refuse_unknown(type(self), values, {})
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _one_line(error, {}) from None

    @classmethod
    def _made(cls, values: Values, source: dict[str, str], chosen: Mapping[str, object]) -> Self:
        source = source | {name: "--" + name.replace("_", "-") for name in chosen}
        values = values | dict(chosen)
        _refuse_unknown(cls, values, source)
        made = cls.__new__(cls)
        try:
            BaseModel.__init__(made, **values)
        except ValidationError as error:
            raise _one_line(error, source) from None
        return made

    @classmethod
    def from_yaml(cls, path: str | Path, **changes: object) -> Self:
        """The spec that a config.yaml states, with some of its values changed.

        Parameters
        ----------
        path
            The file; one of an earlier version keeps its meaning.
        changes
            Values that replace those of the file, by field name.
        """
        return cls.read(Path(path), changes)

    @classmethod
    def upgrade(cls, values: Values, version: str) -> Values:
        """The values of a file that `version` wrote, in the keys and meanings of today."""
        return values

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what is not as by default."""
        fields = type(self).model_fields
        given = ((name, value) for name, value in super().__repr_args__() if name and value != fields[name].default)
        return ((name, Brief(short(value))) for name, value in given)

    def plain(self) -> dict[str, Any]:
        """JSON values, without those that are None: what config.yaml and result.json hold."""
        return cast("dict[str, Any]", json.loads(self.model_dump_json(exclude_none=True)))

    def to_yaml(self) -> str:
        """The text of a config.yaml; `from_yaml` reads it back."""
        return config_text(self.plain())


def _refuse_unknown(cls: type[Spec], values: Mapping[str, object], source: Mapping[str, str]) -> None:
    for name in values:
        if name not in cls.model_fields:
            place = f"{source.get(name, cls.__name__)}: "
            raise InputError(f"{place}{unknown_name('setting', str(name), cls.model_fields)}", code="unknown")


def _one_line(error: ValidationError, source: Mapping[str, str]) -> InputError:
    """The first mistake, with the option or the file and key that it stands in."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    cause = first.get("ctx", {}).get("error")
    what = str(cause) if cause is not None else f"{first['msg'].lower()}, not {first['input']!r}"
    given = source.get(name, "")
    place = given if given.startswith("--") or not name else f"{given}: {name}".removeprefix(": ")
    code = cause.code if isinstance(cause, InputError) else "setting.value"
    return InputError(f"{place}: {what}".removeprefix(": "), code=code)


def config_text(config: Mapping[str, object]) -> str:
    """A config.yaml: the version that writes it, then the settings."""
    import yaml

    return yaml.safe_dump({VERSION: __version__, **config}, sort_keys=False, allow_unicode=True)


def newer(version: str) -> bool:
    """Whether a file of this version was written by a later release than this one; releases of 0.2.x read one another."""
    return _release(version)[:2] > _release(__version__)[:2]


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()


def _upgraded(cls: type[Spec], file: Path) -> Values:
    values = read_yaml(file)
    version = str(values.pop(VERSION, FIRST))
    if newer(version):
        raise InputError(
            f"{file}: written by version {version}, this is {__version__}; install {version} or later to repeat it",
            code="newer",
        )
    return cls.upgrade(values, version)


def read_yaml(file: Path) -> Values:
    """Settings as `name: value` lines; each mistake in one line, with the line of the file where there is one."""
    import yaml

    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot read {file}: {why}; name a YAML file, such as the config.yaml of a run", code="file.read"
        ) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise InputError(
            f"{file}:{line}: not valid YAML: {error.problem or error.context}", code="config.yaml"
        ) from None
    except yaml.YAMLError:
        raise InputError(f"{file}: not valid YAML", code="config.yaml") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(
            f"{file}: expected settings as `name: value` lines, found a {type(values).__name__}", code="config.form"
        )
    return values
