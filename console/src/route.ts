/** Route: which view the address names. Every view has an address of its own, which can be passed on. */
import { computed, signal } from "@preact/signals";
import { consoleUrl } from "./gateway/place.js";

export const STREAM_TABS = ["entries", "table", "groups", "settings"] as const;
export const GROUP_TABS = ["pending", "keys", "consumers", "dead-letters", "push", "settings"] as const;
export type StreamTab = (typeof STREAM_TABS)[number];
export type GroupTab = (typeof GROUP_TABS)[number];

export type Route =
  | { view: "overview" }
  | { view: "connections" }
  | { view: "schedules" }
  | { view: "pushes" }
  | { view: "keys" }
  | { view: "pattern-push"; match: string; group: string }
  | { view: "stream"; stream: string; tab: StreamTab }
  | { view: "group"; stream: string; group: string; tab: GroupTab }
  | { view: "nowhere" };

const address = signal(location.href);
addEventListener("popstate", () => (address.value = location.href));

/** The route of the address. */
export const route = computed(() => routeOf(address.value));

/** The query of the address: what the view shows of what it has. */
export const query = computed(() => new URL(address.value).searchParams);

/** Go to a place below the console. */
export function go(place: string): void {
  history.pushState(null, "", new URL(place, consoleUrl));
  address.value = location.href;
  scrollTo(0, 0);
}

/** Put a value into the query, or leave it out if it is empty. That is no step back. */
export function setQuery(name: string, value: string): void {
  const url = new URL(location.href);
  if ((url.searchParams.get(name) ?? "") === value) return;
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(null, "", url);
  address.value = location.href;
}

/** Return the place of a stream, for a link. */
export function streamPlace(stream: string, tab: StreamTab = "entries"): string {
  return `streams/${encodeURIComponent(stream)}${tab === "entries" ? "" : `/${tab}`}`;
}

export function groupPlace(stream: string, group: string, tab: GroupTab = "pending"): string {
  const place = `${streamPlace(stream, "groups")}/${encodeURIComponent(group)}`;
  return tab === "pending" ? place : `${place}/${tab}`;
}

export function patternPushPlace(match: string, group: string): string {
  return `pushes/${encodeURIComponent(match)}/${encodeURIComponent(group)}`;
}

/** The overview; a place that is not empty, so that it does not mean "this page". */
export const HOME = "./";

/** Follow links of the console without loading the page again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || !isOurs(link.href)) return;
    event.preventDefault();
    go(link.href);
  });
}

function isOurs(href: string): boolean {
  return `${href}/`.startsWith(consoleUrl);
}

function routeOf(href: string): Route {
  const path = new URL(href).pathname.slice(new URL(consoleUrl).pathname.length);
  const [first, stream, second, group, third] = path.split("/").filter(Boolean).map(decodeURIComponent);
  if (first === undefined) return { view: "overview" };
  if ((first === "connections" || first === "schedules" || first === "pushes" || first === "keys") && stream === undefined) return { view: first };
  if (first === "pushes" && stream !== undefined && second !== undefined) return { view: "pattern-push", match: stream, group: second };
  if (first !== "streams" || stream === undefined) return { view: "nowhere" };
  if (group !== undefined && second === "groups") return groupRoute(stream, group, third ?? "pending");
  const tab = STREAM_TABS.find((name) => name === (second ?? "entries"));
  return tab ? { view: "stream", stream, tab } : { view: "nowhere" };
}

function groupRoute(stream: string, group: string, name: string): Route {
  const tab = GROUP_TABS.find((own) => own === name);
  return tab ? { view: "group", stream, group, tab } : { view: "nowhere" };
}
