/** Push: the gateway sends the entries of a group to a URL. */
import type { Context } from "./context.js";
import { path } from "./wire/rest.js";
import type { PatternPushInput, PushAttempt, PushInfo, PushInput, PushReplay, PushReplayInput, RetriedPush } from "./wire/types.js";

export class Push {
  /** `groups` is set for a group over a pattern. Then `stream` is the pattern. */
  constructor(
    private readonly context: Context,
    readonly stream: string,
    readonly group: string,
    private readonly groups?: Pick<PatternPushInput, "create" | "weights">,
  ) {}

  /**
   * Creates the push or replaces it. Options that are left out have the default of the gateway. The answer has the
   * `secret` only when it is new. If the answer is lost, the request is not repeated: call `rotate` to get a secret
   * that you know.
   */
  set(push: PushInput): Promise<PushInfo> {
    return this.#ask("PUT", "", { ...this.groups, ...push });
  }

  /** Returns the state of the push and the latest answers of the receiver. */
  info(): Promise<PushInfo> {
    return this.#ask("GET");
  }

  /** Sends nothing until `resume`. Requests in progress finish. */
  pause(): Promise<PushInfo> {
    return this.#ask("POST", "/pause");
  }

  /** Resumes after a pause, or after the push was disabled. */
  resume(): Promise<PushInfo> {
    return this.#ask("POST", "/resume");
  }

  /** Retries failed entries now instead of waiting. Returns their number. */
  async retry(): Promise<number> {
    return (await this.#ask<RetriedPush>("POST", "/retry")).entries;
  }

  /** Sends a test event now and returns the result. No entry is sent or acknowledged. */
  test(): Promise<PushAttempt> {
    return this.#ask("POST", "/test");
  }

  /**
   * Replaces the secret and returns the new one. Requests are also signed with the old one for `overlapMs`. Default:
   * one day.
   */
  async rotate(overlapMs?: number): Promise<string> {
    return (await this.#ask<{ secret: string }>("POST", "/rotate", { overlapMs })).secret;
  }

  /** Yields the stored attempts, newest first: those of one entry, or all. */
  attempts(id?: string): AsyncGenerator<PushAttempt, void, void> {
    return this.context.rest.items(`${this.#place}/attempts`, "attempts", { id, match: this.groups && this.stream });
  }

  /**
   * Sends the entries of a range again without moving the group, or only counts them (`dryRun`). `info` shows the
   * progress.
   */
  replay(wanted: PushReplayInput): Promise<PushReplay> {
    return this.#ask("POST", "/replay", wanted);
  }

  /** Cancels the current replay. */
  cancelReplay(): Promise<PushReplay> {
    return this.#ask("DELETE", "/replay");
  }

  /** Deletes the push. The group and its pending entries remain. */
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
