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
        <h2>Configuration</h2>
        <Facts facts={factsOf(CONFIG, config)} />
        <ActButton act={configureStream(name, config)} label="Change" />
      </section>
      <section>
        <h2>Identity</h2>
        <Facts
          facts={[
            { name: "epoch", value: <code>{detail.epoch}</code>, title: "Increases when the stream is deleted and created again" },
            { name: "entries added", value: count(detail.entries_added) },
            { name: "max deleted id", value: <code>{detail.max_deleted_id}</code> },
          ]}
        />
      </section>
      <section>
        <h2>Close</h2>
        {detail.closed_at_ms === null ? (
          <>
            <p class="soft">A closed stream rejects new entries. Readers are told when they have received all entries.</p>
            <ActButton act={closeStream(name)} label="Close…" />
          </>
        ) : (
          <Facts facts={[{ name: "closed", value: moment(detail.closed_at_ms), title: "The stream rejects new entries since this time" }]} />
        )}
      </section>
      <section>
        <h2>Delete</h2>
        <p class="soft">Deletes the stream with its entries and groups. You cannot undo this.</p>
        <ActButton act={deleteStream(name, detail.length, detail.groups)} label="Delete the stream" />
      </section>
    </div>
  );
}
