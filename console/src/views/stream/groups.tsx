/** Groups: of a stream, with how far behind each is. */
import { createGroup } from "../../acts/groups.js";
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import type { Group } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Grid } from "../../parts/grid.js";
import { Refusal } from "../../parts/refusal.js";
import { go, groupPlace } from "../../route.js";
import { count } from "../../values/numbers.js";

const EVERY_MS = 2000;
const COLUMNS = [
  { title: "Group" },
  { title: "Lag", class: "number" },
  { title: "Pending", class: "number" },
  { title: "Released", class: "number wide" },
  { title: "Consumers", class: "number wide" },
  { title: "Position", class: "mono soft wide" },
];

export function Groups({ stream }: { stream: string }) {
  const { data, problem } = usePolled((signal) => allGroups(stream, signal), EVERY_MS, stream);
  const groups = data.value;
  return (
    <>
      <div class="tools">
        <span class="push">
          <ActButton act={createGroup(stream)} label="Create a group" />
        </span>
      </div>
      {problem.value && <Refusal problem={problem.value} what="groups" />}
      {groups?.length === 0 && <p class="empty">No groups. Every client that follows this stream receives all entries. Create a group to share the entries among consumers.</p>}
      {groups && groups.length > 0 && (
        <Grid
          label="Groups"
          class="groups"
          columns={COLUMNS}
          rows={groups}
          keyOf={(group) => group.name}
          onOpen={(group) => go(groupPlace(stream, group.name))}
          cells={(group) => [
            <a href={groupPlace(stream, group.name)} tabIndex={-1}>
              {group.name}
            </a>,
            <span class={group.lag ? "warn" : "soft"}>{count(group.lag)}</span>,
            <span class={group.pending ? "" : "soft"}>{count(group.pending)}</span>,
            <span class={group.released ? "" : "soft"}>{count(group.released)}</span>,
            count(group.consumers),
            group.last_id,
          ]}
        />
      )}
    </>
  );
}

async function allGroups(stream: string, signal: AbortSignal): Promise<Group[]> {
  const groups: Group[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = cursor === undefined ? {} : { cursor };
    const page = await send(call("get", "/v1/streams/{stream}/groups", { params: { path: { stream }, query } }), signal);
    groups.push(...page.groups);
    cursor = page.next_cursor ?? null;
  }
  return groups;
}
