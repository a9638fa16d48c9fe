"""Run by test_ray_groups in a process of its own: start the nodes, make the groups slot by slot, say where they landed.

Reads {"nodes": [...], "slots": [[group, ...], ...]} on stdin; writes for every group the machine (the node's label) of every
bundle by Ray's table, and of an actor that sits in the first and in the last bundle.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
LABEL = "equipoise.io/machine"


def main() -> None:
    import ray
    from ray.util import placement_group, placement_group_table, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from ray_nodes import ray_nodes

    given = json.load(sys.stdin)
    with ray_nodes(given["nodes"]) as address:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        machine = {node["NodeID"]: node["Labels"][LABEL] for node in ray.nodes()}

        @ray.remote(num_cpus=0)
        class Sitter:
            def where(self) -> str:
                return str(ray.get_runtime_context().get_node_id())

        def landed(group) -> dict[str, object]:
            if not group.wait(timeout_seconds=30):
                return {"ready": False}
            table, count = placement_group_table(group)["bundles_to_node_id"], len(group.bundle_specs)
            seats = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=k) for k in (0, count - 1)]
            sitters = [Sitter.options(scheduling_strategy=seat).remote() for seat in seats]
            sat = ray.get([sitter.where.remote() for sitter in sitters], timeout=60)
            return {"ready": True, "table": [machine[table[k]] for k in range(count)], "sat": [machine[n] for n in sat]}

        out = []
        for slot in given["slots"]:
            groups = [placement_group(**arguments) for arguments in slot]
            out.append([landed(group) for group in groups])
            for group in groups:
                remove_placement_group(group)
        print(json.dumps(out))
        ray.shutdown()


if __name__ == "__main__":
    main()
