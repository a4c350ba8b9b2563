from __future__ import annotations

import asyncio
import gc
import logging
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from headgate.app.auth.credentials import Credentials
from headgate.app.auth.key_file import FIRST_KEY, first_key
from headgate.app.cli.configuration import CONFIG, setting_flags, settings_from
from headgate.app.cli.data_dir import take_all_descriptors
from headgate.app.cli.declaration import command, option
from headgate.app.data_files import keys_path
from headgate.app.gateway.backends import open_backend
from headgate.app.gateway.credentials import fetch_shared_keys, open_credentials
from headgate.app.main import create_app
from headgate.app.runtime import collector
from headgate.app.runtime.logs import (
    announce,
    log_prints_of_python,
    progress_of_gateway,
    set_up_logging,
)
from headgate.app.runtime.terminal import Terminal
from headgate.app.server import Exposed, Server, certificate_of, check_addresses, url_of
from headgate.app.settings import MEMORY, Settings, with_secrets
from headgate.app.transport import listening
from headgate.app.transport.certificate import UnusableCertificate
from headgate.app.workers.child import RestartFailed, StartFailed
from headgate.app.workers.engine_socket import InUse, await_leftover
from headgate.app.workers.supervisor import ProcessPlan, Supervisor
from headgate.engine.clock import SystemClock
from headgate.engine.errors import StreamError

_SUFFIXES = (".py", ".html", ".css", ".md", ".svg", ".lua", ".json")
_STOP_S = 10
"""A gateway that has readers takes some seconds to end."""


def serve_again_and_again(words: Sequence[str]) -> None:
    """Run `headgate serve` until Ctrl-C, restarting it after each change of its code."""
    try:
        from watchfiles import Change, run_process  # noqa: PLC0415 only those who change the code
    except ImportError:
        raise click.ClickException("--dev requires a package: pip install watchfiles") from None

    def is_code(_: Change, path: str) -> bool:
        return path.endswith(_SUFFIXES)

    def report(changes: set[tuple[Change, str]]) -> None:
        names = sorted({Path(path).name for _, path in changes})
        click.echo(f"Changed: {', '.join(names)}. Restarting the gateway.", err=True)

    program = [sys.executable, "-m", "headgate.app.cli", "serve", *words]
    run_process(
        *_folders(),
        target=shlex.join(program),
        target_type="command",
        watch_filter=is_code,
        callback=report,
        sigint_timeout=_STOP_S,
    )


def _folders() -> list[Path]:
    """Return the folders of the code; in a checkout they are behind symbolic links."""
    import headgate  # noqa: PLC0415 the whole of it is no part of anything here

    [top] = headgate.__path__
    return [path.resolve() for path in Path(top).iterdir() if path.is_dir()]


log = logging.getLogger("headgate")

_DEV = "--dev"


def _fetch_shared_keys(settings: Settings) -> None:
    try:
        fetch_shared_keys(settings)
    except OSError as error:
        why = error.strerror or str(error)
        raise click.ClickException(f"{settings.bucket}: {why}") from None


def _make_first_key(settings: Settings) -> None:
    """Create and print an admin key, if the operator wants one and no credentials exist."""
    tokens = settings.jwt_secret, settings.jwt_public_key_file, settings.jwt_jwks
    if not settings.first_key or any(tokens) or settings.data_dir == MEMORY:
        return
    keys_file = keys_path(settings.data_dir, settings.keys_file)
    key = first_key(settings.data_dir, keys_file, SystemClock().wall_ms())
    if key is not None:
        place = settings.data_dir / FIRST_KEY
        announce(f"The first key, with all rights: {key}", file=str(place))
        announce(f"It is shown only once, and stored in {place}.", file=str(place))


def _hang_up(terminal: Terminal) -> None:
    """Stop if the terminal was closed; nothing to reload, as changed files are noticed anyway."""
    if terminal.is_gone:
        signal.raise_signal(signal.SIGTERM)
    else:
        log.info("nothing to reload with one process")


def greet(settings: Settings, redis_sockets: Sequence[socket.socket], url: str) -> None:
    if redis_sockets:
        host = settings.redis_host or settings.host
        port = redis_sockets[0].getsockname()[1]
        announce(f"Redis clients connect to {host}:{port}.", redis_host=host, redis_port=port)
    guide, console = f"{url}/guide", f"{url}/console"
    text = f"Headgate is at {url}, its guide at {guide}, its console at {console}. Ctrl-C stops it."
    announce(text, url=url, guide=guide, console=console)
    if settings.data_dir == MEMORY and settings.backend is None:
        announce("Streams are in memory only. All data is lost when the gateway stops.")


def serve_with_workers(
    settings: Settings,
    credentials: Credentials,
    sockets: Sequence[socket.socket],
    redis_sockets: Sequence[socket.socket] = (),
) -> None:
    set_up_logging(settings.log_level, "supervisor", log_requests=settings.log_requests)
    log_prints_of_python()
    data_dir = None if settings.data_dir == MEMORY else settings.data_dir
    with ExitStack() as opened:
        staged_dir = None
        if data_dir is None:
            folder = opened.enter_context(TemporaryDirectory(prefix="headgate-staged-"))
            staged_dir = Path(folder)
        plan = ProcessPlan(
            with_secrets(settings),
            settings.workers,
            sockets,
            redis_sockets,
            data_dir,
            has_engine=settings.backend is None,
            ticket_secret=credentials.ticket_secret(),
            staged_dir=staged_dir,
            wait_ms_max=settings.wait_ms_max,
        )
        url = url_of(settings, sockets[0].getsockname()[1])
        try:
            asyncio.run(Supervisor(plan, partial(greet, settings, redis_sockets, url)).run())
        except (StartFailed, RestartFailed, InUse, OSError) as error:
            raise click.ClickException(str(error)) from None


class Serve(click.Command):
    """A command that reports a failure as a log line, unless a person reads the output."""

    def make_context(self, *words: Any, **options: Any) -> click.Context:
        with _failures_in_the_log():
            return super().make_context(*words, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = [word for word in args if word != _DEV]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _failures_in_the_log():
            return super().invoke(ctx)


@contextmanager
def _failures_in_the_log() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        if sys.stderr.isatty():
            raise
        announce(error.format_message(), level=logging.ERROR)
        raise click.exceptions.Exit(error.exit_code) from None


@command(
    "serve",
    "headgate serve --port 8080 --data-dir data",
    kind=Serve,
    failed="the gateway cannot start, or has failed",
    is_stopped=True,
    more=setting_flags(
        *("host", "port", "redis_port", "redis_host", "data_dir", "backend", "redis_durability"),
        *("redis_prefix", "fsync", "bucket", "durable", "standby", "standby_reads"),
        *("standby_redirect", "address", "lease_ms", "ship_ms", "log_level", "keys_file"),
        *("first_key", "allow_anonymous", "open_metrics", "tls_cert", "tls_key", "root_path"),
        *("workers", "trusted_proxies", "push_allow", "push_deny", "push_key_file"),
        *("allowed_hosts", "allowed_origins"),
    ),
)
def serve_command(
    dev: bool = option("Restart when the code changes. Requires the package watchfiles."),
    config: Path | None = CONFIG,
    **flags: Any,
) -> None:
    """Run the gateway.

    You can also give every setting as an environment variable (HEADGATE_PORT=9000) or in a TOML
    file (port = 9000). `headgate check-config` shows all settings.
    """
    settings = settings_from(config, flags, partial(announce, level=logging.WARNING))
    if dev:
        serve_again_and_again(click.get_current_context().obj)
        return
    try:  # before the data is loaded, which may take minutes
        certificate_of(settings)
        _fetch_shared_keys(settings)
        _make_first_key(settings)
        credentials = open_credentials(settings)
        if settings.data_dir != MEMORY:
            await_leftover(settings.data_dir)
        sockets = _bound(settings, credentials, settings.host, settings.port)
        redis_sockets = _bound_for_redis(settings, credentials)
    except (UnusableCertificate, Exposed, InUse, ValueError) as error:
        raise click.ClickException(str(error)) from None
    take_all_descriptors()  # each connection needs one
    if settings.workers > 1:
        serve_with_workers(settings, credentials, sockets, redis_sockets)
        return
    set_up_logging(settings.log_level, log_requests=settings.log_requests)
    log_prints_of_python()
    gc.disable()  # nothing that was loaded is garbage
    try:
        backend = open_backend(settings, progress_of_gateway())
    except ValueError as error:
        raise click.ClickException(f"--backend {error}") from None
    except (StreamError, OSError) as error:
        raise click.ClickException(f"{settings.data_dir}: {error}") from None

    collector.look_at_the_new_only()  # nor will it be
    gc.enable()

    terminal = Terminal()
    signal.signal(signal.SIGHUP, lambda _, __: _hang_up(terminal))
    on_listening = partial(greet, settings, redis_sockets)
    app = create_app(settings, backend, credentials)
    Server(app, settings, redis_sockets=redis_sockets, on_listening=on_listening).run(sockets)


def _bound(
    settings: Settings, credentials: Credentials, host: str, port: int, flags: str = ""
) -> list[socket.socket]:
    """Return a bound socket for each address; raises Exposed for an open gateway."""
    try:
        addresses = listening.addresses_of(host, port)
        check_addresses(addresses, settings, has_credentials=credentials.are_configured)
        return listening.bind(host, port)
    except OSError as error:
        flags = flags or "--host and --port"
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror}. Set another address with {flags}."
        ) from None


def _bound_for_redis(settings: Settings, credentials: Credentials) -> list[socket.socket]:
    if settings.redis_port is None:
        return []
    host = settings.redis_host or settings.host
    flags = "--redis-host and --redis-port"
    return _bound(settings, credentials, host, settings.redis_port, flags)
