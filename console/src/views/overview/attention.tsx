/** Attention: the groups that need somebody, the worst first, each with the reason and a link to where it is mended. */
import { useMemo } from "preact/hooks";
import { key } from "../../gateway/key.js";
import { usePolled } from "../../gateway/polling.js";
import { principal } from "../../gateway/principal.js";
import type { Stream } from "../../gateway/shapes.js";
import { Refusal } from "../../parts/refusal.js";
import { groupPlace, patternPushPlace } from "../../route.js";
import { count, counted } from "../../values/numbers.js";
import { GroupSweep, SHOWN } from "./group-sweep.js";

const EVERY_MS = 3000;

interface Props {
  /** Returns all streams, if these are known anyhow. */
  listed: () => readonly Stream[] | undefined;
}

/** It begins once the rights are known: they say whether pushes may be asked for. */
export function Attention({ listed }: Props) {
  return principal.value ? <Needs listed={listed} /> : <p class="outlook soft">Checking groups …</p>;
}

function Needs({ listed }: Props) {
  const sweep = useMemo(() => new GroupSweep(listed), [key.value]);
  const { problem } = usePolled((signal) => sweep.round(signal), EVERY_MS, key.value ?? "");
  const needs = sweep.needs.value;
  const others = needs.length - SHOWN;
  return (
    <section class="attention" aria-label="Needs attention">
      {problem.value && <Refusal problem={problem.value} what="the state of the groups" />}
      {needs.length === 0 ? (
        <Nothing sweep={sweep} />
      ) : (
        <>
          <h2>
            Needs attention <span class="soft">{count(needs.length)}</span>
          </h2>
          <ul>
            {needs.slice(0, SHOWN).map(({ stream, group, isOverPattern, kind, tab, text }) => (
              <li class={kind} key={`${stream}/${group}/${isOverPattern}`}>
                <a href={isOverPattern ? patternPushPlace(stream, group) : groupPlace(stream, group, tab)} title={`${stream} / ${group}`}>
                  {`${stream} / ${group}`}
                </a>
                <span>{text}</span>
              </li>
            ))}
          </ul>
          {(others > 0 || !sweep.isComplete.value) && (
            <p class="soft">
              {others > 0 && `${counted(others, "more group")} with less severe problems. `}
              {!sweep.isComplete.value && `Checking more streams: ${counted(sweep.looked.value.streams, "stream")} so far.`}
            </p>
          )}
        </>
      )}
    </section>
  );
}

function Nothing({ sweep }: { sweep: GroupSweep }) {
  const { streams, groups } = sweep.looked.value;
  if (!sweep.isComplete.value) return <p class="outlook soft">{`Checking groups${streams ? `: ${counted(streams, "stream")} so far` : ""} …`}</p>;
  const dead = sweep.areCounted.value ? "There are no dead letters." : "Your key cannot count all dead letters.";
  return (
    <p class="outlook good">
      <b>Nothing needs attention.</b> {groups ? `${groups === 1 ? "The only group keeps up" : `All ${count(groups)} groups keep up`}. ${dead}` : "There are no groups."}
    </p>
  );
}
