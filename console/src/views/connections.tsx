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
  { title: "By", class: "wide" },
  { title: "Principal", class: "wide" },
  { title: "Follows" },
  { title: "State" },
  { title: "Credit", class: "number wide" },
  { title: "Holds", class: "number wide" },
  { title: "Sent", class: "number wide" },
  { title: "Unsent", class: "number wide" },
  { title: "Open", class: "number wide" },
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
      {problem.value && !data.value && <Refusal problem={problem.value} what="The list of connections" />}
      {data.value && shown.length === 0 && <p class="empty">{all.length ? "No connection is like that." : "Nobody is connected. Whoever follows a stream, over a WebSocket, events or Redis, is listed here."}</p>}
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
    first ? <Followed subscription={first} others={subscription_count - 1} /> : <span class="soft">{transport === "events" ? "the gateway itself" : "nothing"}</span>,
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
    <span title={consumer ? `as ${consumer}` : "sees every entry"}>
      {group ? <a href={groupPlace(stream, group)}>{`${stream} / ${group}`}</a> : <a href={streamPlace(stream)}>{stream}</a>}
      {consumer && <span class="soft"> as {consumer}</span>}
      {others > 0 && <span class="soft"> and {others} more</span>}
    </span>
  );
}

const STATES: Record<string, [text: string, about: string]> = {
  live: ["live", "Entries come."],
  caught_up: ["caught up", "There is no entry that it has not got."],
  credit_exhausted: ["no credit", "The client takes no entry until it gives credit again."],
  paused: ["paused", "Its group delivers nothing until the time in its policy."],
  key_blocked: ["waits for keys", "Its group holds back as many entries as it may, until others with their keys are settled."],
  rate_limited: ["at its rate", "Its group has delivered as many entries as its rate allows for now."],
  max_pending: ["holds too many", "It gets no entry until it settles what it holds."],
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
