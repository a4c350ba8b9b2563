/** Steps: what the handlers of an entry have done in each group, and what they wait for. */
import { call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { groupPlace } from "../../route.js";
import { groupsWithSteps, type Step, stepsOf, SUFFIX } from "../../values/steps.js";
import { exactMoment } from "../../values/times.js";

const EVERY_MS = 5000;

interface OfGroup {
  group: string;
  steps: Step[];
}

export function Steps({ stream, entryId }: { stream: string; entryId: string }) {
  const { data } = usePolled((signal) => ask(stream, entryId, signal), EVERY_MS, JSON.stringify([stream, entryId]));
  return (
    <>
      {data.value?.map(({ group, steps }) => (
        <section class="history" aria-label={`Steps in ${group}`}>
          <h3>
            Steps in <a href={groupPlace(stream, group)}>{group}</a>
          </h3>
          <ol>
            {steps.map(({ name, atMs, text, isWaiting }) => (
              <li>
                <time>{exactMoment(atMs)}</time> <i>{name}</i> <bdi class={isWaiting ? "soft" : undefined}>{text}</bdi>
              </li>
            ))}
          </ol>
        </section>
      ))}
    </>
  );
}

async function ask(stream: string, entryId: string, signal: AbortSignal): Promise<OfGroup[]> {
  const listing = call("get", "/v1/streams", { params: { query: { prefix: `${stream}.`, limit: 100 } } });
  const names = (await send(listing, signal)).streams.map(({ name }) => name);
  const asked = groupsWithSteps(stream, names).map(async (group) => {
    const path = { stream: `${stream}.${group}${SUFFIX}` };
    const reading = call("get", "/v1/streams/{stream}/table", { params: { path, query: { prefix: `${entryId}/` } } });
    const rows = (await send(reading, signal).catch(() => undefined))?.rows ?? []; // it may be no table
    return { group, steps: stepsOf(entryId, rows) };
  });
  return (await Promise.all(asked)).filter(({ steps }) => steps.length);
}
