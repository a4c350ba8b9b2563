/** Backoff: the pause before the next attempt, with random variation so that clients do not all reconnect at once. */

const FIRST_MS = 500;
const MS_MAX = 30_000;

/** Returns the pause before an attempt. `attempt` counts from 0, and `chance` is from 0 to 1. */
export function backoffMs(attempt: number, chance = Math.random()): number {
  return Math.min(MS_MAX, FIRST_MS * 2 ** attempt) * (0.5 + chance);
}

/** Resolves after a time, or at once when the signal is aborted. */
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
