"""Peers that a user may pick instead, as far as they are installed. A missing peer is left out."""

import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.local_cluster.server import free_ports
from headgate.engine.entry import Draft
from tests.bench import postgres
from tests.bench.servers import pin_to_server_core, running
from tests.model.redis_server import Redis
from tests.model.wire.servers import server_port

FAKEREDIS = importlib.util.find_spec("fakeredis")


def missing() -> list[str]:
    """Return the names of the peers that are not there."""
    paths = {
        "fakeredis": FAKEREDIS,
        "redis-server": shutil.which("redis-server"),
        "redis-benchmark": shutil.which("redis-benchmark"),
        "nchan": _nchan_module(),
        "webdis": shutil.which("webdis"),
        "postgresql": postgres.find(),
        "rakaia": importlib.util.find_spec("rakaia"),
    }
    return [name for name, there in paths.items() if there is None]


def fakeredis_appends_per_second(drafts: Sequence[Draft]) -> float | None:
    """Return how many entries fakeredis takes: Redis as a Python object, in this process."""
    if FAKEREDIS is None:
        return None
    import fakeredis  # noqa: PLC0415 - only a machine that develops Headgate has it

    client = fakeredis.FakeRedis()
    started = time.perf_counter()
    for _, fields, _ in drafts:
        client.xadd("bench", dict(zip(fields[::2], fields[1::2], strict=True)))
    return len(drafts) / (time.perf_counter() - started)


@contextmanager
def redis() -> Iterator[Redis | None]:
    """Run a real Redis with its default settings, if there is one."""
    if shutil.which("redis-server") is None:
        yield None
        return
    with server_port() as port:
        server = Redis(port)
        pin_to_server_core(process_id(server))
        yield server
        server.close()


def process_id(server: Redis) -> int:
    """Return the id of the process of a Redis."""
    match = re.search(rb"process_id:(\d+)", server.run([b"INFO", b"server"]))
    assert match is not None
    return int(match[1])


def redis_bytes_per_entry(server: Redis, drafts: Iterable[Draft]) -> float:
    """Return the memory of a stream of these entries in Redis, every node counted."""
    for entry_id, fields, _ in drafts:
        server.run([b"XADD", b"bench", str(entry_id).encode(), *fields])
    count = server.run([b"XLEN", b"bench"])
    used = server.run([b"MEMORY", b"USAGE", b"bench", b"SAMPLES", b"0"])
    server.run([b"DEL", b"bench"])
    return float(used) / float(count)


def redis_appends_per_second(server: Redis) -> float | None:
    """Return the rate of appends to Redis by its own benchmark in C, 64 commands in flight."""
    path = shutil.which("redis-benchmark")
    if path is None:
        return None
    port = server.run([b"CONFIG", b"GET", b"port"])[1].decode()
    command = [path, "-p", port, "-P", "64", "-n", "300000", "--csv"]
    command += ["xadd", "bench", "*", "temp", "21.37", "hum", "64", "site", "s123"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    server.run([b"DEL", b"bench"])
    return float(lines[-1].split('","')[1])


def _nchan_module() -> Path | None:
    """Return nchan, if it and an nginx for it are there."""
    module = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
    return module if module.exists() and shutil.which("nginx") else None


_NCHAN = """
daemon off; {processes}; pid nginx.pid; error_log error.log;
load_module {module};
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    nchan_message_buffer_length 10000;
    server {{
        listen 127.0.0.1:{port};
        location = /publish {{ nchan_publisher websocket; nchan_channel_id $arg_id; }}
        location = /subscribe {{
            nchan_subscriber websocket;
            nchan_channel_id $arg_id;
            nchan_subscriber_first_message newest;
        }}
        location = /subscribe-all {{
            nchan_subscriber websocket;
            nchan_channel_id $arg_id;
            nchan_subscriber_first_message oldest;
        }}
    }}
}}
"""


@contextmanager
def nchan(workers: int = 0) -> Iterator[int | None]:
    """Run nginx with nchan, if it is there; yields its port.

    Args:
        workers: how many processes serve; 0: one process does everything.
    """
    module = _nchan_module()
    if module is None:
        yield None
        return
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        processes = f"worker_processes {workers}; user root" if workers else "master_process off"
        settings = _NCHAN.format(module=module, port=port, processes=processes)
        (Path(folder) / "nginx.conf").write_text(settings)
        with running(["nginx", "-p", folder, "-c", "nginx.conf", "-e", "error.log"], port):
            yield port


@contextmanager
def webdis(redis: Redis | None) -> Iterator[int | None]:
    """Run Webdis, one thread, in front of a Redis, if both are there; yields its port."""
    with webdis_process(redis) as process:
        yield None if process is None else process[0]


@contextmanager
def webdis_process(redis: Redis | None, threads: int = 1) -> Iterator[tuple[int, int] | None]:
    """Run Webdis as `webdis` does; yields its port and process id."""
    path = shutil.which("webdis")
    if path is None or redis is None:
        yield None
        return
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "webdis.json"
        settings.write_text(
            json.dumps(
                {
                    "redis_host": "127.0.0.1",
                    "redis_port": redis.port,
                    "http_host": "127.0.0.1",
                    "http_port": port,
                    "threads": threads,
                    "daemonize": False,
                    "logfile": str(Path(folder) / "webdis.log"),
                }
            )
        )
        with running([path, str(settings)], port) as process_id:
            yield port, process_id
