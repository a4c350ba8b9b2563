/** Push: the gateway sends the entries of a group to a URL by itself. */
import type { Context } from "./context.js";
import { path } from "./wire/rest.js";
import type { PatternPushInput, PushInfo, PushInput, RetriedPush } from "./wire/types.js";

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

  /** Replace the secret, and return the new one. Requests are signed with the old one as well for so long: a day unless given. */
  async rotate(overlapMs?: number): Promise<string> {
    return (await this.#ask<{ secret: string }>("POST", "/rotate", { overlapMs })).secret;
  }

  /** Delete it; the group stays, with what is pending. */
  delete(): Promise<void> {
    return this.#ask("DELETE");
  }

  #ask<T>(method: string, act = "", body?: unknown): Promise<T> {
    const place = this.groups ? path`/v1/groups/${this.group}/push` : path`/v1/streams/${this.stream}/groups/${this.group}/push`;
    return this.context.rest.ask(method, place + act, { query: { match: this.groups ? this.stream : undefined }, body });
  }
}
