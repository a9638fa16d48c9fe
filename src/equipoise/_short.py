"""Short representations: of a dataclass only what differs from its defaults, of an array its shape and range."""

from dataclasses import MISSING, fields

LONGEST = 40  # characters of one value


def short_repr(thing: object) -> str:
    """`Method(step=0.1)`: the fields of a dataclass that differ from their defaults; a long value as its type and size."""
    shown = []
    for field in fields(thing):  # type: ignore[arg-type]
        value = getattr(thing, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.repr and not _same(value, default):
            shown.append(f"{field.name}={short(value)}")
    return f"{type(thing).__name__}({', '.join(shown)})"


def short(value: object) -> str:
    """One value in at most a few words."""
    shape, least = getattr(value, "shape", None), getattr(value, "min", None)
    if shape is not None and callable(least) and getattr(value, "size", 0) > 1:
        return f"<{'x'.join(map(str, shape))} numbers, {least():.4g} to {value.max():.4g}>"  # type: ignore[attr-defined]
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"<{type(value).__name__}{size}>"


def _same(value: object, default: object) -> bool:
    try:
        return bool(value == default)
    except (TypeError, ValueError):  # arrays
        return False
