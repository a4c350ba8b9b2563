/** Redriving: all dead letters of a group are sent back, at a rate that its consumers can take. */
import { signal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { changes } from "../../gateway/polling.js";
import { textOf } from "../../gateway/problem.js";
import type { Schemas } from "../../gateway/shapes.js";
import type { Act } from "../../parts/act.js";
import { notice } from "../../parts/notices.js";
import { counted, wholeNumber } from "../../values/numbers.js";

const AT_ONCE = 1000;
const SECOND_MS = 1000;

interface Place {
  stream: string;
  group: string;
}

interface Redriving extends Place {
  done: number;
  /** Dead letters that go back in a second; 0: as many as can. */
  perSecond: number;
  stop: () => void;
}

/** The redrive that is under way. */
export const redriving = signal<Redriving | undefined>();

export function redriveAll(place: Place): Act<Schemas["RedrivenLetters"]> {
  let perSecond = 0;
  return {
    title: "Redrive all dead letters",
    verb: "Redrive all",
    right: "manage",
    ...place,
    about: ({ rate }) =>
      `Sends the dead letters back to ${place.group}, the oldest first, with a delivery count of 0. ${rate ? `This page sends ${rate} per second until none are left or you stop it.` : "This page repeats the request below until none are left or you stop it."}`,
    fields: [{ name: "rate", label: "Rate per second", kind: "text", value: "100", hint: "Empty: no limit" }],
    call: ({ rate }) => {
      const limit = rate === "" ? AT_ONCE : wholeNumber(rate as string);
      if (!limit || limit > AT_ONCE) return `Enter a number from 1 to ${AT_ONCE}.`;
      perSecond = rate === "" ? 0 : limit;
      return redriveSome(place, limit);
    },
    done: ({ results }) => (results.length ? `${counted(results.length, "dead letter")} sent back so far.` : "There were no dead letters."),
    after: ({ results }) => void (results.length && goOn(place, perSecond, results.length)),
  };
}

async function goOn(place: Place, perSecond: number, done: number): Promise<void> {
  let isOver = false;
  const show = () => (redriving.value = { ...place, done, perSecond, stop: () => (isOver = true) });
  show();
  try {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, perSecond ? SECOND_MS : 0));
      if (isOver) break;
      const { results } = await send(redriveSome(place, perSecond || AT_ONCE));
      if (results.length === 0) break;
      done += results.length;
      show();
    }
    notice(`${counted(done, "dead letter")} sent back.`);
  } catch (error) {
    notice(`${counted(done, "dead letter")} sent back, then: ${textOf(error)}`, { isBad: true });
  } finally {
    redriving.value = undefined;
    changes.value += 1;
  }
}

function redriveSome({ stream, group }: Place, limit: number) {
  return call("post", "/v1/streams/{stream}/groups/{group}/dead-letters/redrive", { params: { path: { stream, group } }, body: { limit } });
}
