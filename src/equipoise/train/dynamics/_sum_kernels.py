"""Kernels of `summed`: what is said of models, and the pull of all neighbours together.

Up to STRAIGHT columns are written out one by one, so that they become vector code; more are loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, cast

import numba

from equipoise.kernels import Floats, Ints, bits_float, float_bits, generated, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import MANTISSA, OCTAVES, SIGN, SIZE, first_floor, moved_floor, quantise, value
from equipoise.train.dynamics._layout import Paths

STRAIGHT = 16


class Table(NamedTuple):
    """What rows have said in each graph, times their weight: a neighbour only adds."""

    said: Floats  # [graph, row, column]
    floors: Ints
    codes: AnyArray  # of own rows, where they are to be sent elsewhere
    mantissa: int


class Pulls(NamedTuple):
    """State of own rows."""

    models: Floats
    flow: Floats  # V: the integrator
    mean: Floats  # [graph, row, column]: S
    mean_sum: Floats
    weight: Floats  # w, rho_ij = w_i w_j
    around: Floats  # [graph, row]: sum of w over neighbours
    relax: float


@kernel
def say_plain(table: Table, pulls: Pulls, t: int) -> None:
    """First contact: the numbers as they are."""
    for i in range(len(pulls.models)):
        row = table.said[t, i]
        for c in range(len(row)):
            row[c] = pulls.weight[i] * pulls.models[i, c]
        table.floors[t, i] = first_floor(row, table.mantissa)


@kernel
def say_codes(table: Table, pulls: Pulls, t: int) -> None:
    """Each number moves by the nearest code of its change; a row has one floor."""
    mantissa, columns = table.mantissa, pulls.models.shape[1]
    drop = MANTISSA - mantissa
    keep = len(table.codes) > 0
    for i in range(len(pulls.models)):
        floor, largest, scale = table.floors[t, i], 0, pulls.weight[i]
        row, model = table.said[t, i], pulls.models[i]
        for c in range(columns):
            change = scale * model[c] - row[c]
            code = quantise(change, floor, mantissa)
            largest = max(largest, code)
            row[c] += bits_float((((code + floor) << drop) if code > 0 else 0) | (float_bits(change) & SIGN))
            if keep:
                table.codes[i, c] = code if change >= 0.0 else -code
        table.floors[t, i] = moved_floor(floor, largest, mantissa)


@kernel
def hear_rows(codes: Ints, rows: Ints, table: Table, t: int) -> None:
    """What a receiver elsewhere does: the same additions as the sender made."""
    for q in range(len(rows)):
        g, largest = rows[q], 0
        floor = table.floors[t, g]
        for c in range(codes.shape[1]):
            code = codes[q, c]
            largest = max(largest, abs(code))
            table.said[t, g, c] += value(abs(code), floor, table.mantissa, float(code))
        table.floors[t, g] = moved_floor(floor, largest, table.mantissa)


@kernel
def gather(paths: Paths, table: Table, pulls: Pulls, t: int, first: bool, out: Floats) -> None:
    """V and S of every own row after a round; `out` is what its neighbours pull it to, V + the sum of S."""
    columns, graphs = pulls.models.shape[1], len(table.said)
    keep = 0.0 if first else 1.0 - 2.0 * pulls.relax
    said = table.said[t]
    for i in range(len(pulls.models)):
        row = out[i]
        for c in range(columns):
            row[c] = 0.0
        for e in range(paths.first[t, i], paths.first[t, i + 1]):
            heard = said[paths.node[t, e]]
            for c in range(columns):
                row[c] += heard[c]
        w, around = pulls.weight[i], pulls.around[t, i]
        own, flow, mean, total = said[i], pulls.flow[i], pulls.mean[t, i], pulls.mean_sum[i]
        for c in range(columns):
            mine = own[c] * around
            apart = mine - w * row[c]
            flow[c] -= pulls.relax * apart
            was = mean[c]
            mean[c] = keep * was + (1.0 - keep) * (mine - 0.5 * apart)
            total[c] = mean[c] if graphs == 1 else total[c] + (mean[c] - was)
            row[c] = flow[c] + total[c]


@kernel
def look_ahead(models: Floats, last: Floats, momentum: float, place: Ints, ahead: Floats) -> None:
    """Where momentum leads each row, by node."""
    for i in range(len(models)):
        for c in range(models.shape[1]):
            ahead[place[i], c] = models[i, c] + momentum * (models[i, c] - last[i, c])


@kernel
def step_down(
    models: Floats, last: Floats, place: Ints, ahead: Floats, gradient: Floats, pull: Floats, total: Floats, step: float
) -> None:
    """One step of g_i(y) + D |y|^2 / 2 - pull y from there; gradients are by node."""
    for i in range(len(models)):
        k, steep = place[i], step + total[i]
        for c in range(models.shape[1]):
            last[i, c] = models[i, c]
            models[i, c] = ahead[k, c] - (gradient[k, c] + total[i] * ahead[k, c] - pull[i, c]) / steep


@kernel
def answer_all(matrix: Floats, slope: Floats, pull: Floats, models: Floats) -> None:
    """y = (H + D)^-1 (s + pull): the exact answer of least squares."""
    columns = models.shape[1]
    for i in range(len(models)):
        row = models[i]
        for c in range(columns):
            row[c] = 0.0
        for d in range(columns):
            v = slope[i, d] + pull[i, d]
            for c in range(columns):
                row[c] += matrix[i, d, c] * v


@cache
def straight(columns: int, static: bool) -> tuple[Callable[..., None], ...]:
    """say_codes, gather and answer_all for so many columns; in one pass the last two would wait for each other."""
    r = range(columns)
    say = ["def say(said, models, weight, floors, mantissa):", "    drop = MANTISSA - mantissa"]
    say += ["    half, top = (1 << drop) >> 1, (OCTAVES << mantissa) - 1", "    for q in range(len(models)):"]
    say += ["        i = uintp(q)", "        floor = floors[i]; scale = weight[i]"]
    say += [f"        d{c} = float_bits(scale * models[i, {c}] - said[i, {c}])" for c in r]
    say += [f"        k{c} = min(max((((d{c} & SIZE) + half) >> drop) - floor, 0), top)" for c in r]
    say += [f"        b{c} = (((k{c} + floor) << drop) if k{c} > 0 else 0) | (d{c} & SIGN)" for c in r]
    say += [f"        said[i, {c}] += bits_float(b{c})" for c in r]
    largest = "k0"
    for c in range(1, columns):
        largest = f"max({largest}, k{c})"
    say += [f"        floors[i] = moved_floor(floor, {largest}, mantissa)"]
    hear = ["def hear(first, node, said, flow, mean, total, weight, around, relax, keep, out):"]
    hear += ["    new = 1.0 - keep", "    for q in range(len(out)):", "        i = uintp(q)"]
    hear += [f"        a{c} = 0.0" for c in r]
    hear += ["        for e in range(first[i], first[i + 1]):", "            j = node[uintp(e)]"]
    hear += [f"            a{c} += said[j, {c}]" for c in r]
    hear += ["        w = weight[i]; e_ = around[i]"]
    hear += [f"        o{c} = said[i, {c}] * e_" for c in r]
    hear += [f"        a{c} = o{c} - w * a{c}" for c in r]
    hear += [f"        v{c} = flow[i, {c}] - relax * a{c}" for c in r]
    hear += [f"        f{c} = keep * mean[i, {c}] + new * (o{c} - 0.5 * a{c})" for c in r]
    hear += [f"        t{c} = " + (f"f{c}" if static else f"total[i, {c}] + (f{c} - mean[i, {c}])") for c in r]
    hear += [f"        out[i, {c}] = v{c} + t{c}" for c in r]
    hear += [f"        flow[i, {c}] = v{c}" for c in r] + [f"        mean[i, {c}] = f{c}" for c in r]
    hear += [] if static else [f"        total[i, {c}] = t{c}" for c in r]
    answer = ["def answer(matrix, slope, pull, models):", "    for q in range(len(models)):", "        i = uintp(q)"]
    answer += [f"        g{c} = slope[i, {c}] + pull[i, {c}]" for c in r]
    answer += [f"        y{c} = matrix[i, 0, {c}] * g0" for c in r]
    for d in range(1, columns):
        answer += [f"        y{c} += matrix[i, {d}, {c}] * g{d}" for c in r]
    answer += [f"        models[i, {c}] = y{c}" for c in r]
    scope: dict[str, object] = {"MANTISSA": MANTISSA, "OCTAVES": OCTAVES, "SIZE": SIZE, "SIGN": SIGN}
    scope |= {"float_bits": float_bits, "bits_float": bits_float, "moved_floor": moved_floor, "uintp": numba.uintp}
    texts = {"say": say, "hear": hear, "answer": answer}
    made = (generated(name, text, scope, __name__, __file__) for name, text in texts.items())
    return cast(tuple[Callable[..., None], ...], tuple(made))


@kernel
def finite_rows(models: Floats) -> bool:
    """Whether all are numbers."""
    flat, bad = models.reshape(-1), 0
    for i in range(len(flat)):
        bad |= flat[i] - flat[i] != 0.0
    return bad == 0


Play = Callable[..., int]


@cache
def player(columns: int, static: bool) -> Play:
    """Many rounds of least squares in compiled code."""
    if columns > STRAIGHT:
        return cast(Play, play_loops)
    lines = ["def play_straight(paths, table, pulls, matrix, slope, k, count):", "    graphs = len(table.said)"]
    lines += ["    pull = pulls.models.copy()"]
    lines += ["    for done in range(count):", "        t = (k + done) % graphs"]
    lines += ["        if k + done < graphs or table.mantissa == MANTISSA:", "            say_plain(table, pulls, t)"]
    lines += [
        "        else:",
        "            say(table.said[t], pulls.models, pulls.weight, table.floors[t], table.mantissa)",
    ]
    lines += ["        keep = 0.0 if k + done < graphs else 1.0 - 2.0 * pulls.relax"]
    lines += ["        hear(paths.first[t], paths.node[t], table.said[t], pulls.flow, pulls.mean[t],"]
    lines += ["            pulls.mean_sum, pulls.weight, pulls.around[t], pulls.relax, keep, pull)"]
    lines += ["        answer(matrix, slope, pull, pulls.models)"]
    lines += ["        if not finite_rows(pulls.models):", "            return done", "    return count"]
    say, hear, answer = straight(columns, static)
    scope: dict[str, object] = {
        "say": say,
        "hear": hear,
        "answer": answer,
        "say_plain": say_plain,
        "finite_rows": finite_rows,
    }
    return cast(Play, generated("play_straight", lines, scope | {"MANTISSA": MANTISSA}, __name__, __file__))


@kernel
def play_loops(paths: Paths, table: Table, pulls: Pulls, matrix: Floats, slope: Floats, k: int, count: int) -> int:
    """The same for any number of columns."""
    graphs, pull = len(table.said), pulls.models.copy()
    for done in range(count):
        t = (k + done) % graphs
        if k + done < graphs or table.mantissa == MANTISSA:
            say_plain(table, pulls, t)
        else:
            say_codes(table, pulls, t)
        gather(paths, table, pulls, t, k + done < graphs, pull)
        answer_all(matrix, slope, pull, pulls.models)
        if not finite_rows(pulls.models):
            return done
    return count
