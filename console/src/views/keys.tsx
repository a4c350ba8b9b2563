/** Keys: who has one, what it allows, and whether it is used. */
import { useRef } from "preact/hooks";
import { createKey, createTicket, revokeKey, rotateKey } from "../acts/keys.js";
import { call, send } from "../gateway/calls.js";
import { key as ownKey } from "../gateway/key.js";
import { usePolled } from "../gateway/polling.js";
import { principal } from "../gateway/principal.js";
import type { ApiKey } from "../gateway/shapes.js";
import { ActButton } from "../parts/act.js";
import { useAddressed } from "../parts/addressed.js";
import { Grid } from "../parts/grid.js";
import { useKeys } from "../parts/keys.js";
import { Refusal } from "../parts/refusal.js";
import { Search } from "../parts/search.js";
import { idOf, wordsOf } from "../values/grants.js";
import { count } from "../values/numbers.js";
import { distance, moment } from "../values/times.js";

const EVERY_MS = 5000;
const LISTED = 1000;
const STATES: ApiKey["state"][] = ["active", "expired", "revoked"];
const FIRST = "No keys. The gateway accepts every request from this machine, and none from other machines. From the first key on, every request needs a key.";
const COLUMNS = [
  { title: "Name" },
  { title: "Id", class: "mono" },
  { title: "Rights", class: "rights" },
  { title: "State" },
  { title: "Created", class: "wide" },
  { title: "Expires", class: "wide" },
  { title: "Last use", class: "wide" },
  { title: "", class: "acts" },
];

export function Keys() {
  const request = call("get", "/v1/keys", { params: { query: { limit: LISTED } } });
  const { data, problem } = usePolled((signal) => send(request, signal), EVERY_MS, "");
  const words = useAddressed("find", "");
  const field = useRef<HTMLInputElement>(null);
  useKeys([{ key: "/", does: "search keys", run: () => field.current?.focus() }]);
  const all = (data.value?.keys ?? []).toSorted((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || b.created_at_ms - a.created_at_ms);
  const isFirst = principal.value?.anonymous === true && data.value?.keys.length === 0;
  const shown = all.filter((key) => [key.name, key.id, key.state, ...key.grants.map(wordsOf)].join(" ").includes(words.value));
  return (
    <section aria-label="Keys">
      <header class="section">
        <h1>Keys</h1>
        <span class="soft">{data.value && (data.value.next_cursor ? `first ${count(all.length)}` : count(all.length))}</span>
        <Search label="Name, id or right" value={words} field={field} />
        <ActButton act={createTicket()} label="Create a ticket" />
        <ActButton act={createKey(isFirst)} label="Create a key" />
      </header>
      {problem.value && !data.value && <Refusal problem={problem.value} what="keys" />}
      {data.value && shown.length === 0 && <p class="empty">{all.length ? "No results." : isFirst ? FIRST : "No keys. A key gives a program the rights that it needs."}</p>}
      {shown.length > 0 && <Grid label="Keys" class="api-keys" columns={COLUMNS} rows={shown} keyOf={({ id }) => id} cells={cellsOf} phoneHeight={148} />}
    </section>
  );
}

function cellsOf(key: ApiKey) {
  const rights = key.grants.map(wordsOf).join(" · ");
  const idle = key.state === "active" ? undefined : `The key is ${key.state}.`;
  const created = <Time ms={key.created_at_ms} />;
  const expires = <Time ms={key.expires_at_ms} none="never" />;
  const used = <Time ms={key.last_used_at_ms} none="unknown" />;
  return [
    <>
      <b>{key.name}</b>{" "}
      {idOf(ownKey.value) === key.id && <span class="badge">this console</span>}
    </>,
    key.id,
    <>
      <span title={rights}>{rights}</span>
      <small class="narrow">
        created {created} · expires {expires} · last use {used}
      </small>
    </>,
    <State of={key} />,
    created,
    expires,
    used,
    <>
      <ActButton act={rotateKey(key)} class="small" idle={idle} />
      <ActButton act={revokeKey(key)} class="small" idle={key.state === "revoked" ? idle : undefined} />
    </>,
  ];
}

function Time({ ms, none }: { ms: number | null; none?: string }) {
  return ms === null ? <span class="soft">{none}</span> : <time title={new Date(ms).toLocaleString("en-GB")}>{distance(ms)}</time>;
}

function State({ of: { state, previous_expires_at_ms: overlapMs, revoked_at_ms: revokedMs } }: { of: ApiKey }) {
  if (state === "revoked") return <span class="bad" title={moment(revokedMs!)}>{state}</span>;
  if (state === "expired") return <span class="soft">{state}</span>;
  if (overlapMs === null) return <span class="good">{state}</span>;
  return <span class="warn" title={`The previous secret is valid until ${moment(overlapMs)}.`}>2 secrets</span>;
}
