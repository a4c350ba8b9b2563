"""`python -m tests.simulation --seed 7 --trace`: replay a seed; `--seeds 0-999`: run many."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.simulation.lives import LIVES_MAX, Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="the one to run")
    which.add_argument("--seeds", help="those to run: FIRST-LAST")
    parser.add_argument("--lives", type=int, default=LIVES_MAX, help="starts of the engine")
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--keep-going", action="store_true", help="do not end with a failure")
    options = parser.parse_args()
    first, _, last = (options.seeds or str(options.seed)).partition("-")
    began_s, failed, seed = time.perf_counter(), 0, int(first)
    for seed in range(int(first), int(last or first) + 1):
        try:
            Simulation(seed, options.lives, print if options.trace else None).run()
        except Exception as error:  # noqa: BLE001  whatever it is, it is the seed's result
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
            if not options.keep_going:
                traceback.print_exc()
                break
    count = seed - int(first) + 1
    print(f"{count} seeds, {failed} failed")
    print(f"{time.perf_counter() - began_s:.1f} s", file=sys.stderr)  # a trace says no real time
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
