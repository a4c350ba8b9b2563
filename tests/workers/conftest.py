"""No process outlives the test that started it."""

from tests.processes.gateway import no_gateway_left

__all__ = ["no_gateway_left"]
