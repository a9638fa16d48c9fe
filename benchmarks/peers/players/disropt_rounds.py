"""Gradient tracking by disropt: a process for every node, messages by MPI. Started under mpiexec; the first node speaks."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from disropt.agents import Agent
from disropt.algorithms import GradientTracking
from disropt.functions import QuadraticForm, Variable
from disropt.problems import Problem
from line import Request, open_answers
from mpi4py import MPI

comm = MPI.COMM_WORLD


def play(request: Request) -> Request:
    """`rounds` rounds from zero on the instance in `file`; models go to `answer`. CPU seconds are those of all nodes."""
    began = time.perf_counter()
    given, me = np.load(request["file"]), comm.rank
    W, m = given["W"], given["s"].shape[1]
    neighbours = [int(j) for j in np.flatnonzero(W[me]) if j != me]
    agent = Agent(in_neighbors=neighbours, out_neighbors=list(neighbours), in_weights=W[me].tolist(), auto_local=True)
    agent.set_problem(Problem(QuadraticForm(Variable(m), P=given["H"][me] / 2, q=-given["s"][me][:, None])))
    method = GradientTracking(agent, np.zeros((m, 1)))
    comm.Barrier()
    wall, cpu = time.perf_counter(), time.process_time()
    method.run(iterations=request["rounds"], stepsize=float(given["rate"]))
    comm.Barrier()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    models, spent = comm.gather(method.get_result()[:, 0]), comm.gather(cpu)
    if me == 0:
        np.save(request["answer"], np.array(models))
    return {"wall": wall, "cpu": sum(spent or [cpu]), "start": time.perf_counter() - began - wall}


def next_request() -> str:
    """What the first node reads, told to the others; they sleep meanwhile, where MPI's own waiting would spin."""
    if comm.rank == 0:
        line = sys.stdin.readline()
        for other in range(1, comm.size):
            comm.send(line, dest=other, tag=comm.size)
        return line
    while not comm.Iprobe(source=0, tag=comm.size):
        time.sleep(0.02)
    told: str = comm.recv(source=0, tag=comm.size)
    return told


def main() -> None:
    say = open_answers()
    while line := next_request():
        answer = play(json.loads(line))
        if comm.rank == 0:
            say(answer)


if __name__ == "__main__":
    main()
