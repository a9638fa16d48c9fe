"""What is on the wire is enough: a receiver of integers and first floats knows what the sender thinks it knows."""

import math

import numpy as np
import pytest

from equipoise.train import Exact, LogQuantizer, Method, Network, Problem, Quadratic, UniformQuantizer, solve
from equipoise.train.channel import ZOOM, Channel
from equipoise.train.links import Links


class Receiver:
    """Written from the protocol alone: one link, one stream of `width` numbers in `parts` blocks."""

    def __init__(self, quantizer, parts, ratio):
        self.quantizer, self.parts, self.ratio = quantizer, parts, ratio
        self.believed, self.units = None, None

    def first(self, floats):
        self.believed = floats.copy()
        blocks = floats.reshape(self.parts, -1)
        self.units = np.abs(blocks).max(axis=1)
        if self.units[0] == 0:
            self.units[0] = self.ratio * (self.units[-1] if self.parts > 1 else 1.0) or 1.0
        self.units[self.units == 0] = 1.0

    def floats(self, floats):
        self.believed = floats.copy()

    def codes(self, codes):
        top = self.quantizer.coder().top
        for part, block in enumerate(np.split(codes, self.parts)):
            width = len(block)
            news = self.units[part] * self.quantizer.decode(block)
            self.believed[part * width : (part + 1) * width] += news
            if (np.abs(block) >= top).any():
                self.units[part] *= ZOOM


class Link:
    """A sender with a mirror of its receiver: what it says is all the receiver gets, and every bit of it is counted."""

    def __init__(self, quantizer, parts, ratio, pace):
        self.quantizer, self.pace, self.bits, self.last = quantizer, pace, 0, None
        self.mirror, self.receiver = (Receiver(quantizer, parts, ratio) for _ in range(2))

    def say(self, values, number, times):
        quantizer = self.quantizer
        if self.last is None:
            self.bits += 64 * len(values)
            for end in (self.mirror, self.receiver):
                end.first(values)
        else:
            if number - self.last > 1:  # news has grown by e^(pace x silence), and a tenth of that is to be left
                times = max(times, codes_to_shrink(quantizer, 2.3 + self.pace * (number - self.last))) if times else 0
            if not 0 < times * quantizer.bits <= 64:
                self.bits += 64 * len(values)
                for end in (self.mirror, self.receiver):
                    end.floats(values)
            else:
                for _ in range(times):
                    unit = np.repeat(self.mirror.units, len(values) // self.mirror.parts)
                    codes = quantizer.encode((values - self.mirror.believed) / unit)
                    assert np.abs(codes).max() <= 2 ** (quantizer.bits - 1)
                    self.bits += quantizer.bits * len(values)
                    for end in (self.mirror, self.receiver):
                        end.codes(codes)
        self.last = number


def codes_to_shrink(quantizer, folds):
    """How many codes leave e^-folds of a value, each leaving e^(rho/2) - 1; 1000 where a code says too little."""
    left = math.expm1(quantizer.rho / 2)
    return math.ceil(folds / -math.log(left)) if left < 0.9 else 1000


@pytest.mark.parametrize("hosts", [False, True])
@pytest.mark.parametrize("rho", [0.05, 0.125, 1.0, 1.4])
@pytest.mark.parametrize("switching", [0, "fresh"])
def test_a_receiver_that_sees_only_codes_believes_what_the_channel_says(rho, switching, hosts):
    """Values jump by ten decades, so that codes saturate and zoom; rounds are left out, so that links fall silent; hosts
    repeat codes by their degree: belief equals `heard` and bits equal bits, on every link."""
    network = Network.erdos_renyi(6, 0.7, switching=switching, seed=1)
    quantizer, width, parts, ratio, pace = LogQuantizer(rho=rho), 6, 1 if hosts else 2, 0.01, 0.2
    links = Links(network)
    channel = Channel(quantizer, width, parts, slots=0, ratio=ratio, pace=pace)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, width))
    values[:2, :3] = 0.0  # models that begin at 0
    people = {}
    for number in [*range(30), 33, 34, 50, 51, 130, 131, 500, 501]:
        round = links.round(number)
        channel.grow(links.slots)
        degree = round.topology.degree
        if hosts:
            channel.exchange(values, round, number, channel.repeats(degree))
        else:
            channel.exchange(values, round, number)
        for slot, sender in zip(round.slots.tolist(), round.senders.tolist(), strict=True):
            times = max(1, codes_to_shrink(quantizer, math.log(degree[sender] + 1))) if hosts else 1
            link = people.setdefault(slot, Link(quantizer, parts, ratio, pace))
            link.say(values[sender], number, times if times * quantizer.bits <= 64 else 0)
            assert np.array_equal(link.receiver.believed, channel.heard[slot])
            assert link.bits == channel.bits_sent[slot]
        values = values + rng.standard_normal(values.shape) * 10.0 ** rng.uniform(-5, 5)
    assert channel.tally[0] > 0 or (hosts and rho > 1)  # it did saturate, where codes were used


@pytest.mark.parametrize(
    "quantizer", [Exact(), LogQuantizer(), LogQuantizer(rho=1.4)], ids=["exact", "codes", "floats after a silence"]
)
def test_only_the_first_numbers_of_a_row_are_said(quantizer):
    """Rows of models and trackers, of which the stream carries the models: first contact, next round, after a silence."""
    values = np.random.default_rng(1).standard_normal((4, 6))
    round = Links(Network.ring(4)).round(0)
    channel = Channel(quantizer, width=3, parts=1, slots=4)
    for number in (0, 1, 9):
        channel.exchange(values, round, number)
    assert np.array_equal(channel.heard, values[:, :3])


@pytest.mark.parametrize(
    "quantizer",
    [LogQuantizer(mode="node"), LogQuantizer(mode="node", rho=1.4), UniformQuantizer(), Exact()],
    ids=["log", "coarse log", "uniform", "exact"],
)
def test_without_memory_the_receiver_hears_the_quantised_value(quantizer):
    """Node mode: what is heard is q(v), nothing more, in one code a number, however long the link was silent."""
    channel = Channel(quantizer, width=3, parts=1, slots=4)
    round, rng = Links(Network.ring(4)).round(0), np.random.default_rng(1)
    for number in (0, 1, 5, 400):
        values = rng.standard_normal((4, 3))
        channel.exchange(values, round, number)
        assert np.array_equal(channel.heard, quantizer(values))
    assert channel.bits_sent.tolist() == [4 * 3 * quantizer.bits] * 4


@pytest.mark.parametrize(
    ("rho", "codes"), [(0.05, [1, 1, 1, 1, 2]), (0.125, [1, 1, 1, 2, 2]), (0.5, [1, 1, 2, 3, 4]), (1.3, [0] * 5)]
)
def test_hosts_of_many_speak_finer(rho, codes):
    """Codes a number for 1, 2, 9, 30 and 99 neighbours, by hand: ln(d + 1) over -ln(e^(rho/2) - 1), at least one; 0 is a
    float, where a code leaves nearly all of its news."""
    channel = Channel(LogQuantizer(rho=rho), width=1, parts=1, slots=0)
    assert np.broadcast_to(channel.repeats(np.array([1, 2, 9, 30, 99])), 5).tolist() == codes


@pytest.mark.parametrize("rho", [0.125, 1.4])
def test_the_papers_messages_are_heard_where_neighbours_change(rho):
    """Node-wise codes on a network of five graphs in turn: one code a message and link, and the shares get somewhere."""
    rng = np.random.default_rng(0)
    problem = Problem(Quadratic(rng.uniform(0.5, 3, 12), rng.uniform(0, 40, 12)), 240.0)
    method = Method.paper(quantizer=LogQuantizer(rho=rho, mode="node"))
    run = solve(problem, Network.erdos_renyi(12, 0.4, switching=5, seed=1), method, rounds=200)
    assert run.bit_parts["prices"] == run.worst.links * method.quantizer.bits
    assert run.history["relative_gap"].min() < 0.1
