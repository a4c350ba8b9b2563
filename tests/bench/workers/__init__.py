"""`headgate serve --workers 2` beside one process, beside nchan with two workers and Webdis.

CPU is measured by process: what one append, one delivery or one entry of a group takes of the
process that has the engine, and of those that serve. A machine of two cores cannot show what 16
workers do. So that is computed from the CPU of each, and the table says so.
"""

from tests.bench.figures import Figure
from tests.bench.workers import appends, consuming, fan_out
from tests.bench.workers.places import places


def measure() -> list[Figure]:
    """Return the figures of appends, fan-out and groups."""
    figures = []
    with places() as there:
        for part in (appends, consuming, fan_out):
            figures += part.measure(there)
    return figures
