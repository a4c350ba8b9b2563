/**
 * Group sweep: looks at the groups of all streams, some streams at a time, and keeps those that need somebody. A round
 * asks for a few dozen streams, however many there are; those that are shown are among them each time. Until all were
 * looked at once, a round but the first goes on for a while: as far as the gateway is quick.
 */
import { signal, untracked } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { Problem } from "../../gateway/problem.js";
import { denialOf } from "../../gateway/principal.js";
import type { Group, PushSummary, Stream } from "../../gateway/shapes.js";
import { type Need, needOf, needOfPush, worstNeedFirst } from "../../values/needs.js";
import { countLetters, describe, type LetterCount, lettersShown } from "../group/letter-count.js";

export const SHOWN = 20;
const PAGE = 200;
const PAGES = 5; // of streams that may have no group
const FIRST_STREAMS = 50; // at a time until all were looked at once
const FIRST_MS = 2000; // of a round until then; the page has other things to ask for, too
const STREAMS = 12; // in each round from then on
const GROUPS = 1000; // of a stream
const COUNTS = 20; // of dead letters, in a round
const PUSHES = 1000;
const PUSHES_MS = 9000; // between two lists of them

export interface GroupNeed extends Need {
  stream: string; // or the pattern
  group: string;
  isOverPattern?: true;
}

interface Known {
  group: Group;
  letters: LetterCount | undefined;
  countedAtMs: number; // 0: not counted yet
}

export class GroupSweep {
  readonly needs = signal<readonly GroupNeed[]>([]);
  /** Whether all groups were looked at. */
  readonly isComplete = signal(false);
  /** Whether the dead letters of all these are known. */
  readonly areCounted = signal(true);
  /** Numbers of streams and groups that were looked at. */
  readonly looked = signal({ streams: 0, groups: 0 });
  readonly #known = new Map<string, Map<string, Known>>();
  #queue: string[] = [];
  #seen = new Set<string>(); // streams with groups, in this sweep
  #streams = 0;
  #cursor: string | undefined; // of the next page; the first one unless given
  #overPatterns: PushSummary[] = [];
  #pushesAtMs = 0;
  #isBegun = false;

  /** `listed` returns all streams, if these are known anyhow. */
  constructor(private readonly listed: () => readonly Stream[] | undefined) {}

  /** Look at the groups that are shown, and at those of some more streams. */
  async round(signal: AbortSignal): Promise<void> {
    const untilMs = Date.now() + (this.#isBegun ? FIRST_MS : 0);
    this.#isBegun = true;
    await this.#listPushes(signal);
    await this.#some(this.needs.peek().slice(0, SHOWN).flatMap(({ stream, isOverPattern }) => (isOverPattern ? [] : [stream])), signal);
    while (!this.isComplete.peek() && Date.now() < untilMs) await this.#some([], signal);
  }

  /** Look at the groups of some streams, and of those that are shown. */
  async #some(shown: string[], signal: AbortSignal): Promise<void> {
    await this.#fill(signal);
    const next = this.#queue.slice(0, this.isComplete.peek() ? STREAMS : FIRST_STREAMS);
    const sources = new Map<string, Promise<Stream | undefined>>();
    const describeOnce = (name: string) => sources.get(name) ?? (sources.set(name, describe(name, signal)), sources.get(name)!);
    await Promise.all([...new Set([...next, ...shown])].map((stream) => this.#look(stream, signal)));
    await this.#count([...next, ...shown], describeOnce, signal);
    this.#queue.splice(0, next.length);
    if (this.#queue.length === 0 && this.#cursor === undefined) this.#end();
    this.#tell();
  }

  /** Have the pushes over patterns, if they may be seen. */
  async #listPushes(signal: AbortSignal): Promise<void> {
    if (Date.now() - this.#pushesAtMs < PUSHES_MS || untracked(() => denialOf({ right: "manage" }))) return;
    const { pushes } = await send(call("get", "/v1/pushes", { params: { query: { limit: PUSHES } } }), signal);
    this.#overPatterns = pushes.filter(({ match }) => match !== undefined);
    this.#pushesAtMs = Date.now();
  }

  /** Have streams to look at. */
  async #fill(signal: AbortSignal): Promise<void> {
    for (let page = 0; this.#queue.length === 0 && page < PAGES; page += 1) {
      const all = this.#cursor === undefined ? this.listed() : undefined;
      const query = { limit: PAGE, ...(this.#cursor === undefined ? {} : { cursor: this.#cursor }) };
      const { streams, next_cursor } = all ? { streams: all, next_cursor: null } : await send(call("get", "/v1/streams", { params: { query } }), signal);
      this.#streams += streams.length;
      this.#queue = streams.filter(({ groups }) => groups).map(({ name }) => name);
      for (const name of this.#queue) this.#seen.add(name);
      this.#cursor = next_cursor ?? undefined;
      if (this.#cursor === undefined) return;
    }
  }

  async #look(stream: string, signal: AbortSignal): Promise<void> {
    const before = this.#known.get(stream);
    const groups = await groupsOf(stream, signal);
    const known = groups.map((group): [string, Known] => {
      const { letters, countedAtMs = 0 } = before?.get(group.name) ?? {};
      return [group.name, { group, letters, countedAtMs }];
    });
    if (known.length) this.#known.set(stream, new Map(known));
    else this.#known.delete(stream);
  }

  /** Count the dead letters of groups, those first that were not counted for the longest time. */
  async #count(streams: string[], describeOnce: (name: string) => Promise<Stream | undefined>, signal: AbortSignal): Promise<void> {
    const all = streams.flatMap((stream) => [...(this.#known.get(stream) ?? [])].map(([group, known]) => ({ stream, group, known })));
    for (const { known } of all) if (sourceOf(known) == null) known.letters = undefined;
    const due = all.filter(({ known }) => sourceOf(known) != null).sort((a, b) => a.known.countedAtMs - b.known.countedAtMs);
    await Promise.all(due.slice(0, COUNTS).map(async ({ stream, group, known }) => {
      try {
        known.letters = await countLetters({ stream, group }, await describeOnce(sourceOf(known)!), known.letters, signal);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        known.letters = undefined; // whoever may not read that stream does without
      }
      known.countedAtMs = Date.now();
    }));
  }

  /** Forget what is gone, and begin again. */
  #end(): void {
    for (const stream of this.#known.keys()) if (!this.#seen.has(stream)) this.#known.delete(stream);
    this.looked.value = { streams: this.#streams, groups: this.#groups() };
    this.isComplete.value = true;
    this.#seen = new Set();
    this.#streams = 0;
  }

  #tell(): void {
    if (!this.isComplete.peek()) this.looked.value = { streams: this.#streams - this.#queue.length, groups: this.#groups() };
    const needs: GroupNeed[] = [];
    let areCounted = true;
    for (const [stream, groups] of this.#known) {
      for (const [group, known] of groups) {
        const { letters } = known;
        areCounted &&= letters !== undefined || sourceOf(known) == null;
        const need = needOf(known.group, letters && { count: letters.count, shown: lettersShown(letters) });
        if (need) needs.push({ stream, group, ...need });
      }
    }
    for (const push of this.#overPatterns) {
      const need = needOfPush(push);
      if (need) needs.push({ stream: push.stream, group: push.group, isOverPattern: true, ...need });
    }
    this.areCounted.value = areCounted;
    this.needs.value = needs.sort(worstNeedFirst);
  }

  #groups(): number {
    return [...this.#known.values()].reduce((sum, { size }) => sum + size, 0);
  }
}

function sourceOf({ group }: Known): string | null | undefined {
  return group.policy.dead_letter_stream;
}

/** Return the groups of a stream; none, if it is gone, or may not be seen. */
async function groupsOf(stream: string, signal: AbortSignal): Promise<Group[]> {
  try {
    return (await send(call("get", "/v1/streams/{stream}/groups", { params: { path: { stream }, query: { limit: GROUPS } } }), signal)).groups;
  } catch (error) {
    if (error instanceof Problem && (error.isMissing || error.isForbidden)) return [];
    throw error;
  }
}
