// Follows a stream of events with a client from npm; prints a JSON line for each entry.
import { EventSource } from "eventsource";

const [, , kind, url] = process.argv;
const say = (line) => console.log(JSON.stringify(line));

if (kind === "eventsource") {
  const events = new EventSource(url);
  events.addEventListener("entry", ({ data }) => say({ tailed: JSON.parse(data).id }));
  events.addEventListener("caught_up", () => say({ state: "caught_up" }));
  process.stdin.on("end", () => events.close()).resume();
} else {
  // It was written for pages.
  globalThis.window = globalThis;
  globalThis.document = { hidden: false, removeEventListener() {} };
  const { fetchEventSource } = await import("@microsoft/fetch-event-source");
  const controller = new AbortController();
  process.stdin.on("end", () => controller.abort()).resume();
  await fetchEventSource(url, {
    signal: controller.signal,
    openWhenHidden: true,
    onmessage({ event, data }) {
      if (event === "entry") say({ tailed: JSON.parse(data).id });
      if (event === "caught_up") say({ state: "caught_up" });
    },
    // An end is a reason to come back, which it does after errors only.
    onclose() {
      throw new Error("ended");
    },
    onerror: () => 100,
  });
}
