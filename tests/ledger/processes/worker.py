"""Worker: one life of it in a process of its own, `bank w0 life0 FOLDER URL…`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from random import Random

import msgspec

from tests.ledger.bank import Event, Teller
from tests.ledger.processes.rest import RestClient
from tests.ledger.stages import STAGES, Operator

PAUSES_SHARE, PAUSE_S_MAX = 0.1, 0.02


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", help="bank, or the number of a stage")
    parser.add_argument("name", help="of the consumer")
    parser.add_argument("life", help="which nobody else has")
    parser.add_argument("folder", type=Path, help="of the logs")
    parser.add_argument("urls", nargs="+", help="of the gateways")
    options = parser.parse_args()
    chance = Random(options.life)

    async def pause() -> None:
        if chance.random() < PAUSES_SHARE:
            await asyncio.sleep(chance.random() * PAUSE_S_MAX)

    # Each line is with the system before the next step: a kill takes none.
    log = (options.folder / options.life).open("w", buffering=1)
    async with RestClient(options.urls, chance) as client:
        with log:
            if options.work == "bank":

                def note(event: Event) -> None:
                    log.write(msgspec.json.encode(event).decode() + "\n")

                await Teller(client, options.name, options.life, note, pause).run()
            stage = STAGES[int(options.work)]
            await Operator(client, options.name, options.life, stage, pause).run()


if __name__ == "__main__":
    asyncio.run(main())
