"""Small nets for flat images; nothing in them looks at other samples."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.errors import InputError
from equipoise.train.models.torch_model import nn

SIDE = 28  # pixels of an MNIST image
HIDDEN = 64
FOUND = 7  # pixels left after two halvings


def mlp(features: int, classes: int, hidden: int = HIDDEN) -> Callable[[], nn.Module]:
    """One hidden layer of ReLUs."""
    return lambda: nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def cnn(classes: int, channels: tuple[int, int] = (8, 16)) -> Callable[[], nn.Module]:
    """Two 5 x 5 convolutions of stride 2 (which need no pooling) and one linear layer; takes flat 28 x 28 images."""
    first, second = channels
    return lambda: nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        nn.Conv2d(1, first, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(first, second, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * FOUND * FOUND, classes),
    )


NETS = ("mlp", "cnn")


def net(name: str, features: int, classes: int, hidden: int = HIDDEN) -> Callable[[], nn.Module]:
    """The net of this name, for such data."""
    if name == "mlp":
        return mlp(features, classes, hidden)
    if name != "cnn":
        raise InputError(f"no net {name!r}: it is one of {', '.join(NETS)}", code="unknown")
    if features != SIDE * SIDE:
        raise InputError(
            f"cnn takes images of {SIDE} x {SIDE} pixels, flat; the data has {features} features: use mlp",
            code="model.features",
        )
    return cnn(classes)
