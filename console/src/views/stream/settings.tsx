/** Settings: what a stream keeps, and the end of it. */
import { closeStream, configureStream, deleteStream } from "../../acts/streams.js";
import type { Stream } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Facts } from "../../parts/facts.js";
import { CONFIG, factsOf } from "../../parts/settings.js";
import { count } from "../../values/numbers.js";
import { moment } from "../../values/times.js";

export function StreamSettings({ detail }: { detail: Stream }) {
  const { name, config } = detail;
  return (
    <div class="settings">
      <section>
        <h2>Kept</h2>
        <Facts facts={factsOf(CONFIG, config)} />
        <ActButton act={configureStream(name, config)} label="Change" />
      </section>
      <section>
        <h2>Identity</h2>
        <Facts
          facts={[
            { name: "epoch", value: <code>{detail.epoch}</code>, title: "A later life of the name has a greater one" },
            { name: "entries ever added", value: count(detail.entries_added) },
            { name: "greatest id deleted", value: <code>{detail.max_deleted_id}</code> },
          ]}
        />
      </section>
      <section>
        <h2>Close</h2>
        {detail.closed_at_ms === null ? (
          <>
            <p class="soft">A closed stream takes no entries any more. Whoever follows it is told once everything has come.</p>
            <ActButton act={closeStream(name)} label="Close…" />
          </>
        ) : (
          <Facts facts={[{ name: "closed", value: moment(detail.closed_at_ms), title: "Since then it takes no entries" }]} />
        )}
      </section>
      <section>
        <h2>Delete</h2>
        <p class="soft">The stream goes with its entries and groups. Nobody can bring it back.</p>
        <ActButton act={deleteStream(name, detail.length, detail.groups)} label="Delete the stream" />
      </section>
    </div>
  );
}
