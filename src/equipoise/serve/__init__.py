"""serve: the planner as a service that loses nothing. Here is what its users need; the service is `equipoise serve`."""

from typing import TYPE_CHECKING

from equipoise._moved import old_names
from equipoise.serve.client import Client, ServiceError
from equipoise.serve.local import local_service

__all__ = ["Client", "ServiceError", "local_service"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)  # names of 0.1.0
