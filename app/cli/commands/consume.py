import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Any, Self

import click

from headgate.app.cli.declaration import argument, option
from headgate.app.cli.flags import PATIENT_S, gateway_command
from headgate.app.cli.listing import counted
from headgate.app.cli.words import one_line
from headgate.client.client import AsyncClient
from headgate.client.entries import Delivery, encoded
from headgate.client.group import Worked
from headgate.client.groups import MissingGroups
from headgate.client.job import Job
from headgate.client.problems import NotYours, Problem

_KEPT_BYTES = 4096
"""Of standard error, for the last line."""

_STEPS_BYTES_MAX = 16 * 2**20
"""Of standard output with --commit: as much as a request may have, unless a gateway is told so."""


class Process:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        errors: "_StandardError",
        output: "_StandardOutput | None",
    ) -> None:
        self._process = process
        self._errors = errors
        self._output = output

    @classmethod
    async def start(
        cls, words: Sequence[str], variables: Mapping[str, str], *, keeps_output: bool
    ) -> Self:
        """Start a command with these variables added to the environment that it inherits."""
        errors, output = _StandardError(), _StandardOutput() if keeps_output else None
        pipes = [errors] if output is None else [errors, output]
        try:
            for pipe in pipes:
                await pipe.open()
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=None if output is None else output.write_end,
                stderr=errors.write_end,
                env={**os.environ, **variables},
                process_group=0,  # Ctrl-C is for this process; it lets the others end
            )
        finally:
            for pipe in pipes:
                os.close(pipe.write_end)
        return cls(process, errors, output)

    async def finish(self, data: bytes) -> int:
        await self._process.communicate(data)
        self._errors.drain()
        if self._output is not None:
            self._output.drain()
        assert self._process.returncode is not None
        return self._process.returncode

    @property
    def output(self) -> bytes:
        """Return its standard output if it is kept, up to a bound; call it after the end."""
        return b"" if self._output is None else bytes(self._output.begin)

    @property
    def last_line(self) -> str:
        """Return the last line of its standard error that is not blank; call it after the end."""
        return self._errors.end.decode(errors="replace").rstrip().rpartition("\n")[2].strip()

    def terminate(self) -> None:
        self._process.terminate()


class _Pipe(asyncio.Protocol):
    """A pipe of our own: asyncio does not consider a process ended before its pipes are closed.

    A background process may keep them open.
    """

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._pipe = FileIO(read_end)

    async def open(self) -> None:
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, self._pipe)

    def drain(self) -> None:
        while not self._pipe.closed and (data := self._pipe.read(_KEPT_BYTES)):
            self.data_received(data)


class _StandardError(_Pipe):
    def __init__(self) -> None:
        super().__init__()
        self.end = b""

    def data_received(self, data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
        self.end = (self.end + data)[-_KEPT_BYTES:]


class _StandardOutput(_Pipe):
    def __init__(self) -> None:
        super().__init__()
        self.begin = bytearray()

    def data_received(self, data: bytes) -> None:
        self.begin += data[: _STEPS_BYTES_MAX + 1 - len(self.begin)]


@gateway_command(
    "consume",
    is_stopped=True,
    retry_s=PATIENT_S,
    short_help="Run a command for each entry of a group.",
)
async def consume_command(
    gateway: AsyncClient,
    stream: str,
    group: str,
    as_json: bool,
    words: tuple[str, ...] = argument(click.STRING, required=False, metavar="-- COMMAND…"),
    concurrency: int = option(
        "Maximum number of concurrent commands.", click.IntRange(1, 1_000), default=1
    ),
    consumer: str | None = option("Name of the consumer. Default: the gateway makes one."),
    claim_idle_ms: int | None = option(
        "Take over entries of other consumers that were idle for this long, such as 1m. Default: "
        "the policy of the group."
    ),
    limit: int | None = option("Stop after this many entries.", click.IntRange(min=1)),
    match: str | None = option(
        "Instead of STREAM: read all streams whose names match this pattern, such as orders.*."
    ),
    start: str | None = option(
        "With --match: create missing groups. 0 reads all entries, $ only new ones."
    ),
    commit: bool = option(
        "Commit the steps that COMMAND prints, one per line, with the acknowledgement."
    ),
) -> None:
    """Process the entries of a group: run COMMAND for each entry.

    COMMAND reads the fields of the entry as one line of JSON from standard input. If it exits with
    0, the entry is acknowledged. Otherwise the entry has failed, and the group redelivers it
    according to its policy. The error of the entry is the exit code and the last line of the
    command's standard error.

    COMMAND has these environment variables: ENTRY_ID, ENTRY_DELIVERIES (the delivery count),
    ENTRY_ERROR (the last error of an entry that failed before) and ENTRY_BASE64 (a list of the
    fields whose values are not UTF-8).

        headgate consume orders billing --concurrency 4 -- ./charge.sh
        headgate consume orders billing -- jq -c .sku

    With --commit, each line of the command's standard output is a step of a commit, as JSON. If the
    command exits with 0, the gateway applies the steps and the acknowledgement together or not at
    all. If another consumer holds the entry by then, it applies none of them. If a line is not a
    valid step, the entry has failed.

        headgate consume orders billing --commit -- ./bill.sh
        {"append": {"stream": "bills", "entries": [{"fields": {"sku": "42"}}]}}

    With --match, the command reads the group of that name in all matching streams, including
    streams created later. Streams take turns. ENTRY_STREAM is the stream of the entry.

        headgate consume --match 'orders.*' --start 0 billing -- ./charge.sh

    The command ends when the stream is closed and all of its entries are processed. After SIGTERM
    or Ctrl-C, it takes no more entries and waits for the running commands. A second signal
    terminates them.
    """
    if match is not None:  # no stream was given: what stands in its place is the group
        words = (group, *words)
        create: MissingGroups | None = None if start is None else {"start": start}
        worked: Worked = gateway.groups(stream, match=match, create=create)
    else:
        if start is not None:
            raise click.UsageError("--start requires --match.")
        worked = gateway.group(stream, group)
    if not words:
        raise click.UsageError("Missing argument '-- COMMAND…'.")
    if shutil.which(words[0]) is None:
        raise click.ClickException(f"command not found: {words[0]!r}")
    runs = _Runs(words, limit=limit, as_json=as_json, commits=commit)
    runs.stop_at_signals()
    await worked.work(
        runs.handle,
        concurrency=concurrency if limit is None else min(concurrency, limit),
        consumer=consumer,
        credit=concurrency,
        claim_idle_ms=claim_idle_ms,
        on_error=runs.report,
        stop=runs.stop,
    )


class _Failed(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"exit {code}" if code >= 0 else signal.Signals(-code).name)
        self.code = code if code >= 0 else 128 - code


class _NoStep(Exception):
    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number} of the output: {why}")


class _Runs:
    def __init__(
        self, words: tuple[str, ...], *, limit: int | None, as_json: bool, commits: bool
    ) -> None:
        self.stop = asyncio.Event()
        self._commits = commits
        self._words = words
        self._left = limit
        self._as_json = as_json
        self._processes: set[Process] = set()

    def stop_at_signals(self) -> None:
        """Take no more entries at the first signal, and terminate what runs at the second."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)

    async def handle(self, job: Job) -> None:
        """Run the command for an entry. Raises _Failed unless it exits with 0.

        With steps, raises _NoStep and what `Job.commit` raises.
        """
        if self._left is not None:
            if not self._left:  # it came in the moment in which the others reached the limit
                job.nack(mode="silent")
                return
            self._left -= 1
            if not self._left:
                self.stop.set()
        entry = job.delivery
        body = encoded(entry.fields)
        variables = _variables(entry, body)
        process = await Process.start(self._words, variables, keeps_output=self._commits)
        self._processes.add(process)
        try:
            line = json.dumps(body["fields"], ensure_ascii=False)
            code = await process.finish(f"{line}\n".encode())
        finally:
            self._processes.discard(process)
        if code:
            failure, last_line = _Failed(code), process.last_line
            job.nack(f"{failure}: {last_line}" if last_line else str(failure))
            raise failure
        if self._commits:
            try:
                await _commit(job, process.output)
            except _NoStep as no_step:
                job.nack(str(no_step))
                raise

    def report(self, job: Job, error: Exception) -> None:
        why = error.detail if isinstance(error, Problem) else str(error)
        if self._as_json:
            code = error.code if isinstance(error, _Failed) else None
            facts = {"id": job.id, "deliveries": job.deliveries, "exit": code}
            text = json.dumps(facts if code is not None else {**facts, "why": why})
        else:
            what = "lost" if isinstance(error, NotYours) else "failed"
            text = f"{job.id} {what}: {one_line(why)} (delivery {job.deliveries})"
        click.echo(text, err=True)

    def _signalled(self) -> None:
        if self.stop.is_set():
            for process in self._processes:
                process.terminate()
        elif self._processes and sys.stderr.isatty():
            text = f"Waiting for {counted(len(self._processes), 'command')} to end."
            click.echo(f"{text} Press Ctrl-C again to terminate them.", err=True)
        self.stop.set()


async def _commit(job: Job, output: bytes) -> None:
    """Commit the steps that a command has printed, with the acknowledgement of its entry."""
    lines = [(at, line) for at, line in enumerate(output.split(b"\n"), 1) if line.strip()]
    if len(output) > _STEPS_BYTES_MAX:
        raise _NoStep(lines[-1][0], f"more than {_STEPS_BYTES_MAX} bytes")
    steps = [_step(at, line) for at, line in lines]
    try:
        await job.commit(*steps)
    except NotYours:
        raise
    except Problem as problem:
        if problem.step is None or problem.step >= len(lines):
            raise
        raise _NoStep(lines[problem.step][0], problem.detail) from None


def _step(number: int, line: bytes) -> dict[str, Any]:
    try:
        step = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _NoStep(number, f"not valid JSON: {error}") from None
    if not isinstance(step, dict):
        raise _NoStep(number, "a step must be a JSON object")
    return step


def _variables(entry: Delivery, body: dict[str, Any]) -> dict[str, str]:
    variables = {"ENTRY_ID": entry.id, "ENTRY_DELIVERIES": str(entry.deliveries)}
    if entry.stream is not None:
        variables["ENTRY_STREAM"] = entry.stream
    if entry.last_error is not None:
        variables["ENTRY_ERROR"] = entry.last_error.replace("\0", "")
    if "base64" in body:
        variables["ENTRY_BASE64"] = json.dumps(body["base64"])
    return variables
