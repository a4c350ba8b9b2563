"""Count: the instructions of one operation, in user space, as callgrind counts them.

Times scatter by half on a busy machine; instructions do not. Each server runs under valgrind,
without garbage collection, and is warm before anything counts. The thread of the event loop is
counted apart from the others, which write the journal.
"""

import asyncio
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from deploy.local_cluster.server import free_ports
from headgate.app.auth.grants import Grant, Verb
from tests.bench import consume, report
from tests.bench.figures import Figure, markdown
from tests.bench.gateway import BATCH, BATCHES, SINGLE
from tests.bench.load import Load, get
from tests.bench.servers import running
from tests.bench.sockets import LeanSocket
from tests.key_files import Keys

BUDGET = Path(__file__).with_name("budget.toml")
CONNECTIONS = 32
DEAREST = 10
ROUNDS = 3
SUBSCRIBERS = 100

_RUN = """
import gc, runpy, sys
gc.disable()
gc.enable = lambda: None
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

_VARIABLES = {"PYTHONHASHSEED": "0", "HEADGATE_PING_INTERVAL_MS": "3600000"}
"""The load answers no pings."""

_FUNCTION = re.compile(r"^ *([\d,]+)  \S*:(\S+)")

Work = Callable[[int], None]
"""Does an operation so many times."""


WorkAt = Callable[[int], AbstractContextManager[Work]]
"""Gets ready at a port, or at that for Redis clients."""


class Operation(NamedTuple):
    """An operation that is counted."""

    server: str
    times: int  # counted; a third of it warms the server
    work_at: WorkAt


class Counted(NamedTuple):
    """The instructions of an operation, each time."""

    loop: float  # of the thread of the event loop
    others: float
    dearest: list[tuple[str, float]]


def measure() -> list[Figure]:
    """Count all operations; the table goes to the results, with the commit that was counted."""
    counted = count()
    report.keep("count", _table(counted), {name: each._asdict() for name, each in counted.items()})
    print(_table(counted).partition("\n##")[0])
    return []


def count() -> dict[str, Counted]:
    """Return the instructions of each operation by its name."""
    counted = {}
    with tempfile.TemporaryDirectory() as folder:
        keys_file = Path(folder) / "keys.json"
        operations = _operations(keys_file)
        for server in dict.fromkeys(each.server for each in operations.values()):
            with _server(server, keys_file) as (port, redis_port, callgrind):
                for name, operation in operations.items():
                    if operation.server == server:
                        print(f"count: {name}", flush=True)
                        place = redis_port if "XADD" in name else port
                        with operation.work_at(place) as work:
                            counted[name] = callgrind.count(work, operation.times)
    return counted


def over_budget(counted: Mapping[str, Counted]) -> list[str]:
    """Return in words what takes over 3 % more instructions than its budget."""
    budget: dict[str, int] = tomllib.loads(BUDGET.read_text())
    return [
        f"{name}: {counted[name].loop:,.0f} instead of {instructions:,}"
        for name, instructions in budget.items()
        if counted[name].loop > instructions * 1.03
    ]


def _operations(keys_file: Path) -> dict[str, Operation]:
    grant = Grant(streams=["bench*"], do=[Verb.APPEND], create=True)
    key = Keys(keys_file).add(grant, name="bench")
    with_key = SINGLE.replace(b"Host:", b"Authorization: Bearer " + key.encode() + b"\r\nHost:")
    with_id = SINGLE.replace(b"Host:", b"X-Request-Id: chosen\r\nHost:")  # as with a key of its own
    alone, here, keyed = "bare uvicorn", "headgate", "headgate with keys"
    return {
        "bare uvicorn": Operation(alone, 3_000, _requests(SINGLE)),
        "GET /healthz": Operation(here, 3_000, _requests(get("/healthz"))),
        "append": Operation(here, 3_000, _requests(SINGLE)),
        "append with an id": Operation(here, 3_000, _requests(with_id)),
        "append with a key": Operation(keyed, 3_000, _requests(with_key)),
        "NDJSON, an entry": Operation(here, 40_000, _requests(BATCHES, per_request=BATCH)),
        "group read and ack over a WebSocket, an entry": Operation(here, 15_000, _consume),
        "delivery to 100 WebSockets": Operation(here, 2_000, _fan_out),
        "event to 100 EventSources": Operation(here, 2_000, _events),
        "XADD -P 1": Operation(here, 3_000, partial(_redis_benchmark, 1)),
        "XADD -P 64": Operation(here, 10_000, partial(_redis_benchmark, 64)),
    }


class _Callgrind:
    """Valgrind's callgrind, which counts in a server."""

    def __init__(self, process_id: int, folder: Path) -> None:
        self._process_id, self._folder, self._dumps = process_id, folder, 0

    def count(self, work: Work, times: int) -> Counted:
        """Count the instructions of some work, once it has been done a few times.

        Of some rounds the least counts: what the server does by itself meanwhile, it does by time.
        """
        work(max(times // 3, 1))
        self._control("--instr=on")
        work(max(times // 10, 1))  # valgrind translates what runs the first time
        rounds = []
        for _ in range(ROUNDS):
            self._control("--zero")
            work(times // ROUNDS)
            self._control("--dump")
            self._dumps += 1
            rounds.append(self._dumped(times // ROUNDS))
        self._control("--instr=off")
        return min(rounds)

    def _dumped(self, times: int) -> Counted:
        totals: Counter[bool] = Counter()
        for path in self._folder.glob(f"counted.{self._dumps}-*"):
            [total] = re.findall(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
            totals[path.name.endswith("-01")] += int(total)
        dearest = _dearest(self._folder / f"counted.{self._dumps}-01")
        functions = [(name, total / times) for name, total in dearest]
        return Counted(totals[True] / times, totals[False] / times, functions)

    def _control(self, word: str) -> None:
        command = ["callgrind_control", word, str(self._process_id)]
        subprocess.run(command, check=True, capture_output=True)


def _dearest(path: Path) -> list[tuple[str, int]]:
    command = ["callgrind_annotate", "--show-percs=no", "--threshold=100", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions: Counter[str] = Counter()
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            functions[match[2]] += int(match[1].replace(",", ""))
    return functions.most_common(DEAREST)


@contextmanager
def _server(name: str, keys_file: Path) -> Iterator[tuple[int, int, _Callgrind]]:
    assert shutil.which("valgrind"), "valgrind is not installed"
    port, redis_port = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]
        command += [f"--callgrind-out-file={folder}/counted", sys.executable, "-c", _RUN]
        if name == "bare uvicorn":
            command += ["uvicorn", "tests.bench.servers:bare", "--lifespan", "off"]
        else:
            command += ["headgate.app.cli", "serve", "--data-dir", f"{folder}/data"]
            command += ["--redis-port", str(redis_port)]
        if name == "headgate with keys":
            command += ["--keys-file", str(keys_file)]
        command += ["--port", str(port), "--log-level", "warning"]
        with running(command, port, _VARIABLES) as process_id:
            yield port, redis_port, _Callgrind(process_id, Path(folder))


def _requests(request: bytes, per_request: int = 1) -> WorkAt:
    @contextmanager
    def work_at(port: int) -> Iterator[Work]:
        def work(times: int) -> None:
            load = Load("127.0.0.1", port, request, connections=CONNECTIONS)
            asyncio.run(load.times(times // per_request))

        yield work

    return work_at


@contextmanager
def _consume(port: int) -> Iterator[Work]:
    consume.prepare(port, 30_000, groups := [f"g{number}" for number in range(ROUNDS + 2)])
    ahead = iter(groups)

    def work(times: int) -> None:
        consume.read_and_acknowledge(port, next(ahead), times, seconds=600)

    yield work


@contextmanager
def _fan_out(port: int) -> Iterator[Work]:
    _append(port, "fan")
    sockets = [LeanSocket(port, "/v1/streams/fan/ws?credit=65536") for _ in range(SUBSCRIBERS)]
    for each in sockets:
        each.read_until(b'"caught_up"')
    yield partial(_one_by_one, port, "fan", sockets)
    for each in sockets:
        each.close()


@contextmanager
def _events(port: int) -> Iterator[Work]:
    _append(port, "events")
    request = get("/v1/streams/events/events")
    sockets = [LeanSocket.plain(port, request) for _ in range(SUBSCRIBERS)]
    for each in sockets:
        each.read_until(b"caught_up")
    yield partial(_one_by_one, port, "events", sockets)
    for each in sockets:
        each.close()


def _one_by_one(port: int, stream: str, sockets: list[LeanSocket], times: int) -> None:
    """Append entries, each once everybody has the one before."""
    for _ in range(times // len(sockets)):
        _append(port, stream)
        for each in sockets:
            each.read_until(b'"temp"')


def _append(port: int, stream: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    body = '{"fields":{"temp":"39","hum":"71","site":"s1"}}'
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/v1/streams/{stream}/entries", body, headers)
    assert connection.getresponse().status == 201
    connection.close()


@contextmanager
def _redis_benchmark(depth: int, port: int) -> Iterator[Work]:
    def work(times: int) -> None:
        command = ["redis-benchmark", "-p", str(port), "-P", str(depth), "-c", "50", "-q"]
        command += ["-n", str(times), "XADD", "bench", "*", "temp", "39", "hum", "71"]
        subprocess.run([*command, "site", "s1"], check=True, capture_output=True)

    # Under valgrind each would be slow enough for the log of slow commands.
    setting = ["CONFIG", "SET", "slowlog-log-slower-than", "-1"]
    subprocess.run(["redis-cli", "-p", str(port), *setting], check=True, capture_output=True)
    yield work


def _table(counted: Mapping[str, Counted]) -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    bare = counted["bare uvicorn"].loop
    rows = [
        [name, f"{each.loop:,.0f}", f"{each.others:,.0f}", f"{each.loop / bare:.2f} ×"]
        for name, each in counted.items()
    ]
    text = f"Commit {commit}, Python {platform.python_version()}, {platform.machine()}.\n\n"
    text += markdown(["operation", "event loop", "other threads", "of bare uvicorn"], rows)
    for name, each in counted.items():
        shown = [[f"`{function}`", f"{number:,.0f}"] for function, number in each.dearest]
        text += f"\n## {name}\n\n{markdown(['function', 'instructions'], shown)}"
    return text
