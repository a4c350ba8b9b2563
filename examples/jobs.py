"""A job queue: workers share it, failures come again, and each customer's jobs stay in order.

    make serve                                # in one terminal
    .venv/bin/python examples/jobs.py add 20  # in another: 20 jobs of three customers
    .venv/bin/python examples/jobs.py work    # in as many as you like; Ctrl-C lets one end its jobs
    .venv/bin/python examples/jobs.py retry   # what was given up is tried again

Kill a worker in the middle: another one takes its jobs over. The console shows it.
"""

import argparse
import asyncio
import random

import headgate

POLICY: headgate.Policy = {
    "max_deliveries": 3,  # then a job is a dead letter
    "dead_letter_stream": "jobs.dead",
    "backoff_ms": [500, 2_000],  # waits before the second and the third delivery
    "key_field": "customer",  # one job of a customer at a time, in order
    "claim_idle_ms": 30_000,  # of a worker that says nothing for so long
}


async def add(hg: headgate.AsyncClient, count: int) -> None:
    """Add jobs, each of them once, whatever becomes of the connection."""
    for number in range(count):
        job = {"customer": random.choice(["anna", "bert", "carla"]), "number": str(number)}
        print(await hg.stream("jobs").append(job), *job.values())


async def run(job: headgate.Job) -> None:
    """Do a job. It is acknowledged when this returns, and comes again when this raises."""
    await asyncio.sleep(random.uniform(0.02, 0.1))
    if random.random() < 0.2:
        raise RuntimeError(f"no answer at delivery {job.deliveries}")
    print(job.fields["customer"], job.fields["number"], f"delivery {job.deliveries}", flush=True)


def report(job: headgate.Job, error: Exception) -> None:
    """Print a failure; the gateway keeps it with the job."""
    print(job.fields["customer"], job.fields["number"], f"failed: {error}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("count", type=int)
    commands.add_parser("work")
    commands.add_parser("retry")
    words = parser.parse_args()
    async with headgate.AsyncClient() as hg:
        workers = hg.group("jobs", "workers")
        await workers.create(start="0", policy=POLICY)
        match words.command:
            case "add":
                await add(hg, words.count)
            case "work":
                await workers.work(run, concurrency=4, on_error=report)
            case _:
                print(f"{len(await workers.redrive())} jobs again")


if __name__ == "__main__":
    asyncio.run(main())
