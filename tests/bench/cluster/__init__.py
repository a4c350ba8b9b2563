"""Streams in Valkey: the gateway beside the embedded engine, Webdis and redis-py by hand.

What is measured runs on one core. The load and the servers share the other one, unless a figure
says that all cores are free.
"""

from tests.bench.cluster import appends, consuming, delays
from tests.bench.cluster.places import places
from tests.bench.figures import Figure


def measure() -> list[Figure]:
    """Return the figures over one Valkey."""
    figures = []
    with places() as there:
        for part in (appends, consuming, delays):
            figures += part.measure(there)
            there.empty()
    return figures
