"""Clients of JavaScript, unmodified: `ioredis`, node-redis, and the adapter of Socket.IO."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import run
from tests.processes.gateway import GatewayProcess
from tests.sdk.workshop import node_modules

FOLDER = Path(__file__).parent / "npm"
TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"


def answers_of(script: str, gateway: GatewayProcess, stream: str, *words: str) -> dict[str, Any]:
    """Run a session with the gateway; returns what each of its steps was answered."""
    node_modules(FOLDER)
    outcome = run("node", str(FOLDER / script), str(gateway.redis_port), stream, *words)
    assert outcome.code == 0, outcome.errors
    answers: dict[str, Any] = json.loads(outcome.output)
    return answers


def test_ioredis_works_unmodified(gateway: GatewayProcess, stream: str) -> None:
    entry = ["1-1", ["sku", "a", "name", "é"]]
    assert answers_of("ioredis.mjs", gateway, stream) == {
        "add": ["1-1", "2-0"],
        "add_again": TOO_SMALL,
        "range": [entry, ["2-0", ["sku", "b"]]],
        "info": ["length", 2],
        "group": "OK",
        "read": [[stream, [entry]]],
        "pending": [["1-1", "me", 1]],
        "autoclaim": ["0-0", [entry], []],
        "ack": 1,
        "pipeline": [[None, "3-0"], [TOO_SMALL], [None, 3]],
        "multi": [[None, "4-0"], [None, 1], [None, 3]],
        "watched": None,
        "eager": [500, "500-0", 500],
        "blocked": [[f"{stream}-followed", [["1-0", ["n", "1"]]]]],
        "nothing": None,
        "bytes": b"b".hex(),
        "scanned": [stream, f"{stream}-eager", f"{stream}-followed"],
        "name": "ioredis-test",
        "anew": True,
        "deleted": 3,
    }


@pytest.mark.parametrize("protocol", [2, 3])
def test_node_redis_works_unmodified(gateway: GatewayProcess, stream: str, protocol: int) -> None:
    entry = {"id": "1-1", "message": {"sku": "a", "name": "é"}}
    assert answers_of("node-redis.mjs", gateway, stream, str(protocol)) == {
        "add": ["1-1", "2-0"],
        "add_again": TOO_SMALL,
        "range": [entry, {"id": "2-0", "message": {"sku": "b"}}],
        "info": [2, "2-0", entry],
        "group": "OK",
        "read": [{"name": stream, "messages": [entry]}],
        "pending": {
            "pending": 1,
            "firstId": "1-1",
            "lastId": "1-1",
            "consumers": [{"name": "me", "deliveriesCounter": 1}],
        },
        "pending_range": [["1-1", "me", 1]],
        "autoclaim": {"nextId": "0-0", "messages": [entry], "deletedMessages": []},
        "groups": [
            {
                "name": "g",
                "consumers": 2,
                "pending": 1,
                "lag": 1,
                "last-delivered-id": "1-1",
                "entries-read": 1,
            }
        ],
        "ack": 1,
        "eager": [500, "500-0", 500],
        "multi": ["3-0", 3],
        "watched": "WatchError",
        "blocked": [{"name": stream, "messages": [{"id": "7-0", "message": {"n": "7"}}]}],
        "nothing": None,
        "scanned": [stream, f"{stream}-eager"],
        "name": "node-redis-test",
        "deleted": 2,
    }


@pytest.mark.parametrize("adapter", ["@socket.io/redis-streams-adapter", "adapter-0.2"])
def test_servers_of_socket_io_share_a_stream(
    gateway: GatewayProcess, stream: str, adapter: str
) -> None:
    assert answers_of("socket-io.mjs", gateway, stream, adapter) == {
        "broadcast": [["hello", [1, 255]]] * 2,
        "room": [1],
        "server_side": ["a"],
        "sockets": 2,
        "acknowledged": ["one", "other"],
        "server_answer": ["from a server"],
    }
