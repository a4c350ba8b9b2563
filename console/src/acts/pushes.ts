/** Acts on the pushes of groups. */
import { type Call, call } from "../gateway/calls.js";
import type { Push, PushSummary, Schemas } from "../gateway/shapes.js";
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
  return { method, path: path.replace("/streams/{stream}", ""), init: { ...init, params: { ...init.params, query: { match } } } };
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
  header_names: [],
};

export const BODIES: [Schemas["PushBody"], string][] = [
  ["entry", "an entry"],
  ["batch", "several entries"],
  ["cloudevents", "a CloudEvent"],
  ["cloudevents_binary", "a CloudEvent, its attributes in headers"],
  ["cloudevents_batch", "several CloudEvents"],
];
export const SIGNATURES: [Schemas["SignatureKind"], string][] = [
  ["v1", "HMAC, by a secret (v1)"],
  ["v1a", "Ed25519, by the gateway's key (v1a)"],
];

/** Set a push; `reveal` gets its secret. */
export function setPush(place: Place, old: PushSummary | undefined, reveal: (secret: string) => void): Act<Push> {
  return {
    title: old ? `Change the push of ${place.group}` : `Set a push of ${place.group}`,
    verb: old ? "Change" : "Set",
    right: ["push", "manage", "consume"],
    ...place,
    about: "The gateway sends each entry in a POST with a signature, and acknowledges it when the answer is 2xx. Whatever else reads the group shares the entries.",
    fields: fieldsOf(old ?? NEW),
    call: (values) => {
      const body = inputOf(values);
      if (typeof body === "string") return body;
      const kept = old?.match === undefined ? {} : { weights: old.weights, create: old.create }; // what no form asks for
      return ofPush(call("put", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place }, body: { ...body, ...kept } }), place);
    },
    done: () => `The push is ${old ? "changed" : "set"}.`,
    after: revealing(reveal),
  };
}

function fieldsOf(old: Old): Field[] {
  const names = old.header_names;
  return [
    { name: "url", label: "URL", kind: "text", value: old.url ?? "" },
    { name: "body", label: "A request has", kind: "choice", options: BODIES, value: old.body },
    { name: "batch_max", label: "Entries at most", kind: "text", value: String(old.batch_max), hint: "Of a request that has several" },
    { name: "concurrency", label: "Requests at a time", kind: "text", value: String(old.concurrency) },
    { name: "timeout", label: "Time for an answer", kind: "text", value: written(old.timeout_ms) },
    { name: "signature", label: "Signature", kind: "choice", options: SIGNATURES, value: old.signature },
    { name: "disable_after", label: "Disable after", kind: "text", value: written(old.disable_after_ms), hint: "Of nothing but failures" },
    {
      name: "headers",
      label: "Headers",
      kind: "pairs",
      noun: "header",
      value: names.map((name) => [name, ""]),
      hint: names.length ? "Values are never shown: give each anew, or leave the header out." : "Their values are kept as secrets.",
    },
  ];
}

function inputOf(values: Values): Input | string {
  const { url, body, signature } = values as Record<string, string>;
  const headers = (values["headers"] as Pairs).filter(([name, value]) => name !== "" || value !== "");
  const [batch_max, concurrency] = [wholeNumber(values["batch_max"] as string), wholeNumber(values["concurrency"] as string)];
  const [timeout_ms, disable_after_ms] = [millisecondsFrom(values["timeout"] as string), millisecondsFrom(values["disable_after"] as string)];
  const empty = headers.find(([, value]) => value === "");
  if (!url) return "Say where to.";
  if (!batch_max || !concurrency) return "Give a number.";
  if (!timeout_ms || !disable_after_ms) return "Give a time, such as 10s.";
  if (empty) return `Give the value of ${empty[0]}, or leave it out.`;
  return { url, body, batch_max, concurrency, timeout_ms, signature, disable_after_ms, headers: Object.fromEntries(headers) } as Input;
}

/** Return why a push can only be changed or deleted, if that is so. */
export function unreadable({ state }: PushSummary): string | undefined {
  return state === "unreadable" ? "Its secrets cannot be read: change it." : undefined;
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
      about: "It sends what has come meanwhile. What failed is sent when its time comes; Retry now does not wait for it.",
      call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/resume", init), place),
      done: () => "The push goes on.",
    };
  }
  return {
    title: `Pause the push of ${group}`,
    verb: "Pause",
    right: "manage",
    ...place,
    about: "Nothing is sent until it is resumed. Requests on their way end.",
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
    about: "What failed and would have to wait is sent at once, 10,000 entries at most.",
    call: () => ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/retry", { params: { path: place } }), place),
    done: ({ entries }) => `${counted(entries, "entry", "entries")} due now.`,
  };
}

export function rotateSecret(place: Place, reveal: (secret: string) => void): Act<Push> {
  return {
    title: `Rotate the secret of the push of ${place.group}`,
    verb: "Rotate secret",
    right: "manage",
    ...place,
    about: "A new secret signs the requests. The old one does too for a while, so that the receiver is changed without haste.",
    fields: [{ name: "overlap", label: "The old one signs for", kind: "text", value: "1d", hint: "0s: not any more" }],
    call: ({ overlap }) => {
      const overlap_ms = millisecondsFrom(overlap as string);
      if (overlap_ms === undefined) return "Give a time, such as 1d.";
      return ofPush(call("post", "/v1/streams/{stream}/groups/{group}/push/rotate", { params: { path: place }, body: { overlap_ms } }), place);
    },
    done: () => "The secret is new.",
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
    about: "Nothing more is sent, and its secret is gone. The group stays, and what was not acknowledged is pending.",
    call: () => ofPush(call("delete", "/v1/streams/{stream}/groups/{group}/push", { params: { path: place } }), place),
    done: () => "The push is deleted.",
  };
}

/** Hand on the secret of an answer that has a new one. */
function revealing(reveal: (secret: string) => void): (push: Push) => void {
  return ({ secret }) => void (secret && reveal(secret));
}
