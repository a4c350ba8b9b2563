/** Group: whether it keeps up, what is pending and with whom, and what became of what failed. */
import { useMemo } from "preact/hooks";
import { resetPosition } from "../../acts/groups.js";
import { usePolled } from "../../gateway/polling.js";
import { denialOf } from "../../gateway/principal.js";
import type { Group, History } from "../../gateway/shapes.js";
import { ActButton } from "../../parts/act.js";
import { Facts } from "../../parts/facts.js";
import { lazy } from "../../parts/lazy.js";
import { Plot } from "../../parts/plot.js";
import { Refusal } from "../../parts/refusal.js";
import { Tabs } from "../../parts/tabs.js";
import { groupPlace, type GroupTab, streamPlace } from "../../route.js";
import { type Forecast, forecast } from "../../values/forecast.js";
import { timeOf } from "../../values/ids.js";
import { count, counted, rate, short } from "../../values/numbers.js";
import { brief, duration, moment } from "../../values/times.js";
import { Consumers } from "./consumers.js";
import { DeadLetters } from "./dead-letters.js";
import { GroupHistory } from "./group-history.js";
import { Keys } from "./keys.js";
import { type LetterCount, lettersShown, useLetterCount } from "./letter-count.js";
import { PendingEntries } from "./pending.js";
import { PushWarning } from "./push-state.js";
import { GroupSettings } from "./settings.js";

const EVERY_MS = 1000;
const PushView = lazy(() => import("./push.js").then((its) => its.PushView));

interface Props {
  stream: string;
  group: string;
  tab: GroupTab;
}

export function GroupView({ stream, group: name, tab }: Props) {
  const own = useMemo(() => new GroupHistory(stream, name), [stream, name]);
  const { data, problem } = usePolled((signal) => own.ask(signal), EVERY_MS, `${stream}/${name}`);
  const group = data.value?.group;
  const history = data.value?.history;
  const place = { stream, group: name };
  const letters = useLetterCount(place, group);
  if (problem.value?.isMissing) {
    return (
      <p class="empty">
        {problem.value.message} <a href={streamPlace(stream, "groups")}>The groups of {stream}</a>
      </p>
    );
  }
  return (
    <>
      <header class="view">
        <h1>
          <a href={streamPlace(stream, "groups")}>{stream}</a> / {name}
        </h1>
        <span class="acts">
          <ActButton act={resetPosition(place, group?.last_id ?? "")} label="Reset position" />
        </span>
      </header>
      {problem.value && <Refusal problem={problem.value} what="The group" />}
      {tab !== "push" && !denialOf({ right: "manage", ...place }) && <PushWarning place={place} />}
      {group && history && <Progress group={group} history={history} letters={letters} lettersPlace={groupPlace(stream, name, "dead-letters")} />}
      <Tabs
        label={name}
        current={tab}
        tabs={[
          { name: "pending", title: "Pending", place: groupPlace(stream, name), count: group && count(group.pending) },
          ...(group && isFair(group) ? [{ name: "keys" as const, title: "Keys", place: groupPlace(stream, name, "keys") }] : []),
          { name: "consumers", title: "Consumers", place: groupPlace(stream, name, "consumers"), count: group && count(group.consumers) },
          { name: "dead-letters", title: "Dead letters", place: groupPlace(stream, name, "dead-letters"), count: letters && lettersShown(letters) },
          { name: "push", title: "Push", place: groupPlace(stream, name, "push") },
          { name: "settings", title: "Settings", place: groupPlace(stream, name, "settings") },
        ]}
      />
      {tab === "pending" && <PendingEntries key={name} place={place} total={group?.pending ?? 0} />}
      {tab === "keys" && <Keys key={name} place={place} noisy={group?.noisy_key?.key} />}
      {tab === "consumers" && <Consumers key={name} place={place} />}
      {tab === "dead-letters" && group && <DeadLetters key={name} place={place} policy={group.policy} />}
      {tab === "push" && <PushView key={name} place={place} />}
      {tab === "settings" && group && <GroupSettings place={place} group={group} />}
    </>
  );
}

function isFair({ policy }: Group): boolean {
  return policy.fair_field != null || policy.priority_field != null;
}

interface ProgressProps {
  group: Group;
  history: History;
  letters: LetterCount | undefined;
  lettersPlace: string;
}

/** The state of the group: in a sentence, in facts, over time. */
function Progress({ group, history: { times_ms: times, series }, letters, lettersPlace }: ProgressProps) {
  const lags = series["lag"] ?? [];
  const last = (name: string) => series[name]?.findLast((value) => value !== null);
  return (
    <>
      <Outlook forecast={forecast(times, lags)} group={group} letters={letters?.count ? letters : undefined} lettersPlace={lettersPlace} />
      <Facts
        facts={[
          { name: "lag", value: count(group.lag), title: "entries it has still to be given" },
          { name: "pending", value: count(group.pending), title: "delivered and not acknowledged" },
          { name: "oldest pending", value: brief(last("oldest_pending_ms") || null), class: (last("oldest_pending_ms") ?? 0) > 60_000 ? "warn" : "" },
          { name: "released", value: count(group.released), title: "nobody holds them: the next reader gets them" },
          { name: "delayed", value: count(group.delayed), title: "nobody gets them before a time" },
          { name: "consumers", value: count(group.consumers) },
          { name: "read up to", value: <code>{group.last_id}</code>, title: moment(timeOf(group.last_id)), class: "wide" },
        ]}
      />
      <div class="charts two">
        <Plot
          title="Lag"
          timesMs={times}
          format={short}
          together="group"
          lines={[
            { label: "lag", values: lags, colour: "line-3" },
            { label: "pending", values: series["pending"] ?? [], colour: "line-2" },
          ]}
        />
        {series["delivered"] && (
          <Plot
            title="Drained/s"
            timesMs={times}
            format={short}
            together="group"
            lines={[
              { label: "delivered", values: series["delivered"], colour: "line-1" },
              { label: "acknowledged", values: series["acknowledged"] ?? [], colour: "line-2" },
              { label: "again", values: series["redelivered"] ?? [], colour: "bad" },
            ]}
          />
        )}
      </div>
    </>
  );
}

interface OutlookProps {
  forecast: Forecast;
  group: Group;
  letters: LetterCount | undefined;
  lettersPlace: string;
}

function Outlook({ forecast: outlook, group, letters, lettersPlace }: OutlookProps) {
  const { released } = group;
  const [kind, title, text] = spoken(outlook, group);
  const dead = letters && `${lettersShown(letters)} ${letters.count === 1 ? "entry is a dead letter" : "entries are dead letters"}`;
  const isCaughtUp = title === "Caught up";
  return (
    <p class={`outlook ${dead && kind === "good" ? "wait" : kind}`} role="status">
      <b>{dead && isCaughtUp ? `${title}, and ${dead}` : title}.</b> {dead && isCaughtUp && !released ? "" : text}{" "}
      {dead && <a href={lettersPlace}>{isCaughtUp ? "See them" : `${dead}`}</a>}
    </p>
  );
}

function spoken(outlook: Forecast, { released, lag, policy: { paused_until_ms: untilMs } }: Group): [kind: string, title: string, text: string] {
  if (untilMs != null && untilMs > Date.now()) {
    return ["wait", "Paused", `Nothing is delivered until ${moment(untilMs)}${lag ? `: ${counted(lag, "entry waits", "entries wait")}` : ""}.`];
  }
  switch (outlook.state) {
    case "caught up":
      if (released) return ["wait", "Caught up", `Nothing new is left. To be delivered again: ${counted(released, "entry", "entries")}.`];
      return ["good", "Caught up", "Entries are delivered as they come."];
    case "draining":
      return ["good", "Draining", `Empty in about ${duration(outlook.emptyInMs)}, at ${moment(Date.now() + outlook.emptyInMs)}: the lag shrinks by ${rate(outlook.perSecond)}.`];
    case "growing":
      return ["bad", "Getting worse", `The lag grows by ${rate(outlook.perSecond)}: the consumers do not keep up.`];
    case "steady":
      return ["wait", "Steady", `The lag stays at about ${count(outlook.lag)}.`];
    case "unknown":
      return ["soft", "Watching", "A few seconds more show where the lag goes."];
  }
}
