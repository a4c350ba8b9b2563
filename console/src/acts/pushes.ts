/** Acts on the pushes of groups. */
import { type Call, call } from "../gateway/calls.js";
import type { Push, PushAttempt, PushReplay, PushSummary, Schemas } from "../gateway/shapes.js";
import type { Act } from "../parts/act.js";
import type { Field, Pairs, Values } from "../parts/form.js";
import { counted, wholeNumber } from "../values/numbers.js";
import { millisecondsFrom, written } from "../values/times.js";

/** A group; or one over the pattern `match`, which is in `stream` as well. */
export interface Place {
  stream: string;
  group: string;
  match?: string;
}

/** Return a request about the push of a group, or the one about that of a group over a pattern. */
export function ofPush<T>(request: Call<T>, { match }: Place): Call<T> {
  if (match === undefined) return request;
  const { method, path, init } = request;
  return { method, path: path.replace("/streams/{stream}", ""), init: { ...init, params: { ...init.params, query: { ...init.params?.query, match } } } };
}

function placeOf({ stream, group, match }: PushSummary): Place {
  return match === undefined ? { stream, group } : { stream, group, match };
}

type Input = Schemas["PushInput"];
type Old = Required<Omit<Input, "url" | "headers">> & Pick<PushSummary, "url" | "header_names">;

const NEW: Old = {
  url: "",
  body: "entry",
  batch_max: 100,
  concurrency: 10,
  timeout_ms: 10_000,
  signature: "v1",
  disable_after_ms: 432_000_000,
  attempts_days: 3,
  header_names: [],
};

export const BODIES: [Schemas["PushBody"], string][] = [
  ["entry", "one entry"],
  ["batch", "several entries"],
  ["cloudevents", "one CloudEvent"],
  ["cloudevents_binary", "one CloudEvent, attributes in headers"],
  ["cloudevents_batch", "several CloudEvents"],
];
export const SIGNATURES: [Schemas["SignatureKind"], string][] = [
  ["v1", "HMAC with a secret (v1)"],
  ["v1a", "Ed25519 with the key of the gateway (v1a)"],
];

/** Set a push; `reveal` gets its secret. */
export function setPush(place: Place, old: PushSummary | undefined, reveal: (secret: string) => void): Act<Push> {
  return {
    title: old ? `Change the push of ${place.group}` : `Create a push for ${place.group}`,
    verb: old ? "Change" : "Create",
    right: ["push", "manage", "consume"],
    ...place,
    about: "The gateway sends each entry in a signed POST request and acknowledges it when the response is 2xx. Other consumers of the group share the entries.",
    fields: fieldsOf(old ?? NEW),
    call: (values) => {
      const body = inputOf(values);
      if (typeof body === "string") return body;
      const kept = old?.match === undefined ? {} : { weights: old.weights, create: old.create }; // what no form asks for
      return ofPush(call("put", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place }, body: { ...body, ...kept } }), place);
    },
    done: () => `The push is ${old ? "changed" : "created"}.`,
    after: revealing(reveal),
  };
}

function fieldsOf(old: Old): Field[] {
  const names = old.header_names;
  return [
    { name: "url", label: "URL", kind: "text", value: old.url ?? "" },
    { name: "body", label: "Request body", kind: "choice", options: BODIES, value: old.body },
    { name: "batch_max", label: "Max entries per request", kind: "text", value: String(old.batch_max), hint: "For a body with several entries" },
    { name: "concurrency", label: "Concurrent requests", kind: "text", value: String(old.concurrency) },
    { name: "timeout", label: "Timeout", kind: "text", value: written(old.timeout_ms) },
    { name: "signature", label: "Signature", kind: "choice", options: SIGNATURES, value: old.signature },
    { name: "disable_after", label: "Disable after", kind: "text", value: written(old.disable_after_ms), hint: "Time during which all requests fail" },
    { name: "attempts_days", label: "Days of attempts", kind: "text", value: String(old.attempts_days), hint: "At most 30. 0: the gateway keeps no attempts." },
    {
      name: "headers",
      label: "Headers",
      kind: "pairs",
      noun: "header",
      value: names.map((name) => [name, ""]),
      hint: names.length ? "Values are never shown. Enter each value again, or remove the header." : "The gateway stores the values as secrets.",
    },
  ];
}

function inputOf(values: Values): Input | string {
  const { url, body, signature } = values as Record<string, string>;
  const headers = (values["headers"] as Pairs).filter(([name, value]) => name !== "" || value !== "");
  const [batch_max, concurrency] = [wholeNumber(values["batch_max"] as string), wholeNumber(values["concurrency"] as string)];
  const [timeout_ms, disable_after_ms] = [millisecondsFrom(values["timeout"] as string), millisecondsFrom(values["disable_after"] as string)];
  const attempts_days = wholeNumber(values["attempts_days"] as string);
  const empty = headers.find(([, value]) => value === "");
  if (!url) return "Enter a URL.";
  if (!batch_max || !concurrency || attempts_days === undefined) return "Enter a number.";
  if (!timeout_ms || !disable_after_ms) return "Enter a duration, for example 10s.";
  if (empty) return `Enter the value of ${empty[0]}, or remove it.`;
  return { url, body, batch_max, concurrency, timeout_ms, signature, disable_after_ms, attempts_days, headers: Object.fromEntries(headers) } as Input;
}

/** Return why a push can only be changed or deleted, if that is so. */
export function unreadable({ state }: PushSummary): string | undefined {
  return state === "unreadable" ? "The secrets of the push cannot be read. Change the push." : undefined;
}

/** Pause a push, or resume one that sends nothing. */
export function pausePush(push: PushSummary): Act<Push> {
  const { group, state } = push;
  const place = placeOf(push);
  const init = { params: { path: place } };
  if (state === "paused" || state === "disabled") {
    return {
      title: `Resume the push of ${group}`,
      verb: "Resume",
      right: ["push", "manage"],
      ...place,
      about: "The gateway sends the entries that arrived meanwhile. It sends failed entries when their retry is due. Retry now sends them at once.",
      call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/resume", init), place),
      done: () => "The push is resumed.",
    };
  }
  return {
    title: `Pause the push of ${group}`,
    verb: "Pause",
    right: "manage",
    ...place,
    about: "The gateway sends nothing until you resume the push. Requests in flight finish.",
    call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/pause", init), place),
    done: () => "The push is paused.",
  };
}

export function retryPush(place: Place): Act<Schemas["RetriedPush"]> {
  return {
    title: `Retry the push of ${place.group}`,
    verb: "Retry now",
    right: "manage",
    ...place,
    about: "Sends failed entries at once instead of after their delay, at most 10,000 entries.",
    call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/retry", { params: { path: place } }), place),
    done: ({ entries }) => `${counted(entries, "entry", "entries")} due now.`,
  };
}

/** Send a test event; `show` gets the result. */
export function testPush(place: Place, show: (result: PushAttempt) => void): Act<PushAttempt> {
  return {
    title: `Test the push of ${place.group}`,
    verb: "Send test event",
    right: ["push", "manage"],
    ...place,
    about: "Sends one signed request now, with the id 0-0 and the header headgate-test. The gateway sends and acknowledges no entry of the stream.",
    call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/test", { params: { path: place } }), place),
    done: ({ status, error }) => `Test event: ${error ?? `answered ${status}`}.`,
    after: show,
  };
}

/** Count entries of a range, and then ask whether to send them again. */
export function countReplay(place: Place): Act<PushReplay> {
  return {
    title: `Replay the push of ${place.group}`,
    verb: "Count entries",
    right: REPLAY_RIGHTS,
    ...place,
    about: "Counts the entries of a range that the group has read, so that you can send them again. Nothing is sent yet.",
    fields: [
      { name: "start", label: "From", kind: "text", value: "1h", hint: "An id, a time, or how long ago. -: the first entry" },
      { name: "end", label: "To", kind: "text", value: "+", hint: "+: the last entry that was delivered" },
      { name: "filter", label: "Filter", kind: "text", value: "", hint: '{"exact":{"sku":"42"}}' },
    ],
    call: (values) => {
      const wanted = wantedOf(values);
      return typeof wanted === "string" ? wanted : replayCall(place, { ...wanted, dry_run: true });
    },
    done: (replay) => `${sayCount(replay)} in the range.`,
    next: (replay, values) => (replay.entries ? sendReplay(place, wantedOf(values) as Wanted, replay) : undefined),
  };
}

type Wanted = Schemas["PushReplayInput"];
const REPLAY_RIGHTS: Act["right"] = ["push", "manage", "consume"];

function sendReplay(place: Place, wanted: Wanted, counted: PushReplay): Act<PushReplay> {
  return {
    title: `Send ${sayCount(counted)} again`,
    verb: "Send again",
    right: REPLAY_RIGHTS,
    ...place,
    about: `The gateway sends the entries from ${counted.start} to ${counted.end} with the header headgate-replay. The group does not move.`,
    call: () => replayCall(place, { ...wanted, end: counted.end }),
    done: () => "The replay has started.",
  };
}

export function cancelReplay(place: Place): Act<PushReplay> {
  return {
    title: `Cancel the replay of ${place.group}`,
    verb: "Cancel replay",
    right: "manage",
    ...place,
    about: "The gateway stops sending entries again. Entries that were sent stay sent.",
    call: () => call("delete", "/v1/streams/{stream}/groups/{group}/push/replay", { params: { path: place } }),
    done: () => "The replay is cancelled.",
  };
}

function replayCall(place: Place, body: Wanted): Call<PushReplay> {
  return call("post", "/v1/streams/{stream}/groups/{group}/push/replay", { params: { path: place }, body });
}

function wantedOf({ start, end, filter }: Values): Wanted | string {
  const [from, to] = [placeFrom(start as string), placeFrom(end as string)];
  if (from === undefined || to === undefined) return "Enter an id, a time such as 2026-11-01T00:00, or a duration such as 1h.";
  if (!filter) return { start: from, end: to };
  try {
    return { start: from, end: to, filter: JSON.parse(filter as string) };
  } catch {
    return "The filter is not JSON.";
  }
}

/** Return an id, or the unix time of a text. */
function placeFrom(text: string): string | undefined {
  if (/^([-+]|\(?\d+(-\d+)?)$/.test(text)) return text;
  const agoMs = millisecondsFrom(text);
  const ms = agoMs === undefined ? Date.parse(text) : Date.now() - agoMs;
  return Number.isNaN(ms) ? undefined : String(ms);
}

function sayCount({ entries, at_least }: PushReplay): string {
  return `${at_least ? "at least " : ""}${counted(entries, "entry", "entries")}`;
}

export function rotateSecret(place: Place, reveal: (secret: string) => void): Act<Push> {
  return {
    title: `Rotate the secret of the push of ${place.group}`,
    verb: "Rotate secret",
    right: "manage",
    ...place,
    about: "The gateway signs requests with a new secret. The previous secret stays valid for a while, so that you can update the receiver.",
    fields: [{ name: "overlap", label: "Previous secret valid for", kind: "text", value: "1d", hint: "0s: invalid at once" }],
    call: ({ overlap }) => {
      const overlap_ms = millisecondsFrom(overlap as string);
      if (overlap_ms === undefined) return "Enter a duration, for example 1d.";
      return ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/rotate", { params: { path: place }, body: { overlap_ms } }), place);
    },
    done: () => "The secret is rotated.",
    after: revealing(reveal),
  };
}

export function deletePush(place: Place): Act<unknown> {
  return {
    title: `Delete the push of ${place.group}`,
    verb: "Delete",
    right: "manage",
    ...place,
    destroys: true,
    about: "The gateway stops sending and deletes the secret. The group stays, and unacknowledged entries stay pending.",
    call: () => ofPush(call("delete", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place } }), place),
    done: () => "The push is deleted.",
  };
}

/** Hand on the secret of an answer that has a new one. */
function revealing(reveal: (secret: string) => void): (push: Push) => void {
  return ({ secret }) => void (secret && reveal(secret));
}
