"""A story that leaves something of everything in a data directory, and what a client then sees.

`python -m tests.upgrade.story GATEWAY FOLDER` has a gateway write its data, and notes what it
answers in `expected.json`. That is done with the last gateway that writes a format of the
files, before a later one writes the next; the folder then stays as it is.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx

PORT = 8097
URL = f"http://127.0.0.1:{PORT}"
EXPECTED = "expected.json"
LONG_BATCH = 1_200
START_S_MAX = 20.0

DAY_MS = 86_400_000
_BY_RULES = (
    *("", "/entries", "/groups", "/groups/g/pending", ".timed", ".timed/entries"),
    *(".fair", ".fair/groups/g", ".fair/groups/g/pending", ".table", ".table/table"),
)
"""Paths behind the name of a stream. What is pending of the timed one changes as time passes."""

_CHANGES_WITH_TIME = {
    *("idle_ms", "idle_ms_min", "active_ms", "inactive_ms"),
    *("memory_bytes", "hot_bytes", "cold_bytes"),
}


def write(http: httpx.Client) -> None:
    """Have a gateway record something of everything."""
    schemas = http.get("/openapi.json").json()["components"]["schemas"]
    knows_errors = "error" in schemas["Nack"]["properties"]

    def ask(method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = http.request(method, f"/v1/streams/{path}", json=body, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    ask("PUT", "orders", {"max_length": 5_000})
    policy = {"max_deliveries": 2, "dead_letter_stream": "orders.dead"}
    ask("PUT", "orders/groups/billing", {"start": "0", "policy": policy})
    for number in range(20):
        ask("POST", "orders/entries", {"fields": {"n": str(number), "name": "Zoë", "void": ""}})
    ask("POST", "orders/entries", {"fields": {"once": "1"}}, **{"Idempotency-Key": "k1"})
    ask("POST", "orders/entries", {"fields": {"once": "1"}}, **{"Idempotency-Key": "k1"})
    read = ask("POST", "orders/groups/billing/read?consumer=anna", {"limit": 12})["entries"]
    ids = [entry["id"] for entry in read]
    ask("PUT", "long")
    batch = [{"fields": {"n": str(number), "text": "x" * 20}} for number in range(LONG_BATCH)]
    ask("POST", "long/entries/batch", batch)
    random = Random(5)
    large = [{"fields": {"value": random.randbytes(1_500).hex()}} for _ in range(60)]
    ask("POST", "large/entries/batch", large)  # so much of one stream goes to an extent file
    schedule = {"stream": "orders", "fields": {"a": "1"}, "cron": "0 2 * * *", "paused": True}
    by_rules(ask, schemas, "early")
    knows_schedules = http.put("/v1/schedules/early", json=schedule).is_success
    # The first part is a snapshot from here on, and the other is in segments behind it.
    http.post("/v1/admin/rewrite").raise_for_status()
    deadline = time.monotonic() + START_S_MAX
    while http.get("/v1/admin/journal").json()["is_rewriting"]:
        assert time.monotonic() < deadline, "the rewrite does not end"
        time.sleep(0.05)
    ask("POST", "orders/groups/billing/ack?consumer=anna", {"ids": ids[:4]})
    ask("POST", "orders/groups/billing/nack?consumer=anna", {"ids": ids[4:6], "mode": "fatal"})
    if knows_errors:
        failed = {"ids": ids[9:11], "mode": "fail", "error": "ValueError: no sku"}
        ask("POST", "orders/groups/billing/nack?consumer=anna", failed)
    again = {"ids": ids[6:8], "min_idle_ms": 0}
    ask("POST", "orders/groups/billing/claim?consumer=bert", again)
    ask("DELETE", f"orders/entries/{ids[8]}")
    ask("PUT", "orders/groups/idle", {"start": "$"})
    ask("PUT", "orders/groups/gone")
    ask("DELETE", "orders/groups/gone")

    ask("POST", "long/entries/batch", batch)
    ask("POST", "long/trim", {"max_length": 2_000})
    ask("PUT", "deleted")
    ask("DELETE", "deleted")
    ask("POST", "orders/entries", {"fields": {"n": "behind"}})
    ask("POST", "orders/groups/billing/read?consumer=bert", {"limit": 3})
    ask("POST", "long/entries/batch", batch[:5])
    if knows_schedules:
        http.put("/v1/schedules/late", json={**schedule, "missed": "skip"}).raise_for_status()
    by_rules(ask, schemas, "late")
    ask("PUT", "orders/groups/late", {"start": "0", "policy": {"claim_idle_ms": 1_000}})


def by_rules(ask: Callable[..., Any], schemas: Any, stream: str) -> None:
    """Leave a closed stream of entries that wait for their turn, and another of some with times."""
    if "ttl_ms" not in schemas["EntryInput"]["properties"]:
        return
    policy = {"key_field": "k", "filters": [{"not": {"present": ["test"]}}], "max_deliveries": 5}
    policy |= {"dead_letter_stream": f"{stream}.dead", "on_expiry": "dead_letter"}
    ask("PUT", f"{stream}/groups/g", {"start": "0", "policy": policy, "create_stream": True})
    for fields in ({"k": "1"}, {"k": "1"}, {"test": "1"}):
        ask("POST", f"{stream}/entries", {"fields": fields})
    assert len(ask("POST", f"{stream}/groups/g/read?consumer=anna", {})["entries"]) == 1
    ask("POST", f"{stream}/close", {"fields": {"k": "2"}})
    timed = f"{stream}.timed"
    ask("PUT", f"{timed}/groups/g", {"start": "0", "policy": policy, "create_stream": True})
    for fields in ({"k": "1"}, {"n": "1"}):
        times = {"delay_ms": 80 * DAY_MS, "ttl_ms": 85 * DAY_MS}
        ask("POST", f"{timed}/entries", {"fields": fields, **times})
    ask("POST", f"{timed}/groups/g/read?consumer=anna", {})
    fairly(ask, schemas, f"{stream}.fair")
    tabled(ask, schemas, f"{stream}.table")


def fairly(ask: Callable[..., Any], schemas: Any, stream: str) -> None:
    """Leave entries ahead of a group in which keys take turns."""
    if "fair_field" not in schemas["Policy"]["properties"]:
        return
    policy = {"fair_field": "k", "key_field": "k", "weights": {"a": 2}, "priority_field": "p"}
    ask("PUT", f"{stream}/groups/g", {"start": "0", "policy": policy, "create_stream": True})
    for key, priority in zip("aaaabbc", "0090100", strict=True):
        ask("POST", f"{stream}/entries", {"fields": {"k": key, "p": priority}})
    ask("POST", f"{stream}/groups/g/read?consumer=anna", {"limit": 2})


def tabled(ask: Callable[..., Any], schemas: Any, stream: str) -> None:
    """Leave a table with rows that were changed, and removed."""
    if "key_field" not in schemas["StreamConfig"]["properties"]:
        return
    ask("PUT", stream, {"key_field": "k"})
    for key in "abcab":
        ask("PUT", f"{stream}/table/{key}", {"fields": {"n": key * 2}})
    ask("DELETE", f"{stream}/table/c")


def seen(http: httpx.Client) -> dict[str, Any]:
    """Return a client's view of the story, without the parts that change with time."""
    facts: dict[str, Any] = {}
    for path in (
        "",
        "/orders",
        "/orders/entries?limit=1000",
        "/orders/groups",
        "/orders/groups/billing",
        "/orders/groups/billing/pending?limit=100",
        "/orders/groups/billing/consumers",
        "/orders/groups/late",
        "/orders.dead/entries",
        "/long",
        "/long/entries?limit=20",
        "/long/entries?limit=10&order=desc",
        "/large",
        "/large/entries?limit=3",
        "/large/entries?limit=3&order=desc",
        *(f"/{stream}{part}" for stream in ("early", "late") for part in _BY_RULES),
    ):
        answer = http.get(f"/v1/streams{path}")
        facts[path] = [answer.status_code, _lasting(answer.json())]
    answer = http.get("/v1/schedules")
    facts["schedules"] = [answer.status_code, _lasting(answer.json())]
    return facts


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in _CHANGES_WITH_TIME}
        return {name: _lasting(each) for name, each in kept.items()}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def main(gateway: str, folder: Path) -> None:
    """Run a gateway of a checkout, and keep what it has written."""
    data = folder / "data"
    command = [sys.executable, "-m", "headgate.app.cli", "serve", "--data-dir", str(data)]
    with subprocess.Popen([*command, "--port", str(PORT)], cwd=gateway) as process:
        try:
            with httpx.Client(base_url=URL, timeout=30) as http:
                deadline = time.monotonic() + START_S_MAX
                while not _answers(http):
                    assert time.monotonic() < deadline, "the gateway does not start"
                write(http)
                facts = seen(http)
        finally:
            process.send_signal(signal.SIGTERM)
    for path in sorted(data.iterdir()):
        if path.name.startswith(("journal-", "snapshot-", "extents-")):
            shutil.copy(path, folder / path.name)
    shutil.rmtree(data)
    (folder / EXPECTED).write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").is_success
    except httpx.TransportError:
        time.sleep(0.05)
        return False


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
