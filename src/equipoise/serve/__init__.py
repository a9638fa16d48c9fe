"""serve: the planner as a service that loses nothing. Here is what its users need; the service is `equipoise serve`."""

from equipoise.serve.client import Client, ServiceError
from equipoise.serve.local import local_service

__all__ = ["Client", "ServiceError", "local_service"]
