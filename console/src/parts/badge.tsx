/** Badge: a word about a stream, beside its name. */
import { moment } from "../values/times.js";

/** Tell that a stream takes no entries any more; nothing, if it is open. */
export function ClosedBadge({ closedAtMs }: { closedAtMs: number | null }) {
  return closedAtMs === null ? null : (
    <span class="badge" title={`closed at ${moment(closedAtMs)}: the stream rejects new entries`}>
      closed
    </span>
  );
}

/** Tell that a stream is the gateway's own; nothing, if it is not. */
export function OwnBadge({ stream }: { stream: string }) {
  return stream.startsWith("__") ? (
    <span class="badge" title="a stream of the gateway itself: clients cannot change it">
      internal
    </span>
  ) : null;
}
