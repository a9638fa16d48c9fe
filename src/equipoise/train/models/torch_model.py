"""Any torch.nn.Module as a model that the centres train together: one flat row of parameters per node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError, unknown_name
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.models._base import Model, Shard, class_weights, read_shards

try:
    import torch
except ImportError:
    raise InputError("TorchModel needs torch: pip install 'equipoise[torch]'") from None
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

Each = Callable[[Tensor, Tensor], Tensor]  # outputs and answers to one loss per sample

CHUNK = 512  # samples in memory at once, over all nodes of a call
PROBED = 64  # samples of a node that its smoothness is estimated from
PROBES = 8
SIDE = 28  # pixels of an MNIST image
HIDDEN = 64
FOUND = 7  # pixels left after two halvings
NETS = ("mlp", "cnn")
# Kinds whose output depends on other samples or on chance: a loss of theirs is no function of the parameters alone.
REFUSED = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU)


def _squared(outputs: Tensor, answers: Tensor) -> Tensor:
    return 0.5 * (outputs.flatten() - answers) ** 2


LOSSES: dict[str, Each] = {
    "cross_entropy": lambda outputs, answers: nn.functional.cross_entropy(outputs, answers, reduction="none"),
    "squared": _squared,
}


def _weighted(each: Each, weights: Tensor, outputs: Tensor, answers: Tensor) -> Tensor:
    """One loss per sample, times the weight of its class."""
    return each(outputs, answers) * weights[answers]


class TorchModel(Model):
    """g_i(y) = (1/N) sum of losses over shard i + (reg/2n) |y|^2; y is all trainable parameters, in the module's order.

    `module` is a torch.nn.Module, or a function that makes one (then `start` draws it anew for any seed). Rows in and out
    are float64; torch computes in `dtype`. Not convex: runs begin at `start(seed)`, not at zeros, and have no gap; an
    automatic alpha trusts `smoothness()`, an estimate. `deep.tracking_method` makes them descend faster: a rate that rises
    first, for steps that are large at the start leave ReLUs that never fire again.
    """

    words = "a net"
    convex = False
    sizes: Ints

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        shards: Sequence[Shard],
        *,
        loss: str | Each = "cross_entropy",
        reg: float = 0.0,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        class_weight: ArrayLike | None = None,
    ) -> None:
        """`class_weight`: with cross_entropy, a factor of the loss for each class."""
        if not reg >= 0:
            raise InputError(f"TorchModel needs reg >= 0; given {reg}", code="model.reg")
        if isinstance(loss, str) and loss not in LOSSES:
            raise unknown_name("loss", loss, LOSSES)
        data = read_shards(shards)
        self.nodes, self.features, self.reg, self.dtype, self.seed = data.nodes, data.features, float(reg), dtype, seed
        self.all_nodes, self.longest = data.nodes, int(data.sizes.max())
        self.widest = 0  # largest batch of any node, where these are some of more nodes
        self.sizes, self.samples = data.sizes, data.samples
        self.classifies = loss == "cross_entropy"
        self._each: Each = LOSSES[loss] if isinstance(loss, str) else loss
        if class_weight is not None:
            if not self.classifies:
                raise InputError("class_weight needs loss='cross_entropy': leave it out", code="model.class_weight")
            weights = class_weights(class_weight, [str(label) for label in range(int(np.size(class_weight)))])
            self._each = partial(_weighted, self._each, torch.as_tensor(weights, dtype=dtype))
        self._make: Callable[[], nn.Module] | None = None if isinstance(module, nn.Module) else module
        self._module = (deepcopy(module) if isinstance(module, nn.Module) else _made(module, seed)).to(dtype).eval()
        _refuse(self._module)
        trainable = {name: p.detach() for name, p in self._module.named_parameters() if p.requires_grad}
        self._shapes = {name: p.shape for name, p in trainable.items()}
        self.size = sum(p.numel() for p in trainable.values())
        self._first = _flat(trainable)
        self._X = torch.from_numpy(np.concatenate(data.X)).to(dtype)
        answers = torch.from_numpy(np.concatenate(data.y))
        self._answers = answers.long() if self.classifies else answers.to(dtype)
        self._offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self._smoothness: Floats | None = None
        self._try_out()

    def _try_out(self) -> None:
        """One sample through the net, so that what does not fit is said now and in a line."""
        try:
            with torch.no_grad():
                out = self._module(self._X[:2])
                each = self._each(out, self._answers[:2]) if not self.classifies else None
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            first = str(error).strip().split("\n")[0]
            raise InputError(
                f"the module does not take rows of {self.features} features: {first}", code="model.features"
            ) from None
        if each is not None and each.shape != (len(self._X[:2]),):
            raise InputError(f"loss(outputs, answers) must give one loss per sample; its shape is {tuple(each.shape)}")
        if not self.classifies:
            return
        low, high = int(self._answers.min()), int(self._answers.max())
        if out.ndim != 2 or low < 0 or high >= out.shape[1]:
            raise InputError(
                f"cross_entropy needs outputs [samples, classes] and labels 0..classes-1; the module gives "
                f"{tuple(out.shape)} for 2 samples and labels are {low}..{high}",
                code="model.labels",
            )

    @property
    def drawn(self) -> bool:
        """Whether `start` can draw a new net: it was given a function that makes one."""
        return self._make is not None

    def start(self, seed: int | None = None) -> Floats:
        """Initial parameters, the same for every node: those the model was made with, or drawn anew by another seed."""
        if seed is None or seed == self.seed:
            return self._first.copy()
        if self._make is None:
            raise InputError(
                "start(seed) draws a new net: give TorchModel a function that makes it, not the net itself",
                code="model.start",
            )
        return _flat({name: p for name, p in _made(self._make, seed).named_parameters() if p.requires_grad})

    def loss(self, node: int, y: Floats) -> float:
        rows = [np.arange(self.sizes[node])]
        return float(self._losses(y[None], rows, [node])[0]) + 0.5 * self.reg / self.all_nodes * float(y @ y)

    def gradient(self, node: int, y: Floats) -> Floats:
        return np.asarray(self._whole(y[None], [node])[0])

    def gradients(self, Y: Floats) -> Floats:
        return self._whole(Y, range(self.nodes), self.all_nodes, self.longest)

    def part(self, nodes: Ints) -> TorchModel:
        """The losses of these nodes, each as it was, with nobody else's data; summed in slices as long as the whole's."""
        mine = copy(self)
        rows = np.concatenate([np.arange(self._offsets[i], self._offsets[i + 1]) for i in nodes])
        mine._X, mine._answers = self._X[rows], self._answers[rows]
        mine.nodes, mine.sizes = len(nodes), self.sizes[nodes]
        mine._offsets = np.concatenate([[0], np.cumsum(mine.sizes)])
        mine._smoothness = None
        mine._module = deepcopy(self._module)  # two threads cannot lend one module their parameters
        return mine

    def _whole(self, Y: Floats, nodes: Sequence[int], many: int = 1, longest: int = 0) -> Floats:
        """Gradients over whole shards, a slice of each at a time."""
        found = self.reg / self.all_nodes * Y
        parameters = self._stacked(Y)
        longest, width = longest or int(max(self.sizes[i] for i in nodes)), max(CHUNK // many, 32)
        for begin in range(0, longest, width):
            rows = [np.arange(begin, min(begin + width, self.sizes[i])) for i in nodes]
            index, mask = self._padded(rows, nodes, min(width, longest - begin))
            found += _rows(self._summed(parameters, index[:, None], mask[:, None]))[:, 0] / self.samples
        return np.asarray(found)

    def sampled(self, Y: Floats, rows: Sequence[Ints]) -> tuple[Floats, Floats]:
        """All nodes in one call. A batch is summed in two halves, whose difference shows sigma_i^2 without bias."""
        nodes = range(self.nodes)
        halves = [
            self._padded([each[half::2] for each in rows], nodes, -(-max(self.widest, *map(len, rows)) // 2))
            for half in (0, 1)
        ]
        index, mask = (torch.stack([half[part] for half in halves], dim=1) for part in (0, 1))
        sums = [each.flatten(2) for each in self._summed(self._stacked(Y), index, mask)]
        drawn = np.array([len(each) for each in rows])
        gradients = np.empty(Y.shape)
        torch.cat([each.sum(dim=1) for each in sums], dim=1, out=(single := torch.empty(Y.shape, dtype=self.dtype)))
        np.multiply(single.numpy(), (self.sizes / (self.samples * drawn))[:, None], out=gradients)
        if self.reg > 0:
            gradients += self.reg / self.all_nodes * Y
        return gradients, _spread(sums, mask.sum(dim=2).double())

    def pooled(self, y: Floats, rows: Sequence[Ints]) -> Floats:
        """The sum of what `sampled` gives where all nodes have the same parameters, in one pass."""
        index = np.concatenate([self._offsets[i] + each for i, each in enumerate(rows)])
        weights = np.repeat(self.sizes / [len(each) for each in rows], [len(each) for each in rows])
        mask = torch.from_numpy(weights).to(self.dtype)
        summed = self._summed(self._stacked(y[None]), torch.from_numpy(index)[None, None], mask[None, None])
        return np.asarray(_rows(summed)[0, 0] / self.samples + self.reg * y)

    def total(self, y: Floats) -> tuple[float, Floats]:
        gradient = self.reg * y
        parameters = self._stacked(y[None])
        loss = 0.5 * self.reg * float(y @ y)
        for index in self._slices():
            mask = torch.ones((1, 1, len(index)), dtype=self.dtype)
            gradient = gradient + _rows(self._summed(parameters, index[None, None], mask))[0, 0] / self.samples
        return loss + float(self.totals(y[None])[0]) - 0.5 * self.reg * float(y @ y), gradient

    def totals(self, Y: Floats) -> Floats:
        """Each row of Y on everybody's data; once where all are the same, as at the start."""
        if len(Y) > 1 and not np.ptp(Y, axis=0).any():
            return np.repeat(self.totals(Y[:1]), len(Y))
        parameters = self._stacked(Y)
        found = np.zeros(len(Y))
        with torch.no_grad():
            for index in self._slices():
                out = vmap(self._outputs, in_dims=(0, None))(parameters, self._X[index])
                losses = vmap(self._each, in_dims=(0, None))(out, self._answers[index])
                found += losses.double().sum(dim=1).numpy()
        return np.asarray(found / self.samples + 0.5 * self.reg * np.einsum("ij,ij->i", Y, Y))

    def smoothness(self) -> Floats:
        """An estimate, for a net has no bound: the largest curvature of each g_i around `start()`, found by power steps
        along gradient differences on up to 64 of its samples, with half again as margin."""
        if self._smoothness is None:
            rows = [np.linspace(0, size - 1, min(PROBED, size)).astype(np.int64) for size in self.sizes]
            here = np.tile(self._first, (self.nodes, 1))
            direction = np.random.default_rng(self.seed).standard_normal(here.shape)
            reach = 1e-2 * max(float(np.linalg.norm(self._first)), 1.0)
            found = np.zeros(self.nodes)
            for _ in range(PROBES):
                direction *= reach / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-30)
                ahead, behind = self.sampled(here + direction, rows)[0], self.sampled(here - direction, rows)[0]
                change = (ahead - behind) / (2 * reach)
                found = np.maximum(found, np.linalg.norm(change, axis=1))
                direction = change
            self._smoothness = np.maximum(1.5 * found, 1e-12)
        return self._smoothness.copy()

    def scores(self, y: Floats, X: Floats) -> Floats:
        """The module's outputs for rows of X."""
        parameters = {name: each[0] for name, each in self._stacked(y[None]).items()}
        with torch.no_grad():
            parts = [
                self._outputs(parameters, torch.from_numpy(np.ascontiguousarray(X[b : b + CHUNK])).to(self.dtype))
                for b in range(0, len(X), CHUNK)
            ]
        return np.asarray(torch.cat(parts).double().numpy())

    def accuracy(self, y: Floats, X: Floats, answers: AnyArray) -> float | None:
        return float(np.mean(self.scores(y, X).argmax(axis=1) == answers)) if self.classifies else None

    def _outputs(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        out: Tensor = functional_call(self._module, parameters, (x,))
        return out

    def _summed(self, parameters: dict[str, Tensor], index: Tensor, mask: Tensor) -> list[Tensor]:
        """Gradients [nodes, parts, ...] of summed losses over the samples of index and mask [nodes, parts, samples]."""

        def loss(own: dict[str, Tensor], x: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
            return (self._each(self._outputs(own, x), answers) * counts).sum()

        each = vmap(vmap(grad(loss), in_dims=(None, 0, 0, 0)))
        return list(each(parameters, self._X[index], self._answers[index], mask).values())

    def _losses(self, Y: Floats, rows: Sequence[Ints], nodes: Sequence[int]) -> Floats:
        """(1/N) sum of losses of each row of Y over these rows of its node's shard."""
        found = np.zeros(len(Y))
        with torch.no_grad():
            for k, (node, picked) in enumerate(zip(nodes, rows, strict=True)):
                own = {name: each[0] for name, each in self._stacked(Y[k : k + 1]).items()}
                for begin in range(0, len(picked), CHUNK):
                    index = torch.from_numpy(self._offsets[node] + picked[begin : begin + CHUNK])
                    each = self._each(self._outputs(own, self._X[index]), self._answers[index])
                    found[k] += float(each.double().sum())
        return np.asarray(found / self.samples)

    def _stacked(self, Y: Floats) -> dict[str, Tensor]:
        """Rows of parameters as the module's tensors, one stack per name."""
        flat = torch.from_numpy(np.ascontiguousarray(Y)).to(self.dtype)
        parts = torch.split(flat, [shape.numel() for shape in self._shapes.values()], dim=1)
        return {
            name: part.reshape(len(flat), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def _padded(self, rows: Sequence[Ints], nodes: Sequence[int], width: int | None = None) -> tuple[Tensor, Tensor]:
        """Row numbers in the pooled data, one line per node, and which of them count."""
        width = max(map(len, rows)) if width is None else width
        index, mask = np.zeros((len(rows), width), dtype=np.int64), np.zeros((len(rows), width))
        for k, (node, picked) in enumerate(zip(nodes, rows, strict=True)):
            index[k, : len(picked)], mask[k, : len(picked)] = self._offsets[node] + picked, 1.0
        return torch.from_numpy(index), torch.from_numpy(mask).to(self.dtype)

    def _slices(self) -> Iterator[Tensor]:
        return (torch.arange(b, min(b + CHUNK, self.samples)) for b in range(0, self.samples, CHUNK))


def _made(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A fresh net, by seed, whatever else draws from torch's random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make()
    if not isinstance(made, nn.Module):
        raise InputError(
            f"TorchModel needs a torch.nn.Module, or a function that makes one, not {type(made).__name__}",
            code="module.type",
        )
    return made


def _refuse(module: nn.Module) -> None:
    for name, part in module.named_modules():
        tracking = bool(getattr(part, "track_running_stats", False))
        if (isinstance(part, REFUSED) and getattr(part, "p", 1.0) != 0.0) or tracking:
            raise InputError(
                f"{type(part).__name__} at {name or 'the top'!r} depends on other samples or on chance: "
                "use GroupNorm or LayerNorm, and weight decay (reg)",
                code="module.layer",
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError(f"{type(module).__name__} has no trainable parameters", code="module.parameters")


def _spread(sums: list[Tensor], counts: Tensor) -> Floats:
    """sigma^2 = |mean of one half - mean of the other|^2 / (1/h + 1/k), from the halves' sums [nodes, 2, ...] of h and k
    samples; not a number where a half is empty."""
    dots = [torch.stack([torch.linalg.vecdot(e[:, a], e[:, b]) for a, b in ((0, 0), (1, 1), (0, 1))]) for e in sums]
    first, second, both = torch.stack(dots).double().sum(dim=0)
    h, k = counts.unbind(dim=1)
    apart = first / h**2 + second / k**2 - 2 * both / (h * k)
    return np.asarray((apart.clamp(min=0) / (1 / h + 1 / k)).numpy())


def _flat(parameters: dict[str, Tensor]) -> Floats:
    return np.asarray(torch.cat([p.detach().double().flatten() for p in parameters.values()]).numpy())


def _rows(parts: list[Tensor]) -> Floats:
    """Stacks [nodes, parts, ...] side by side as float64 rows."""
    return np.asarray(torch.cat([each.flatten(2) for each in parts], dim=2).double().numpy())


# Small nets for flat images; nothing in them looks at other samples.


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
