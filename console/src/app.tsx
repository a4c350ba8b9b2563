/** App: the bar at the top, the view that the address names, and what may open above it. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asked } from "./gateway/key.js";
import { consoleUrl } from "./gateway/place.js";
import { mayManageKeys } from "./gateway/principal.js";
import { OpenAct } from "./parts/act.js";
import { Entrance } from "./parts/entrance.js";
import { Help } from "./parts/help.js";
import { useKeys } from "./parts/keys.js";
import { lazy } from "./parts/lazy.js";
import { Notices } from "./parts/notices.js";
import { Palette } from "./parts/palette.js";
import { Readiness } from "./parts/readiness.js";
import { OpenSecret } from "./parts/secret.js";
import { Standby } from "./parts/standby.js";
import { nextTheme, theme } from "./parts/theme.js";
import { Who } from "./parts/who.js";
import { go, groupPlace, HOME, type Route, route, streamPlace } from "./route.js";
import { Overview } from "./views/overview/overview.js";
import { StreamView } from "./views/stream/stream.js";

const GroupView = lazy(() => import("./views/group/group.js").then((its) => its.GroupView));
const Connections = lazy(() => import("./views/connections.js").then((its) => its.Connections));
const Schedules = lazy(() => import("./views/schedules.js").then((its) => its.Schedules));
const Pushes = lazy(() => import("./views/pushes.js").then((its) => its.Pushes));
const Keys = lazy(() => import("./views/keys.js").then((its) => its.Keys));
const PatternPush = lazy(() => import("./views/pushes.js").then((its) => its.PatternPush));

export function App() {
  const over = useSignal<"help" | "palette" | undefined>(undefined);
  const close = () => (over.value = undefined);
  const palette = () => (over.value = "palette");
  useKeys([
    { key: "Ctrl+k", does: "go to a stream or a group", run: palette },
    { key: "/", does: "go to a stream or a group", run: palette },
    { key: "g o", does: "go to the overview", run: () => go(HOME) },
    { key: "g c", does: "go to connections", run: () => go("connections") },
    { key: "g s", does: "go to schedules", run: () => go("schedules") },
    { key: "g p", does: "go to pushes", run: () => go("pushes") },
    { key: "g k", does: "go to keys", run: () => go("keys") },
    { key: "u", does: "go up one level", run: () => go(above(route.value)) },
    { key: "t", does: "switch the theme: auto, light, dark", run: nextTheme },
    { key: "?", does: "show keyboard shortcuts", run: () => (over.value = "help") },
  ], "page");
  useEffect(() => {
    document.title = `${titleOf(route.value)} · Headgate`;
  }, [route.value]);
  return (
    <>
      <header class="bar">
        <a class="mark" href={HOME} aria-label="Headgate: overview">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M2 3v11M14 3v11M2 5h12" />
            <path class="water" d="M4 10h8M4 13h8" />
          </svg>
          <b>Headgate</b>
        </a>
        <nav aria-label="Views">
          <a href={HOME} aria-current={route.value.view === "overview" ? "page" : undefined}>
            Overview
          </a>
          <a href="connections" aria-current={route.value.view === "connections" ? "page" : undefined}>
            Connections
          </a>
          <a href="schedules" aria-current={route.value.view === "schedules" ? "page" : undefined}>
            Schedules
          </a>
          <a href="pushes" aria-current={route.value.view === "pushes" ? "page" : undefined}>
            Pushes
          </a>
          {mayManageKeys.value && (
            <a href="keys" aria-current={route.value.view === "keys" ? "page" : undefined}>
              Keys
            </a>
          )}
          <a href={guide(route.value)} target="_blank">
            Guide
          </a>
        </nav>
        <button type="button" class="find" onClick={palette} title="Go to a stream or a group">
          Go to … <kbd>Ctrl K</kbd>
        </button>
        <Readiness />
        <button type="button" class="icon" onClick={nextTheme} aria-label={`Theme: ${theme.value}`} title={`Theme: ${theme.value}`}>
          {{ auto: "◐", light: "☀", dark: "☾" }[theme.value]}
        </button>
        <button type="button" class="icon wide" onClick={() => (over.value = "help")} aria-label="Keyboard shortcuts">
          ?
        </button>
        <Who />
      </header>
      <Standby />
      <main>{asked.value === undefined ? <View route={route.value} /> : <Entrance />}</main>
      {over.value === "help" && <Help onClose={close} />}
      {over.value === "palette" && <Palette onClose={close} />}
      <OpenAct />
      <OpenSecret />
      <Notices />
    </>
  );
}

function View({ route: shown }: { route: Route }) {
  switch (shown.view) {
    case "overview":
      return <Overview />;
    case "connections":
      return <Connections />;
    case "schedules":
      return <Schedules />;
    case "pushes":
      return <Pushes />;
    case "keys":
      return <Keys />;
    case "pattern-push":
      return <PatternPush key={`${shown.match}/${shown.group}`} match={shown.match} group={shown.group} />;
    case "stream":
      return <StreamView key={shown.stream} stream={shown.stream} tab={shown.tab} />;
    case "group":
      return <GroupView key={`${shown.stream}/${shown.group}`} stream={shown.stream} group={shown.group} tab={shown.tab} />;
    case "nowhere":
      return (
        <p class="empty">
          This page does not exist. Go to the <a href={HOME}>overview</a>.
        </p>
      );
  }
}

function titleOf(shown: Route): string {
  switch (shown.view) {
    case "stream":
      return shown.stream;
    case "group":
      return `${shown.group} of ${shown.stream}`;
    case "connections":
      return "Connections";
    case "schedules":
      return "Schedules";
    case "pushes":
      return "Pushes";
    case "keys":
      return "Keys";
    case "pattern-push":
      return `${shown.group} of ${shown.match}`;
    default:
      return "Overview";
  }
}

/** Return the page of the guide about what a view shows. */
function guide(shown: Route): string {
  const pages: Record<string, string> = {
    ...{ connections: "operate", schedules: "schedules", pushes: "push", keys: "keys", "pattern-push": "push", stream: "follow", groups: "work", pending: "work" },
    ...{ consumers: "work", "dead-letters": "retry", push: "push", group: "pause" },
  };
  const tab = "tab" in shown && shown.tab !== "entries" && shown.tab !== "settings" ? shown.tab : shown.view;
  return new URL(`../guide/${pages[tab] ?? "concepts"}`, consoleUrl).href;
}

/** Return the place that a view belongs to. */
function above(shown: Route): string {
  if (shown.view === "group") return shown.tab === "pending" ? streamPlace(shown.stream, "groups") : groupPlace(shown.stream, shown.group);
  if (shown.view === "pattern-push") return "pushes";
  return shown.view === "stream" && shown.tab !== "entries" ? streamPlace(shown.stream) : HOME;
}
