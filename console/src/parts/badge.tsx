/** Badge: a word about a stream, beside its name. */
import { moment } from "../values/times.js";

/** Tell that a stream takes no entries any more; nothing, if it is open. */
export function ClosedBadge({ closedAtMs }: { closedAtMs: number | null }) {
  return closedAtMs === null ? null : (
    <span class="badge" title={`takes no entries since ${moment(closedAtMs)}`}>
      closed
    </span>
  );
}

/** Tell that a stream is the gateway's own; nothing, if it is not. */
export function OwnBadge({ stream }: { stream: string }) {
  return /^__push(:|$)/.test(stream) ? (
    <span class="badge" title="the gateway keeps a push and its last answers in it">
      internal
    </span>
  ) : null;
}
