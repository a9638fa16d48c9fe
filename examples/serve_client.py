"""A service for the moment: submit jobs, be told what is promised and why not, lose a machine, check the log.

python examples/serve_client.py      needs equipoise[serve]; for a service of yours: Client(url, token)
"""

from equipoise.serve import local_service

MACHINES = {"machines": [{"name": "gpu", "count": 2, "capacity": {"gpu": 4, "cpu": 32}}]}


def main() -> None:
    with local_service(MACHINES, slot="10m") as client:
        wide = client.submit({"name": "wide", "worker": {"gpu": 1}, "workers": 8, "duration": "1h", "value": 20})
        print(f"{wide.name}: {wide.state}, slots {wide.start} to {wide.end} on {', '.join(wide.machines)}")
        asked = {"name": "urgent", "worker": {"gpu": 2}, "workers": 2, "duration": "30m", "value": 5, "deadline": "40m"}
        urgent = client.submit(asked)
        print(f"{urgent.name}: {urgent.state} ({urgent.reason})")
        print("why:", client.explain(urgent.id)["text"])

        client.down(wide.machines[0])  # half of the cluster fails: what it held is planned again
        print(f"{wide.name} with a machine less: {client.job(wide.id).state}, to slot {client.job(wide.id).end}")
        client.cancel(wide.id)
        print(f"{urgent.name} after that is cancelled: {client.job(urgent.id).state}")
        client.advance(6)  # a service of the moment has a clock that is moved by hand
        print(f"{urgent.name} six slots later: {client.job(urgent.id).state}")
        print("certificate passed:", client.certificate()["passed"])


if __name__ == "__main__":
    main()
