/** Settings: what a group does by itself, and the end of it. */
import { changePolicy, deleteGroup } from "../../acts/groups.js";
import type { Group } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Facts } from "../../parts/facts.js";
import { factsOf, POLICY } from "../../parts/settings.js";

interface Props {
  place: { stream: string; group: string };
  group: Group;
}

export function GroupSettings({ place, group }: Props) {
  const { policy } = group;
  return (
    <div class="settings">
      <section>
        <h2>Policy</h2>
        <Facts facts={factsOf(POLICY, policy)} />
        <ActButton act={changePolicy(place, policy)} label="Change" />
      </section>
      <section>
        <h2>Delete</h2>
        <p class="soft">Deletes the position and the pending entries of the group. The stream keeps its entries.</p>
        <ActButton act={deleteGroup(place, group.pending)} label="Delete the group" />
      </section>
    </div>
  );
}
