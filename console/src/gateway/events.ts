/** Events: a stream of Server-Sent Events, read by `fetch`, as `EventSource` cannot send a key. */
import { credentials } from "./key.js";
import { gatewayUrl } from "./place.js";
import { problemOf, unreachable } from "./problem.js";

export interface ServerEvent {
  kind: string;
  data: unknown;
}

/**
 * Yield the events of a path until the gateway ends them.
 * @throws Problem if it is refused or cannot be reached
 */
export async function* eventsOf(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent, void, void> {
  const headers = { ...credentials(), accept: "text/event-stream" };
  const response = await fetch(gatewayUrl + path, { headers, signal }).catch(() => {
    throw unreachable();
  });
  if (!response.ok || !response.body) throw problemOf(response, await response.json().catch(() => undefined));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (text + part.value).split("\n\n");
    text = blocks.pop() ?? "";
    yield* blocks.map(eventIn).filter((event) => event !== undefined);
  }
}

function eventIn(block: string): ServerEvent | undefined {
  const lines = block.split("\n").map((line): [string, string] => {
    const at = line.indexOf(":");
    return [line.slice(0, at), line.slice(at + 1).trimStart()];
  });
  const fields = Object.fromEntries(lines);
  return fields["data"] === undefined ? undefined : { kind: fields["event"] ?? "message", data: JSON.parse(fields["data"]) };
}
