/** Group: whether it keeps up, what is pending and with whom, and what became of what failed. */
import { useMemo } from "preact/hooks";
import { resetPosition } from "../../acts/groups.js";
import { usePolled } from "../../gateway/polling.js";
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
import { type Need, needOf } from "../../values/needs.js";
import { count, counted, rate, short } from "../../values/numbers.js";
import { brief, duration, moment } from "../../values/times.js";
import { Consumers } from "./consumers.js";
import { DeadLetters } from "./dead-letters.js";
import { GroupHistory } from "./group-history.js";
import { Keys } from "./keys.js";
import { type LetterCount, lettersShown, useLetterCount } from "./letter-count.js";
import { PendingEntries } from "./pending.js";
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
        {problem.value.message} <a href={streamPlace(stream, "groups")}>Groups of {stream}</a>
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
      {problem.value && <Refusal problem={problem.value} what="the group" />}
      {group && history && <Progress stream={stream} group={group} history={history} letters={letters} />}
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
  stream: string;
  group: Group;
  history: History;
  letters: LetterCount | undefined;
}

/** The state of the group: in a sentence, in facts, over time. */
function Progress({ stream, group, history: { times_ms: times, series }, letters }: ProgressProps) {
  const lags = series["lag"] ?? [];
  const last = (name: string) => series[name]?.findLast((value) => value !== null);
  return (
    <>
      <Outlook stream={stream} group={group} need={needOf(group, letters && { count: letters.count, shown: lettersShown(letters) })} forecast={forecast(times, lags)} />
      <Facts
        facts={[
          { name: "lag", value: count(group.lag), title: "entries not delivered yet" },
          { name: "pending", value: count(group.pending), title: "entries delivered and not acknowledged" },
          { name: "oldest pending", value: brief(last("oldest_pending_ms") || null), class: (last("oldest_pending_ms") ?? 0) > 60_000 ? "warn" : "" },
          { name: "released", value: count(group.released), title: "entries without a consumer: the next read delivers them" },
          { name: "delayed", value: count(group.delayed), title: "entries that are not due yet" },
          { name: "consumers", value: count(group.consumers) },
          { name: "position", value: <code>{group.last_id}</code>, title: moment(timeOf(group.last_id)), class: "wide" },
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
            title="Deliveries/s"
            timesMs={times}
            format={short}
            together="group"
            lines={[
              { label: "delivered", values: series["delivered"], colour: "line-1" },
              { label: "acknowledged", values: series["acknowledged"] ?? [], colour: "line-2" },
              { label: "redelivered", values: series["redelivered"] ?? [], colour: "bad" },
            ]}
          />
        )}
      </div>
    </>
  );
}

interface OutlookProps {
  stream: string;
  group: Group;
  need: Need | undefined;
  forecast: Forecast;
}

/** The verdict of the gateway, with the trend of the lag. */
function Outlook({ stream, group, need, forecast: outlook }: OutlookProps) {
  const [title, trend] = spoken(outlook, group);
  if (!need) return <p class={`outlook ${outlook.state === "unknown" ? "soft" : "good"}`} role="status"><b>{title}.</b> {trend}</p>;
  return (
    <p class={`outlook ${need.kind}`} role="status">
      <b>{need.text}.</b> {group.lag ? trend : ""} <a href={groupPlace(stream, group.name, need.tab)}>{LINKS[need.tab]}</a>
    </p>
  );
}

const LINKS: Record<Need["tab"], string> = {
  pending: "Pending entries",
  keys: "Keys",
  consumers: "Consumers",
  "dead-letters": "Dead letters",
  push: "Push",
  settings: "Settings",
};

/** Return the trend of the lag as a title and a sentence. */
function spoken(outlook: Forecast, { released }: Group): [title: string, text: string] {
  switch (outlook.state) {
    case "caught up":
      return ["Caught up", released ? `${counted(released, "entry", "entries")} will be redelivered.` : "The group delivers entries as they arrive."];
    case "draining":
      return ["Catching up", `The lag decreases by ${rate(outlook.perSecond)} and reaches 0 in about ${duration(outlook.emptyInMs)}, at ${moment(Date.now() + outlook.emptyInMs)}.`];
    case "growing":
      return ["Falling behind", `The lag increases by ${rate(outlook.perSecond)}.`];
    case "steady":
      return ["Steady", `The lag stays at about ${count(outlook.lag)}.`];
    case "unknown":
      return ["Measuring", "The trend of the lag is known in a few seconds."];
  }
}
