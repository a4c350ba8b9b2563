/** Letter count: how many dead letters a group has. They are counted again only when their stream has changed. */
import { useRef } from "preact/hooks";
import { type Call, call, send } from "../../gateway/calls.js";
import { usePolled } from "../../gateway/polling.js";
import { Problem } from "../../gateway/problem.js";
import type { Group, Schemas, Stream } from "../../gateway/shapes.js";
import { count } from "../../values/numbers.js";

const EVERY_MS = 3000;
const COUNTED = 1000; // then it is enough to know that there are more
const ANSWERS = 5; // each looks at some thousand entries; other groups' dead letters may be among them

interface Place {
  stream: string;
  group: string;
}

export interface LetterCount {
  /** What the stream was like, so that another state of it shows. */
  of: string;
  count: number;
  /** Whether there may be more. */
  isLeast: boolean;
}

/** Return the filter of the gateway for the dead letters of a group, in the stream that its policy names. */
export function lettersOf({ stream, group }: Place): Record<string, unknown> {
  return { exact: { _stream: stream, _group: group } };
}

/** Describe a stream; undefined, if there is none. */
export async function describe(stream: string, signal: AbortSignal): Promise<Stream | undefined> {
  try {
    return await send(call("get", "/v1/streams/{stream}", { params: { path: { stream } } }), signal);
  } catch (error) {
    if (error instanceof Problem && error.isMissing) return undefined;
    throw error;
  }
}

/** Count the dead letters of a group in a stream, unless the last count is of the same state of it. */
export async function countLetters(place: Place, source: Stream | undefined, last: LetterCount | undefined, signal: AbortSignal): Promise<LetterCount> {
  if (!source?.length) return { of: "", count: 0, isLeast: false };
  const of = [source.epoch, source.length, source.entries_added, source.first_id, source.max_deleted_id].join();
  if (last?.of === of) return last;
  let counted = 0;
  let next: string | null | undefined;
  for (let answers = 0; answers < ANSWERS && counted < COUNTED && next !== null; answers += 1) {
    const answer = await send(someLetters(place, source.name, next, COUNTED - counted), signal);
    counted += answer.entries.length;
    next = answer.next_after ?? null;
  }
  return { of, count: counted, isLeast: next !== null };
}

function someLetters(place: Place, source: string, after: string | undefined, limit: number): Call<Schemas["Entries"]> {
  const query = { filter: JSON.stringify(lettersOf(place)), columns: "_id", archived: false, limit, ...(after === undefined ? {} : { start: `(${after}` }) };
  return call("get", "/v1/streams/{stream}/entries", { params: { path: { stream: source }, query } });
}

/** Return how many dead letters a group has; undefined until it is known, or if that may not be known. */
export function useLetterCount(place: Place, group: Group | undefined): LetterCount | undefined {
  const source = group?.policy.dead_letter_stream;
  const last = useRef<LetterCount | undefined>(undefined);
  const ask = async (signal: AbortSignal) => {
    if (source == null) return undefined;
    return (last.current = await countLetters(place, await describe(source, signal), last.current, signal));
  };
  const { data, problem } = usePolled(ask, EVERY_MS, JSON.stringify([place, source]));
  return problem.value ? undefined : data.value;
}

/** Return the number as it is shown. */
export function lettersShown({ count: number, isLeast }: LetterCount): string {
  return `${count(number)}${isLeast ? "+" : ""}`;
}
