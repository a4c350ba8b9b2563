/** Entry panel: everything about an entry. */
import type { Entry } from "../../gateway/shapes.js";
import { appendEntry, deleteEntry } from "../../acts/streams.js";
import { ActButton } from "../../parts/act.js";
import { CopyButton } from "../../parts/copy.js";
import { FieldsList } from "../../parts/fields-list.js";
import type { Pairs } from "../../parts/form.js";
import { groupPlace } from "../../route.js";
import { originOf, pairsOf, payloadOf } from "../../values/fields.js";
import { timeOf } from "../../values/ids.js";
import { counted } from "../../values/numbers.js";
import { age, distance, exactMoment, moment } from "../../values/times.js";
import { Steps } from "./steps.js";

interface Props {
  stream: string;
  entry: Entry;
  onClose: () => void;
  onDeleted: (id: string) => void;
}

export function EntryPanel({ stream, entry, onClose, onDeleted }: Props) {
  const origin = originOf(entry);
  const pairs = origin ? payloadOf(entry) : pairsOf(entry);
  const template = pairs.map(([name, value]) => [name, value]) as Pairs;
  const ms = timeOf(entry.id);
  return (
    <aside class="panel" aria-label={`Entry ${entry.id}`}>
      <header>
        <h2 class="mono">{entry.id}</h2>
        <button type="button" class="icon" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      <p class="soft">
        {exactMoment(ms)}, {age(ms)} {Date.now() - ms < 1000 ? "" : "ago"}
      </p>
      {entry.deliver_at_ms != null && <Time name="Due" ms={entry.deliver_at_ms} title="Groups do not deliver the entry before this time" />}
      {entry.expires_at_ms != null && <Time name="Expires" ms={entry.expires_at_ms} title="Groups do not deliver the entry from this time on" />}
      {origin && (
        <p class="origin">
          Dead letter of <a href={groupPlace(origin.stream, origin.group, "dead-letters")}>{`${origin.stream} / ${origin.group}`}</a>: {origin.reason}
          {origin.deliveries !== "–" && ` after ${counted(Number(origin.deliveries), "delivery", "deliveries")}`}. Original id: <code>{origin.id}</code>
        </p>
      )}
      <FieldsList entry={entry} pairs={pairs} />
      <Steps stream={stream} entryId={entry.id} />
      <footer class="acts">
        <CopyButton text={JSON.stringify(Object.fromEntries(pairs), null, 2)} label="Copy JSON" />
        <ActButton act={appendEntry(stream, template)} label="Append a copy" class="small" />
        <ActButton act={deleteEntry(stream, entry.id, () => onDeleted(entry.id))} label="Delete" class="small" />
      </footer>
    </aside>
  );
}

function Time({ name, ms, title }: { name: string; ms: number; title: string }) {
  return (
    <p class="soft" title={title}>
      {name} {moment(ms)}, {distance(ms)}
    </p>
  );
}
