/** Backoff: how long to wait before the next attempt, never exactly, so that clients do not come all at once. */

const FIRST_MS = 500;
const MS_MAX = 30_000;

/** Return the pause before an attempt, the first being 0; chance is from 0 to 1. */
export function backoffMs(attempt: number, chance = Math.random()): number {
  return Math.min(MS_MAX, FIRST_MS * 2 ** attempt) * (0.5 + chance);
}

/** Return after so long, or at once when the signal says that nobody waits any more. */
export function waited(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}
