/** Connections: who follows what, and how they keep up. */
import { useRef } from "preact/hooks";
import { cutOff } from "../acts/connections.js";
import { call, send } from "../gateway/calls.js";
import { usePolled } from "../gateway/polling.js";
import type { Connection, Subscription } from "../gateway/shapes.js";
import { ActButton } from "../parts/act.js";
import { useAddressed } from "../parts/addressed.js";
import { Grid } from "../parts/grid.js";
import { useKeys } from "../parts/keys.js";
import { Refusal } from "../parts/refusal.js";
import { Search } from "../parts/search.js";
import { groupPlace, streamPlace } from "../route.js";
import { bytes, count, counted } from "../values/numbers.js";
import { age, moment } from "../values/times.js";

const EVERY_MS = 2000;
const LISTED = 1000;
const COLUMNS = [
  { title: "Client", class: "mono" },
  { title: "Transport", class: "wide" },
  { title: "Principal", class: "wide" },
  { title: "Follows" },
  { title: "State" },
  { title: "Credit", class: "number wide" },
  { title: "Pending", class: "number wide" },
  { title: "Sent", class: "number wide" },
  { title: "Buffered", class: "number wide" },
  { title: "Age", class: "number wide" },
  { title: "", class: "acts" },
];

export function Connections() {
  const request = call("get", "/v1/admin/connections", { params: { query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, "");
  const words = useAddressed("find", "");
  const field = useRef<HTMLInputElement>(null);
  useKeys([{ key: "/", does: "search connections", run: () => field.current?.focus() }]);
  const all = data.value?.connections ?? [];
  const shown = all.filter((connection) => searched(connection).includes(words.value));
  return (
    <section aria-label="Connections">
      <header class="section">
        <h1>Connections</h1>
        <span class="soft">{data.value && (data.value.next_cursor ? `first ${count(all.length)}` : count(all.length))}</span>
        <Search label="Client, principal, stream or group" value={words} field={field} />
      </header>
      {problem.value && !data.value && <Refusal problem={problem.value} what="connections" />}
      {data.value && shown.length === 0 && <p class="empty">{all.length ? "No results." : "No connections. Clients that follow a stream over WebSocket, server-sent events or the Redis port are listed here."}</p>}
      {shown.length > 0 && (
        <Grid label="Connections" class="connections" columns={COLUMNS} rows={shown} keyOf={({ id }) => id} cells={cellsOf} />
      )}
      {shown.length > 0 && <p class="soft end">{counted(shown.reduce((sum, connection) => sum + connection.subscription_count, 0), "subscription")}</p>}
    </section>
  );
}

function searched({ client, principal, transport, subscriptions }: Connection): string {
  return [client, principal, transport, ...subscriptions.flatMap(({ stream, group, consumer }) => [stream, group, consumer])].join(" ");
}

function cellsOf(connection: Connection) {
  const { client, transport, principal, since_ms, subscriptions, subscription_count, sent_entries, outbox_bytes } = connection;
  const [first] = subscriptions;
  return [
    client,
    transport,
    principal,
    first ? <Followed subscription={first} others={subscription_count - 1} /> : <span class="soft">{transport === "events" ? "gateway measurements" : "no subscription"}</span>,
    first && <State name={first.state} />,
    count(total(subscriptions, "credit")),
    count(total(subscriptions, "held")),
    count(sent_entries),
    <span class={outbox_bytes > 2 ** 20 ? "warn" : ""}>{bytes(outbox_bytes)}</span>,
    <time title={moment(since_ms)}>{age(since_ms)}</time>,
    <ActButton act={cutOff(connection)} class="small" />,
  ];
}

function Followed({ subscription: { stream, group, consumer }, others }: { subscription: Subscription; others: number }) {
  return (
    <span title={consumer ? `as ${consumer}` : "receives every entry"}>
      {group ? <a href={groupPlace(stream, group)}>{`${stream} / ${group}`}</a> : <a href={streamPlace(stream)}>{stream}</a>}
      {consumer && <span class="soft"> as {consumer}</span>}
      {others > 0 && <span class="soft"> and {others} more</span>}
    </span>
  );
}

const STATES: Record<string, [text: string, about: string]> = {
  live: ["live", "The client receives new entries."],
  caught_up: ["caught up", "The client has received all entries."],
  credit_exhausted: ["no credit", "The client receives no entries until it grants more credit."],
  paused: ["paused", "The policy of the group pauses delivery."],
  key_blocked: ["key limit", "The group holds back its maximum of entries until earlier entries of their keys are settled."],
  rate_limited: ["rate limit", "The group has reached its rate limit."],
  max_pending: ["max pending", "The consumer receives no entries until it settles pending entries."],
};

function State({ name }: { name: string }) {
  const [text, about] = STATES[name] ?? [name, ""];
  return (
    <span class={name === "live" || name === "caught_up" ? "good" : "warn"} title={about}>
      {text}
    </span>
  );
}

/** Return a sum, or null where it is said nowhere. */
function total(subscriptions: Subscription[], name: "credit" | "held"): number | null {
  const known = subscriptions.flatMap((subscription) => subscription[name] ?? []);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}
