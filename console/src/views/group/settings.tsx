/** Settings: what a group does by itself, and the end of it. */
import { changePolicy, deleteGroup } from "../../acts/groups.js";
import type { Group } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Facts } from "../../parts/facts.js";
import { count } from "../../values/numbers.js";
import { duration } from "../../values/times.js";
import { streamPlace } from "../../route.js";

interface Props {
  place: { stream: string; group: string };
  group: Group;
}

export function GroupSettings({ place, group }: Props) {
  const { policy } = group;
  const dead = policy.dead_letter_stream;
  return (
    <div class="settings">
      <section>
        <h2>Policy</h2>
        <Facts
          facts={[
            { name: "take over after", value: policy.claim_idle_ms == null ? "never by itself" : `${duration(policy.claim_idle_ms)} idle` },
            { name: "deliveries at most", value: policy.max_deliveries == null ? "any number" : count(policy.max_deliveries) },
            { name: "dead letters go to", value: dead == null ? "nowhere" : <a href={streamPlace(dead)}>{dead}</a> },
            { name: "rest between deliveries", value: policy.backoff_ms?.length ? policy.backoff_ms.map(duration).join(", ") : "none" },
            { name: "unacknowledged at most", value: policy.max_pending == null ? "any number" : `${count(policy.max_pending)} a consumer` },
            { name: "when a connection ends", value: policy.on_disconnect == null ? "as it asks" : policy.on_disconnect },
            { name: "idle consumers go after", value: policy.consumer_ttl_ms == null ? "never" : duration(policy.consumer_ttl_ms) },
          ]}
        />
        <ActButton act={changePolicy(place, policy)} label="Change" />
      </section>
      <section>
        <h2>Delete</h2>
        <p class="soft">Its position and what is pending are forgotten. The stream keeps its entries.</p>
        <ActButton act={deleteGroup(place, group.pending)} label="Delete the group" />
      </section>
    </div>
  );
}
