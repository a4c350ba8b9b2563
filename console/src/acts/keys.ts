/** Acts on API keys, and tickets. */
import { call } from "../gateway/calls.js";
import { key as ownKey, useKey } from "../gateway/key.js";
import { gatewayUrl } from "../gateway/place.js";
import { changes } from "../gateway/polling.js";
import type { ApiKey, Grant, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Field, Values } from "../parts/form.js";
import { reveal } from "../parts/secret.js";
import { idOf, namesIn } from "../values/grants.js";
import { millisecondsFrom, moment } from "../values/times.js";

type Ticket = Schemas["TicketRequest"];

const VERBS: Grant["do"] = ["read", "append", "consume", "manage", "push", "publish", "subscribe", "admin"];
const TICKET_VERBS: Ticket["do"] = ["read", "append", "consume", "publish", "subscribe"];
const DURATION = "Enter a duration, for example 90d.";

const RIGHT: Field[] = [
  { name: "streams", label: "Streams or channels", kind: "text", hint: "Names or prefixes with *, separated by commas" },
  { name: "do", label: "Verbs", kind: "checks", options: VERBS },
  { name: "create", label: "Appends may create streams", kind: "flag" },
  { name: "groups", label: "Only groups", kind: "text", hint: "Empty: all groups, and the stream itself" },
  { name: "consumer", label: "Only as consumer", kind: "text" },
  { name: "keys", label: "Only table rows", kind: "text", hint: "Keys of rows or prefixes with *" },
];

const EVERYTHING: Values = { streams: "*", do: [...VERBS], create: true, groups: "", consumer: "", keys: "" };

export function createKey(isFirst: boolean): Act<Schemas["CreatedKey"]> {
  return {
    title: "Create a key",
    verb: "Create",
    right: "admin",
    about: isFirst
      ? "This is the first key. From then on, every request needs a key. It must have admin, so that you can add others. This console uses it at once."
      : "The rights of a key add up. In a pattern, {sub} stands for the name of the key.",
    fields: [
      { name: "name", label: "Name", kind: "text", value: isFirst ? "admin" : "", hint: "Keys of one name share their limits" },
      { name: "grants", label: "Right", kind: "forms", fields: RIGHT, ...(isFirst && { value: [EVERYTHING] }) },
      { name: "ttl", label: "Expires after", kind: "text", hint: "For example 90d. Empty: never" },
    ],
    call: (values) => {
      const { name, ttl } = values as Record<string, string>;
      const grants = (values["grants"] as Values[]).map(grantOf);
      const ttl_ms = ttl ? millisecondsFrom(ttl) : null;
      if (!name) return "Enter a name.";
      const fault = grants.find((grant) => typeof grant === "string");
      if (fault) return fault as string;
      if (ttl_ms === undefined || ttl_ms === 0) return DURATION;
      return call("post", "/v1/keys", { body: { name, grants: grants as Grant[], ...(ttl_ms && { ttl_ms }) } as Schemas["NewKey"] });
    },
    done: ({ name }) => `The key of ${name} is created.`,
    after: (created) => {
      if (created.is_first) take(created.key);
      show(created, created.is_first ? "The gateway now requires a key with each request. This console uses this one." : "");
    },
  };
}

function grantOf(values: Values): Grant | string {
  const { streams, groups, consumer, keys } = values as Record<string, string>;
  const grant = { streams: namesIn(streams!), do: values["do"] as Grant["do"], create: values["create"] as boolean };
  if (!grant.streams.length) return "Enter the streams of each right.";
  if (!grant.do.length) return "Select the verbs of each right.";
  return {
    ...grant,
    ...(groups && { groups: namesIn(groups) }),
    ...(consumer && { consumer }),
    ...(keys && { keys: namesIn(keys) }),
  };
}

export function rotateKey({ id, name }: ApiKey): Act<Schemas["IssuedKey"]> {
  return {
    title: `Rotate the key ${id} of ${name}`,
    verb: "Rotate",
    right: "admin",
    about: "The key gets a new secret. The previous one stays valid for the overlap, and then the connections that it opened are closed.",
    fields: [{ name: "overlap", label: "Previous secret valid for", kind: "text", value: "1h", hint: "Empty: invalid at once" }],
    call: ({ overlap }) => {
      const overlap_ms = overlap ? millisecondsFrom(overlap as string) : null;
      if (overlap_ms === undefined) return DURATION;
      return call("post", "/v1/keys/{key}/rotate", { params: { path: { key: id } }, body: { overlap_ms } });
    },
    done: () => `The key ${id} has a new secret.`,
    after: (rotated) => {
      const isOwn = idOf(ownKey.value) === id;
      if (isOwn) take(rotated.key);
      show(rotated, isOwn ? "This console uses it from now on." : "");
    },
  };
}

export function revokeKey({ id, name }: ApiKey): Act<unknown> {
  const isOwn = idOf(ownKey.value) === id;
  return {
    title: `Revoke the key ${id} of ${name}`,
    verb: "Revoke",
    right: "admin",
    destroys: true,
    about: `Clients with this key are refused at once, and their connections are closed. This cannot be undone.${isOwn ? " This console uses the key: it asks for another one." : ""}`,
    call: () => call("delete", "/v1/keys/{key}", { params: { path: { key: id } } }),
    done: () => `The key ${id} is revoked.`,
  };
}

export function createTicket(): Act<Schemas["Ticket"]> {
  let asked: Ticket | undefined;
  return {
    title: "Create a ticket",
    verb: "Create",
    right: [],
    about: "A ticket is a token for a web page: for one stream or channel, for a short time. It allows at most what you may do yourself, and ends with your key.",
    fields: [
      { name: "stream", label: "Stream", kind: "text" },
      { name: "channel", label: "Channel", kind: "text", hint: "With publish or subscribe" },
      { name: "do", label: "Verbs", kind: "checks", options: TICKET_VERBS, value: ["read"] },
      { name: "group", label: "Group", kind: "text", hint: "With consume" },
      { name: "consumer", label: "Only as consumer", kind: "text" },
      { name: "user", label: "User", kind: "text", hint: "Shown in presence" },
      { name: "ttl", label: "Valid for", kind: "text", value: "5m", hint: "At most 1h" },
    ],
    call: (values) => {
      const { stream, channel, group, consumer, user, ttl } = values as Record<string, string>;
      const ttl_ms = millisecondsFrom(ttl!);
      if (!stream && !channel) return "Enter a stream or a channel.";
      if (!(values["do"] as string[]).length) return "Select a verb.";
      if (!ttl_ms) return "Enter a duration, for example 5m.";
      const names = Object.fromEntries(Object.entries({ stream, channel, group, consumer, user }).filter(([, name]) => name));
      asked = { ...names, do: values["do"] as Ticket["do"], ttl_ms };
      return call("post", "/v1/tickets", { body: asked });
    },
    done: () => "The ticket is created.",
    after: ({ ticket, expires_at_ms }) =>
      reveal({
        title: "Ticket",
        about: `Valid until ${moment(expires_at_ms)}. Copy it now. It is not shown again.`,
        lines: [["Ticket", ticket], ["URL", urlWith(ticket, asked!)]],
      }),
  };
}

/** Return a URL that a page can use with a ticket. */
function urlWith(ticket: string, { stream, channel, group, consumer, do: verbs }: Ticket): string {
  const name = encodeURIComponent;
  const query = `ticket=${ticket}`;
  if (stream && group && verbs.includes("consume")) {
    return `${gatewayUrl}/v1/streams/${name(stream)}/groups/${name(group)}/events?consumer=${name(consumer || "page-1")}&${query}`;
  }
  if (stream && verbs.includes("read")) return `${gatewayUrl}/v1/streams/${name(stream)}/events?${query}`;
  if (channel && verbs.includes("subscribe")) return `${gatewayUrl}/v1/channels/${name(channel)}/events?${query}`;
  return `${gatewayUrl.replace(/^http/, "ws")}/v1/ws?${query}`;
}

/** Use a key in this console, which may have been asked for one in the meantime. */
function take(key: string): void {
  useKey(key);
  changes.value += 1;
}

function show({ key, name }: Schemas["IssuedKey"], more: string): void {
  const about = `Copy the key now. It is not shown again. Clients send it as Authorization: Bearer KEY. ${more}`;
  reveal({ title: `Key of ${name}`, about, lines: [["Key", key]] });
}
