/** Forecast: whether a group drains or falls behind, and when it will have caught up. */

export type Forecast =
  | { state: "unknown" }
  | { state: "caught up" }
  | { state: "draining"; perSecond: number; emptyInMs: number }
  | { state: "steady"; lag: number }
  | { state: "growing"; perSecond: number };

const WINDOW_MS = 90_000;
const POINTS_MIN = 5;
const NOISE = 0.02; // of the lag, over the window: less is no trend
const LAST = 5; // points in which a lag of nothing means that the group keeps up
const SAMPLES_MAX = 60; // slopes are compared pair by pair

/**
 * Return where a lag is going.
 * The trend is the median of the slopes between all pairs of points, which a burst or a pause does not bend.
 */
export function forecast(timesMs: readonly number[], lags: readonly (number | null)[]): Forecast {
  const points = latest(timesMs, lags);
  const last = points.at(-1);
  if (!last) return { state: "unknown" };
  if (points.slice(-LAST).some(({ lag }) => lag === 0)) return { state: "caught up" };
  if (points.length < POINTS_MIN) return { state: "unknown" };
  const slope = medianSlope(points);
  const spanMs = last.ms - points[0]!.ms;
  if (Math.abs(slope) * spanMs <= Math.max(1, NOISE * last.lag)) return { state: "steady", lag: last.lag };
  if (slope > 0) return { state: "growing", perSecond: slope * 1000 };
  return { state: "draining", perSecond: -slope * 1000, emptyInMs: last.lag / -slope };
}

interface Point {
  ms: number;
  lag: number;
}

/** Return the points of the window, thinned out evenly, the last one among them. */
function latest(timesMs: readonly number[], lags: readonly (number | null)[]): Point[] {
  const known = timesMs.flatMap((ms, at) => (lags[at] == null ? [] : [{ ms, lag: lags[at] }]));
  const from = (known.at(-1)?.ms ?? 0) - WINDOW_MS;
  const inWindow = known.filter(({ ms }) => ms >= from);
  const every = Math.ceil(inWindow.length / SAMPLES_MAX);
  return inWindow.filter((_, at) => (inWindow.length - 1 - at) % every === 0);
}

function medianSlope(points: Point[]): number {
  const slopes = points.flatMap((a, at) => points.slice(at + 1).map((b) => (b.lag - a.lag) / (b.ms - a.ms)));
  slopes.sort((a, b) => a - b);
  const middle = slopes.length >> 1;
  return slopes.length % 2 ? slopes[middle]! : (slopes[middle - 1]! + slopes[middle]!) / 2;
}
