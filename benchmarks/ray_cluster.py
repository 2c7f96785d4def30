"""A real Ray cluster of two nodes on this machine, one core each."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import services
from ray.cluster_utils import Cluster

PATIENT_S = 300


@contextmanager
def two_nodes() -> Iterator[Any]:
    """The cluster, with this process connected to it."""
    known = services.get_node

    def patient(*given: Any) -> Any:
        """Ray gives a node 30 s to start, which two busy cores don't always do."""
        until = time.monotonic() + PATIENT_S
        while True:
            try:
                return known(*given)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    services.get_node = patient
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    try:
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
    finally:
        services.get_node = known
