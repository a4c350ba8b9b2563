/** Calls: a request as a value, typed by the contract, that is sent, or shown as the curl line that does the same. */
import createClient from "openapi-fetch";
import { credentials, forgetKey, key } from "./key.js";
import { gatewayUrl } from "./place.js";
import { problemOf, unreachable } from "./problem.js";
import type { Contract } from "./shapes.js";

type Values = Record<string, string | number | boolean | null | undefined>;

/** A request of the contract; `T` is what it answers. */
export interface Call<T = unknown> {
  readonly method: HttpMethod;
  readonly path: string;
  readonly init: { params?: { path?: Values; query?: Values; header?: Values }; body?: unknown };
  readonly answers?: T; // never there: it carries the type
}

type HttpMethod = "get" | "put" | "post" | "patch" | "delete";
type Operation<P extends keyof Contract, M extends HttpMethod> = M extends keyof Contract[P] ? Contract[P][M] : never;

type Body<O> = O extends { requestBody?: { content: infer Content } | null | undefined } ? Content[keyof Content] : undefined;
type Success<O> = O extends { responses: infer R } ? R[keyof R & (200 | 201 | 202)] : never;
type Answer<O> = Success<O> extends { content: { "application/json": infer T } } ? T : undefined;
type Parameters<O> = O extends { parameters: { path?: infer Path; query?: infer Query; header?: infer Header } }
  ? { path?: Path; query?: Query; header?: Header }
  : never;
interface Init<O> {
  params?: Parameters<O>;
  body?: Body<O>;
}

/** Return a request of an operation. */
export function call<M extends HttpMethod, P extends keyof Contract>(
  method: M,
  path: P,
  init: Init<Operation<P, M>> = {},
): Call<Answer<Operation<P, M>>> {
  return { method, path, init: init as Call["init"] };
}

const client = createClient<Record<string, Record<HttpMethod, object>>>({
  baseUrl: gatewayUrl,
  querySerializer: (query) => queryOf(query as Values),
});

/**
 * Send a request, and return what is answered.
 * @throws Problem if it is refused or cannot be sent
 */
export async function send<T>(request: Call<T>, signal?: AbortSignal): Promise<T> {
  const asKey = key.value;
  const headers = { ...credentials(), ...(request.init.body === undefined ? {} : { "content-type": typeOf(request) }) };
  const init = { ...request.init, headers, ...(signal ? { signal } : {}) };
  const answer = await client.request(request.method, request.path, init as never).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw unreachable();
  });
  const { data, error, response } = answer as { data?: unknown; error?: unknown; response: Response };
  if (response.ok) return data as T;
  const problem = problemOf(response, error);
  if (response.status === 401 && key.value === asKey) forgetKey(asKey === undefined ? "" : problem.message);
  throw problem;
}

/** Return the line for a shell that does what a request does. */
export function curlOf({ method, path, init }: Call): string {
  const words = ["curl"];
  if (method !== "get") words.push("-X", method.toUpperCase());
  if (key.value !== undefined) words.push('-H "Authorization: Bearer $HEADGATE_TOKEN"');
  words.push(quoted(gatewayUrl + filled(path, init.params?.path ?? {}) + withMark(queryOf(init.params?.query ?? {}))));
  for (const [name, value] of Object.entries(init.params?.header ?? {})) words.push("-H", quoted(`${name.toLowerCase()}: ${value}`));
  if (init.body !== undefined) {
    words.push("-H", quoted(`content-type: ${typeOf({ method })}`), "-d", quoted(JSON.stringify(init.body)));
  }
  return words.join(" ");
}

function typeOf({ method }: { method: HttpMethod }): string {
  return method === "patch" ? "application/merge-patch+json" : "application/json";
}

function filled(path: string, values: Values): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
}

function queryOf(values: Values): string {
  const words = Object.entries(values).filter(([, value]) => value != null);
  return new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
}

function withMark(query: string): string {
  return query && `?${query}`;
}

/** Return a text as one word of a shell. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
