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
      `The oldest go first, each with a count of 0, to the next reader of ${place.group}. ${rate ? `This page sends ${rate} in a second until there are none, or you stop it.` : "The line below sends the first ones; this page goes on until there are none."}`,
    fields: [{ name: "rate", label: "How many a second", kind: "text", value: "100", hint: "Empty: as fast as it goes" }],
    call: ({ rate }) => {
      const limit = rate === "" ? AT_ONCE : wholeNumber(rate as string);
      if (!limit || limit > AT_ONCE) return `Give a number from 1 to ${AT_ONCE}.`;
      perSecond = rate === "" ? 0 : limit;
      return redriveSome(place, limit);
    },
    done: ({ results }) => (results.length ? `${counted(results.length, "dead letter")} sent back so far.` : "There was no dead letter."),
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
