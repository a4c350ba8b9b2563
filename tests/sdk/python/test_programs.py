"""Programs end when they have nothing more to do, whatever of a client is open."""

import asyncio
import sys
import textwrap

import pytest

import headgate
from tests.api.conftest import Live

END_S_MAX = 60.0
"""On a machine that is busy. A program that hangs never ends."""

BEGIN = """
import asyncio, sys, threading
import headgate
url = sys.argv[1]
"""

BLOCKING = {
    "following": """
        held = hg.stream("s").follow(after="0")
        next(held)
    """,
    "following that waits": """
        held = hg.stream("s").follow(after="0")
        for _ in zip(range(3), held): pass
        waiting = threading.Thread(target=next, args=(held,), daemon=True)
        waiting.start()
    """,
    "consuming": """
        held = hg.group("s", "g").consume()
        next(held)
    """,
    "job": """
        jobs = hg.group("s", "g").consume()
        held = next(jobs)
        held.__enter__()
    """,
    "work": """
        begun = threading.Event()
        work = hg.group("s", "g").work
        options = {"stop": threading.Event()}
        held = threading.Thread(
            target=work, args=(lambda job: begun.set(),), kwargs=options, daemon=True
        )
        held.start()
        begun.wait()
    """,
    "batches": """
        held = hg.stream("s").batches()
        next(held)
    """,
    "scan": """
        held = hg.stream("s").scan(limit=1)
        next(held)
    """,
    "streams": """
        held = hg.streams(limit=1)
        next(held)
    """,
    "groups": """
        held = hg.stream("s").groups(limit=1)
        next(held)
    """,
    "consumers": """
        held = hg.group("s", "g").consumers(limit=1)
        next(held)
    """,
    "reader of a client of its own": """
        def read():
            with headgate.Client(url) as own, own.stream("s").follow(after="0") as entries:
                yield from entries
        held = read()
        next(held)
    """,
    "reader of jobs": """
        def read():
            with hg.group("s", "g").consume() as jobs:
                for job in jobs:
                    with job:
                        yield job
        held = read()
        next(held)
    """,
    "reader of batches": """
        def read():
            with headgate.Client(url) as own, own.stream("s").batches() as batches:
                yield from batches
        held = read()
        next(held)
    """,
    "client that is used as the program ends": """
        import atexit
        held = hg.stream("s")
        atexit.register(held.append, {"n": "3"})
    """,
    "client that is closed twice": """
        held = hg.stream("s").follow(after="0")
        next(held)
        hg.close()
        held.close()
        hg.close()
    """,
}

ASYNCIO = {
    "following": """
        held = hg.stream("s").follow(after="0")
        await anext(held)
    """,
    "following that waits": """
        held = hg.stream("s").follow(after="$")
        waiting = asyncio.create_task(anext(held))
        await hg.ready()
    """,
    "consuming": """
        held = hg.group("s", "g").consume()
        await anext(held)
    """,
    "job": """
        jobs = hg.group("s", "g").consume()
        held = await anext(jobs)
        await held.__aenter__()
    """,
    "work": """
        begun = asyncio.Event()
        async def handle(job):
            begun.set()
            await asyncio.Event().wait()
        held = asyncio.create_task(hg.group("s", "g").work(handle, stop=asyncio.Event()))
        await begun.wait()
    """,
    "batches": """
        held = await hg.stream("s").batches()
        await anext(held)
    """,
    "scan": """
        held = hg.stream("s").scan(limit=1)
        await anext(held)
    """,
    "streams": """
        held = hg.streams(limit=1)
        await anext(held)
    """,
    "groups": """
        held = hg.stream("s").groups(limit=1)
        await anext(held)
    """,
    "consumers": """
        held = hg.group("s", "g").consumers(limit=1)
        await anext(held)
    """,
    "reader of a client of its own": """
        async def read():
            async with headgate.AsyncClient(url) as own:
                async with own.stream("s").follow(after="0") as entries:
                    async for entry in entries:
                        yield entry
        held = read()
        await anext(held)
    """,
    "reader of jobs": """
        async def read():
            async with hg.group("s", "g").consume() as jobs:
                async for job in jobs:
                    async with job:
                        yield job
        held = read()
        await anext(held)
    """,
    "reader of batches": """
        async def read():
            async with headgate.AsyncClient(url) as own:
                async with await own.stream("s").batches() as batches:
                    async for batch in batches:
                        yield batch
        held = read()
        await anext(held)
    """,
}

ENDS = {
    "its end": ("pass", 0, ""),
    "an error": ("raise ValueError('no space')", 1, "ValueError: no space\n"),
    "a code": ("sys.exit(3)", 3, ""),
}


def blocking_program(opening: str, end: str) -> str:
    return f"{BEGIN}hg = headgate.Client(url)\n{textwrap.dedent(opening)}\n{end}\n"


def asyncio_program(opening: str, end: str) -> str:
    main = f"hg = headgate.AsyncClient(url)\n{textwrap.dedent(opening)}\n{end}\n"
    return f"{BEGIN}async def main():\n{textwrap.indent(main, '    ')}\nasyncio.run(main())\n"


PROGRAMS = {
    **{f"blocking: {name}": (blocking_program, opening) for name, opening in BLOCKING.items()},
    **{f"asyncio: {name}": (asyncio_program, opening) for name, opening in ASYNCIO.items()},
}


async def ended(program: str, url: str) -> tuple[int | None, str]:
    """Run a program; returns its exit code, and what it has written to standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, url), stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(END_S_MAX):
            _, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, stderr.decode()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_ends_with_what_is_open(
    name: str, end: str, live: Live, hg: headgate.AsyncClient
) -> None:
    await live.append("s", "0", "1", "2")
    await live.append("t", "0")
    await live.create_group("s", "g")
    await live.create_group("s", "h")
    await live.read_group("s", "h", "me")
    await live.read_group("s", "g", "me", limit=1)
    program, opening = PROGRAMS[name]
    statement, code, last_line = ENDS[end]

    exit_code, stderr = await ended(program(opening, statement), live.url)

    assert exit_code == code, stderr
    if last_line:
        assert stderr.endswith(last_line)
    assert stderr.count("Traceback") == (1 if last_line else 0), stderr
    assert "gnored" not in stderr
