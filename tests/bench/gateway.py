"""The gateway over HTTP, side by side with the bare server it stands on and with its peers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import time
from typing import NamedTuple

import jwt

from headgate.app.auth.grants import Grant, Verb
from tests.bench import peers
from tests.bench.figures import Figure
from tests.bench.load import Load, get, post
from tests.bench.servers import cpu_s, serving_process
from tests.key_files import Keys

BATCH = 1000
ROUNDS = 5
SECONDS = 2.0
CPU_RATIO_MAX = 1.67
"""At 0.6 requests for each of the bare server's. Judged by CPU: counted, those of the bare server
are as many as the load can send, and whatever else runs on that core hides the difference."""


CREDENTIAL_CPU_RATIOS_MAX = {"a key": 1 / 0.95, "a token": 1 / 0.93}
"""At 0.95 and 0.93 requests for each one without a credential."""

CREDENTIAL_ROUNDS = 24
CREDENTIAL_SECONDS = 0.5
"""The difference is small, so the turns are short: the machine is as busy in one as in the next."""

BODY = b'{"fields":{"temp":"39","hum":"71","site":"s1"}}'
_PATH = "/v1/streams/bench/entries"
SINGLE = post(_PATH, BODY)


def batches(entries: int) -> bytes:
    """Return a request that appends so many entries, as NDJSON."""
    lines = b"\n".join([BODY] * entries)
    return post("/v1/streams/bench/entries/batch", lines, "application/x-ndjson")


BATCHES = batches(BATCH)
XADD = post("/", b"XADD/bench/*/temp/39/hum/71/site/s1")


class _Place(NamedTuple):
    """A server, and what is asked of it."""

    port: int
    process_id: int | None  # where its CPU is of interest
    request: bytes = SINGLE
    connections: int = 32


class _Rounds:
    """Measurements, round by round, by the name of the place."""

    def __init__(self) -> None:
        self.rates: defaultdict[str, list[float]] = defaultdict(list)
        self.cpu_us: defaultdict[str, list[float]] = defaultdict(list)

    async def add(self, places: Mapping[str, _Place], seconds: float) -> None:
        """Let the places take turns, each for so long."""
        for name, place in places.items():
            load = Load("127.0.0.1", place.port, place.request, connections=place.connections)
            used_s = 0.0 if place.process_id is None else cpu_s(place.process_id)
            self.rates[name].append(await load.per_second(seconds))
            if place.process_id is not None:
                used_s = cpu_s(place.process_id) - used_s
                self.cpu_us[name].append(used_s / load.answered * 1e6)


async def measure() -> list[Figure]:
    """Return the gateway's figures, of rounds in which the servers take turns."""
    measured = _Rounds()
    with _places() as places:
        for number in range(ROUNDS):
            print(f"gateway: round {number + 1} of {ROUNDS}", flush=True)
            await measured.add(places, SECONDS)
    return [*_figures(measured), *await measure_credentials()]


async def measure_credentials() -> list[Figure]:
    """Return the cost of an append with a credential, beside one without."""
    measured = _Rounds()
    with ExitStack() as servers:
        places = {"none": _Place(*servers.enter_context(serving_process("headgate")))}
        places |= _with_credentials(servers)
        await _Rounds().add(places, SECONDS)  # each server is warm then
        for _ in range(CREDENTIAL_ROUNDS):
            await measured.add(places, CREDENTIAL_SECONDS)
    rates, cpu_us = measured.rates, measured.cpu_us
    without = "without a credential"
    figures = []
    for name, ratio_max in CREDENTIAL_CPU_RATIOS_MAX.items():
        work = f"one append per request with {name}"
        figures += [
            Figure.of_rounds(work, rates[name], "requests/s", without, rates["none"]),
            Figure.of_rounds(
                f"CPU of {work}",
                cpu_us[name],
                "µs",
                without,
                cpu_us["none"],
                ratio_at_most=round(ratio_max, 3),
            ),
        ]
    return figures


def _figures(measured: _Rounds) -> list[Figure]:
    rates, cpu_us = measured.rates, measured.cpu_us
    single, rounds = "one append per request, 32 connections", Figure.of_rounds
    append, unit = rates["headgate"], "requests/s"
    bare_us = cpu_us["bare uvicorn"]
    entries = [rate * BATCH for rate in rates["batches"]]
    many, best = f"NDJSON, {BATCH} per request, 4 connections", [max(rates["Webdis"], default=0.0)]
    targets = {"at_least": 200e3, "ratio_at_least": 10.0}
    return [
        rounds(single, append, unit, "bare uvicorn", rates["bare uvicorn"]),
        rounds(single, append, unit, "plain FastAPI, no engine", rates["plain FastAPI"]),
        rounds(single, append, unit, "Webdis, XADD", rates["Webdis"]),
        rounds(
            "CPU of one append per request", cpu_us["headgate"], "µs", "bare uvicorn", bare_us,
            ratio_at_most=CPU_RATIO_MAX,
        ),
        rounds(
            "CPU of one append per request", cpu_us["headgate"], "µs",
            "the least: body, engine, id", cpu_us["the least"],
        ),
        rounds("CPU of GET /healthz", cpu_us["healthz"], "µs", "bare uvicorn", bare_us),
        rounds(
            many, entries, "entries/s", "Webdis, XADD, its best round",
            best if rates["Webdis"] else [], **targets,
        ),
    ]  # fmt: skip


@contextmanager
def _places() -> Iterator[dict[str, _Place]]:
    with ExitStack() as servers:
        places = {
            name: _Place(*servers.enter_context(serving_process(name)))
            for name in ("bare uvicorn", "the least", "plain FastAPI", "headgate")
        }
        places["healthz"] = places["headgate"]._replace(request=get("/healthz"))
        # A gateway of their own: a journal that grows by so much is rewritten now and then.
        batches = servers.enter_context(serving_process("headgate"))
        places["batches"] = _Place(*batches, request=BATCHES, connections=4)
        redis = servers.enter_context(peers.redis())
        port = servers.enter_context(peers.webdis(redis))
        if port is not None:
            places["Webdis"] = _Place(port, None, XADD)
        yield places


def _with_credentials(servers: ExitStack) -> dict[str, _Place]:
    """Start gateways that ask for a credential, one for each kind: their journals grow alike."""
    keys_file = Path(servers.enter_context(TemporaryDirectory())) / "keys.json"
    grant = Grant(streams=["bench*"], do=[Verb.APPEND], create=True)
    secret = token_hex(32)
    claims = {
        "sub": "bench",
        "exp": int(time()) + 3600,
        "headgate": [grant.model_dump(mode="json", exclude_defaults=True)],
    }
    credentials = {
        "a key": Keys(keys_file).add(grant, name="bench"),
        "a token": jwt.encode(claims, secret, algorithm="HS256"),
    }
    places = {}
    for name, token in credentials.items():
        serving = serving_process(
            "headgate", keys_file=keys_file, jwt_secret=secret, jwt_algorithms="HS256"
        )
        port, process_id = servers.enter_context(serving)
        places[name] = _Place(port, process_id, post(_PATH, BODY, token=token))
    return places
