/** Steps: what the handlers of an entry have done, as the clients keep it in the table `STREAM.GROUP.steps`. */
import { timeOf } from "./ids.js";
import { exactMoment } from "./times.js";

/** Of the tables beside a stream's groups. */
export const SUFFIX = ".steps";

interface Row {
  key: string;
  id: string;
  fields: Record<string, string>;
}

export interface Step {
  name: string;
  /** When it was done, or looked at last. */
  atMs: number;
  /** What came of it, or what it waits for. */
  text: string;
  isWaiting: boolean;
}

/** Return the groups of a stream that have steps, given the names of streams. */
export function groupsWithSteps(stream: string, names: readonly string[]): string[] {
  const prefix = `${stream}.`;
  return names.filter((name) => name.startsWith(prefix) && name.endsWith(SUFFIX)).map((name) => name.slice(prefix.length, -SUFFIX.length));
}

/** Return the steps of an entry in the order in which they were done. */
export function stepsOf(entryId: string, rows: readonly Row[]): Step[] {
  const steps = rows.map((row) => ({ ...stepOf(row.key.slice(entryId.length + 1), row), atMs: timeOf(row.id) }));
  return steps.sort((a, b) => a.atMs - b.atMs);
}

function stepOf(rest: string, { id, fields }: Row): Omit<Step, "atMs"> {
  const [kind, ...parts] = rest.split("/");
  const name = parts.join("/");
  if (kind === "step") return { name, text: fields.result ?? "", isWaiting: false };
  const until = () => `until ${exactMoment(Number(fields.since_ms ?? timeOf(id)) + Number(fields.for_ms))}`;
  if (kind === "sleep") return { name: `sleep ${name}`, text: until(), isWaiting: true };
  const key = `wait for ${decodeURIComponent(name)}`;
  if (fields.value !== undefined) return { name: key, text: fields.value, isWaiting: false };
  if (fields.timed_out !== undefined) return { name: key, text: "timed out", isWaiting: false };
  return { name: key, text: until(), isWaiting: true };
}
