/** Push: the gateway sends the entries of a group to a URL by itself. */
import type { Context } from "./context.js";
import { path } from "./wire/rest.js";
import type { PatternPushInput, PushAttempt, PushInfo, PushInput, PushReplay, PushReplayInput, RetriedPush } from "./wire/types.js";

export class Push {
  /** `groups` is there if it is the push of a group over a pattern; then `stream` is the pattern. */
  constructor(
    private readonly context: Context,
    readonly stream: string,
    readonly group: string,
    private readonly groups?: Pick<PatternPushInput, "create" | "weights">,
  ) {}

  /**
   * Create the push, or replace it; what is left out is as the gateway has it. The answer has the `secret` when
   * that is new. If it is lost, it is not asked for again: `rotate` makes a secret that you know.
   */
  set(push: PushInput): Promise<PushInfo> {
    return this.#ask("PUT", "", { ...this.groups, ...push });
  }

  /** Return its state, and the last answers of its receiver. */
  info(): Promise<PushInfo> {
    return this.#ask("GET");
  }

  /** Send nothing until `resume`. Requests on their way end. */
  pause(): Promise<PushInfo> {
    return this.#ask("POST", "/pause");
  }

  /** Go on after a pause, or after the push was disabled. */
  resume(): Promise<PushInfo> {
    return this.#ask("POST", "/resume");
  }

  /** Send at once what failed and has to wait; returns how many entries. */
  async retry(): Promise<number> {
    return (await this.#ask<RetriedPush>("POST", "/retry")).entries;
  }

  /** Send a test event now, and return its result. No entry is sent or acknowledged. */
  test(): Promise<PushAttempt> {
    return this.#ask("POST", "/test");
  }

  /** Replace the secret, and return the new one. Requests are signed with the old one as well for so long: a day unless given. */
  async rotate(overlapMs?: number): Promise<string> {
    return (await this.#ask<{ secret: string }>("POST", "/rotate", { overlapMs })).secret;
  }

  /** Yield the attempts that are kept, newest first: of one entry, or all. */
  attempts(id?: string): AsyncGenerator<PushAttempt, void, void> {
    return this.context.rest.items(`${this.#place}/attempts`, "attempts", { id, match: this.groups && this.stream });
  }

  /** Send entries of a range again, without moving the group, or count them with `dryRun`; `info` has the progress. */
  replay(wanted: PushReplayInput): Promise<PushReplay> {
    return this.#ask("POST", "/replay", wanted);
  }

  /** Cancel the replay that runs. */
  cancelReplay(): Promise<PushReplay> {
    return this.#ask("DELETE", "/replay");
  }

  /** Delete it; the group stays, with what is pending. */
  delete(): Promise<void> {
    return this.#ask("DELETE");
  }

  get #place(): string {
    return this.groups ? path`/v1/groups/${this.group}/push` : path`/v1/streams/${this.stream}/groups/${this.group}/push`;
  }

  #ask<T>(method: string, act = "", body?: unknown): Promise<T> {
    return this.context.rest.ask(method, this.#place + act, { query: { match: this.groups ? this.stream : undefined }, body });
  }
}
