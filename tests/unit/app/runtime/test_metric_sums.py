from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headgate.app.runtime.metric_sums import Families, Sums, decode, encode, families_of, text_of


def counted(appends: int, seconds: float, connections: int, longest_s: float) -> Families:
    """Return the counts of a process, as they arrive at another one."""
    registry = CollectorRegistry()
    requests = Counter("requests", "Requests.", ["operation"], registry=registry)
    requests.labels("append").inc(appends)
    Histogram("seconds", "Time.", buckets=(1, 2), registry=registry).observe(seconds)
    Gauge("connections", "Open.", registry=registry).set(connections)
    gauge = Gauge("headgate_loop_delay_longest_seconds", "Longest.", registry=registry)
    gauge.set_function(lambda: longest_s)
    return decode(encode(families_of(registry)))


def lines(families: Families) -> set[str]:
    text = text_of(families).decode()
    return {line for line in text.splitlines() if line[0] != "#" and "_created" not in line}


def test_counts_of_processes_are_added_and_stay_while_gauges_go_with_them() -> None:
    sums = Sums()
    sums.note(1, counted(2, 0.5, 10, 0.25))
    sums.note(2, counted(3, 1.5, 20, 0.5))

    assert lines(sums.total([])) == {
        *('requests_total{operation="append"} 5.0', 'seconds_bucket{le="1.0"} 1.0'),
        *('seconds_bucket{le="2.0"} 2.0', 'seconds_bucket{le="+Inf"} 2.0', "seconds_count 2.0"),
        *("seconds_sum 2.0", "connections 30.0", "headgate_loop_delay_longest_seconds 0.5"),
    }
    sums.end(2)
    sums.note(3, counted(1, 0.5, 1, 0.0))
    assert lines(sums.total([])) >= {
        *('requests_total{operation="append"} 6.0', "seconds_count 3.0", "connections 11.0"),
        "headgate_loop_delay_longest_seconds 0.25",
    }
