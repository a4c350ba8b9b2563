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

ONE_ITEM = "held = {}\nawait anext(held)"
FOLLOWED = 'hg.stream("s").follow(after="0")'
READER = """
async def read():
    {}
        async for item in items:
            {}
held = read()
await anext(held)
"""
OWN = "async with headgate.AsyncClient(url) as own, "
OPENINGS = {
    "following": ONE_ITEM.format(FOLLOWED),
    "consuming": ONE_ITEM.format('hg.group("s", "g").consume()'),
    "batches": ONE_ITEM.format('await hg.stream("s").batches()'),
    "scan": ONE_ITEM.format('hg.stream("s").scan(limit=1)'),
    "streams": ONE_ITEM.format("hg.streams(limit=1)"),
    "groups": ONE_ITEM.format('hg.stream("s").groups(limit=1)'),
    "consumers": ONE_ITEM.format('hg.group("s", "g").consumers(limit=1)'),
    "job": """
        jobs = hg.group("s", "g").consume()
        held = await anext(jobs)
        await held.__aenter__()
    """,
    "reader of a client of its own": READER.format(
        f'{OWN}own.stream("s").follow(after="0") as items:', "yield item"
    ),
    "reader of batches": READER.format(
        f'{OWN}await own.stream("s").batches() as items:', "yield item"
    ),
    "reader of jobs": READER.format(
        'async with hg.group("s", "g").consume() as items:', "async with item: yield item"
    ),
}
"""With asyncio; those without are the same without its words."""
BLOCKING = {
    "following that waits": """
        held = hg.stream("s").follow(after="0")
        for _ in zip(range(3), held): pass
        waiting = threading.Thread(target=next, args=(held,), daemon=True)
        waiting.start()
    """,
    "work": """
        begun = threading.Event()
        work, options = hg.group("s", "g").work, {"stop": threading.Event()}
        handle = lambda job: begun.set()
        held = threading.Thread(target=work, args=(handle,), kwargs=options, daemon=True)
        held.start()
        begun.wait()
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
    "following that waits": """
        held = hg.stream("s").follow(after="$")
        waiting = asyncio.create_task(anext(held))
        await hg.ready()
    """,
    "work": """
        begun = asyncio.Event()
        async def handle(job):
            begun.set()
            await asyncio.Event().wait()
        held = asyncio.create_task(hg.group("s", "g").work(handle, stop=asyncio.Event()))
        await begun.wait()
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


def without_asyncio(opening: str) -> str:
    plain = opening.replace("AsyncClient", "Client").replace("__aenter__", "__enter__")
    return plain.replace("anext(", "next(").replace("async ", "").replace("await ", "")


PROGRAMS = {
    **{f"asyncio: {name}": code for name, code in (OPENINGS | ASYNCIO).items()},
    **{f"blocking: {name}": without_asyncio(code) for name, code in OPENINGS.items()},
    **{f"blocking: {name}": code for name, code in BLOCKING.items()},
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
    program = asyncio_program if name.startswith("asyncio") else blocking_program
    statement, code, last_line = ENDS[end]

    exit_code, stderr = await ended(program(PROGRAMS[name], statement), live.url)

    assert exit_code == code, stderr
    if last_line:
        assert stderr.endswith(last_line)
    assert stderr.count("Traceback") == (1 if last_line else 0), stderr
    assert "gnored" not in stderr
