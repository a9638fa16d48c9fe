"""What is on the wire is enough: a receiver of integers and first floats knows what the sender thinks it knows."""

import numpy as np
import pytest

from equipoise.train import Exact, LogQuantizer, Network, UniformQuantizer
from equipoise.train.channel import ZOOM, Channel
from equipoise.train.links import Links


class Receiver:
    """Written from the protocol alone: one link, one stream of `width` numbers in `parts` blocks."""

    def __init__(self, quantizer, width, parts, ratio):
        self.quantizer, self.parts, self.ratio = quantizer, parts, ratio
        self.believed, self.units = None, None

    def first(self, floats):
        self.believed = floats.copy()
        blocks = floats.reshape(self.parts, -1)
        self.units = np.abs(blocks).max(axis=1)
        if self.units[0] == 0:
            self.units[0] = self.ratio * self.units[-1] or 1.0
        self.units[self.units == 0] = 1.0

    def later(self, codes):
        top = self.quantizer.coder().top
        for part, block in enumerate(np.split(codes, self.parts)):
            width = len(block)
            news = self.units[part] * self.quantizer.decode(block)
            self.believed[part * width : (part + 1) * width] += news
            if (np.abs(block) >= top).any():
                self.units[part] *= ZOOM


class Sender:
    """Keeps a mirror of the receiver and codes the difference; the codes are all it says after the first message."""

    def __init__(self, quantizer, width, parts, ratio):
        self.mirror = Receiver(quantizer, width, parts, ratio)

    def codes(self, values):
        unit = np.repeat(self.mirror.units, len(values) // self.mirror.parts)
        return self.mirror.quantizer.encode((values - self.mirror.believed) / unit)


@pytest.mark.parametrize("rho", [0.05, 0.125, 1.0])
@pytest.mark.parametrize("switching", [0, "fresh"])
def test_a_receiver_that_sees_only_codes_believes_what_the_channel_says(rho, switching):
    """Values jump by ten decades, so that codes saturate and zoom: belief equals `heard`, bit for bit, on every link."""
    network = Network.erdos_renyi(6, 0.7, switching=switching, seed=1)
    quantizer, width, parts, ratio = LogQuantizer(rho=rho), 6, 2, 0.01
    links = Links(network)
    channel = Channel(quantizer, width, parts, slots=0, ratio=ratio)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, width))
    values[:2, :3] = 0.0  # models that begin at 0
    people = {}
    for number in range(40):
        round = links.round(number)
        channel.grow(links.slots)
        channel.exchange(values, round)
        for slot, sender in zip(round.slots.tolist(), round.senders.tolist(), strict=True):
            if slot not in people:
                people[slot] = Sender(quantizer, width, parts, ratio), Receiver(quantizer, width, parts, ratio)
                for one in (people[slot][0].mirror, people[slot][1]):
                    one.first(values[sender])
            else:
                codes = people[slot][0].codes(values[sender])
                assert np.abs(codes).max() <= 2 ** (quantizer.bits - 1)
                people[slot][0].mirror.later(codes)
                people[slot][1].later(codes)
            assert np.array_equal(people[slot][1].believed, channel.heard[slot])
        values = values + rng.standard_normal(values.shape) * 10.0 ** rng.uniform(-5, 5)
    assert channel.tally[0] > 0  # it did saturate


@pytest.mark.parametrize(
    "quantizer", [LogQuantizer(mode="node"), UniformQuantizer(), Exact()], ids=["log", "uniform", "exact"]
)
def test_without_memory_the_receiver_hears_the_quantised_value(quantizer):
    """Node mode: what is heard is q(v), nothing more."""
    channel = Channel(quantizer, width=3, parts=1, slots=4)
    values = np.random.default_rng(1).standard_normal((4, 3))
    channel.exchange(values, Links(Network.ring(4)).round(0))
    assert np.array_equal(channel.heard, quantizer(values))
