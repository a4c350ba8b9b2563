"""An audit log: each act is appended once, kept for good in a lake, and asked with SQL.

    make serve                                                      # in one terminal
    .venv/bin/python examples/audit.py note anna deleted invoice-7  # in another
    headgate-pipeline archive --streams audit --lake audit-lake     # from cron, say
    .venv/bin/python examples/audit.py ask audit-lake anna

The stream keeps a month; what is older is in the lake alone: `pip install -e '.[lake]' duckdb`.
"""

import argparse
import asyncio
import getpass
import socket

import headgate

KEPT_MS = 30 * 86_400_000


async def note(who: str, did: str, what: str) -> None:
    """Append an entry. It is on the disk of the gateway when this returns."""
    async with headgate.AsyncClient() as hg:
        log = hg.stream("audit")
        await log.create({"max_age_ms": KEPT_MS})
        via = f"{getpass.getuser()}@{socket.gethostname()}"
        print(await log.append({"who": who, "did": did, "what": what, "via": via}))


def ask(lake: str, who: str) -> None:
    """Print the acts of a user, the newest first."""
    import duckdb  # noqa: PLC0415 only who asks needs it

    database = duckdb.connect()
    database.register("log", headgate.read_lake(lake, "audit"))
    query = "SELECT _time, did, what, via FROM log WHERE who = $who ORDER BY _id DESC"
    print(database.sql(query, params={"who": who}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    noting = commands.add_parser("note")
    for name in ("who", "did", "what"):
        noting.add_argument(name)
    asking = commands.add_parser("ask")
    asking.add_argument("lake")
    asking.add_argument("who")
    words = vars(parser.parse_args())
    if words.pop("command") == "note":
        asyncio.run(note(**words))
    else:
        ask(**words)


if __name__ == "__main__":
    main()
