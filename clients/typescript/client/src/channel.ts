/** Channel: messages that are not stored, and who is present. */
import { type Context, randomName } from "./context.js";
import type { LiveState, Subscriber, Told, Wanted } from "./live/line.js";
import { type ConnectionOptions, Subscription } from "./live/subscription.js";
import type { Following } from "./stream.js";
import type { PresenceForm, Subscribed } from "./wire/frames.js";
import { fromWire } from "./wire/names.js";
import { Problem } from "./wire/problem.js";
import { path } from "./wire/rest.js";
import type { PresentMember, PresentMembers } from "./wire/types.js";

/** Minimum interval between changes of presence data. Of faster changes, only the newest is sent. */
const UPDATE_MS = 50;

export interface Message {
  channel: string;
  /** The published value: any JSON. */
  data: any;
  /** Number of earlier messages that this program was too slow to read. */
  dropped: number;
}

/** Presence data of a connection. */
export type PresenceData = Record<string, unknown>;

export interface PresenceOptions {
  /** Data that others see about this connection: at most 1,024 bytes of JSON. */
  data?: PresenceData | undefined;
  /** Name of this connection. Another connection with the same name replaces it. Default: a random name. */
  key?: string | undefined;
  /** See who is present without being listed. */
  hidden?: boolean | undefined;
}

/** Callbacks of a channel. */
export interface ChannelHandlers extends ConnectionOptions {
  onMessage?: ((message: Message) => void) | undefined;
  /** Makes this connection present at the channel, and shows who else is. */
  presence?: PresenceOptions | undefined;
  /** With `presence`: called with the present members, and again after each change. */
  onMembers?: ((members: PresentMember[]) => void) | undefined;
  /**
   * Called when the subscription ends with an error. Errors in a callback go to `onError` of the client, and do not end
   * it.
   */
  onError?: ((error: unknown) => void) | undefined;
  /** Ends the subscription. */
  signal?: AbortSignal | undefined;
}

/** A subscription of a channel. `close` ends it. */
export interface Listening extends Following {
  /** Name of this connection among those of its member. */
  readonly key: string;
  /** The present members, as far as known. */
  readonly members: PresentMember[];
  /**
   * Changes the data that others see about this connection. Of changes within 50 ms, only the newest is sent. If the
   * gateway refuses a change, `onError` of the client receives the problem, and the data do not change.
   */
  update(data: PresenceData): void;
}

export class Channel {
  constructor(
    private readonly context: Context,
    readonly name: string,
  ) {}

  get #path(): string {
    return path`/v1/channels/${this.name}`;
  }

  /**
   * Publishes a message, any JSON. Returns the number of subscribers. The message is delivered at most once and not
   * stored: subscribers that are disconnected or too slow miss it. It is sent over the client's WebSocket if one is
   * open, in the order of the calls. If the answer is lost, the client does not publish it again.
   * @throws Error if 1,000 messages of the client are waiting for their answers
   */
  async publish(data: unknown): Promise<number> {
    const { rest, line } = this.context;
    const answered = line.ask({ type: "publish", channel: this.name, data: data as PresenceData });
    const answer = await (answered ?? rest.ask("POST", `${this.#path}/messages`, { body: { data } }));
    return (answer as { receivers: number }).receivers;
  }

  /**
   * Receives messages that are published from now on, across reconnections. Misses messages published while
   * disconnected.
   */
  subscribe({ onError, ...handlers }: ChannelHandlers): Listening {
    const listener = new Listener(this.context, this.name, handlers, onError);
    handlers.signal?.addEventListener("abort", () => listener.close(), { once: true });
    return listener;
  }

  /** Returns the present members: the first `limit` (default: 100), and the total number. */
  members({ limit, signal }: { limit?: number; signal?: AbortSignal } = {}): Promise<PresentMembers> {
    return this.context.rest.ask("GET", `${this.#path}/presence`, { query: { limit }, signal });
  }
}

class Listener extends Subscription implements Listening, Subscriber {
  readonly isBusy = false;
  readonly key: string;
  readonly #members = new Map<string, PresentMember>();
  readonly #sub: string;
  #data: PresenceData;
  #sent: PresenceData;
  #noted: PresenceData; // the data that the gateway has accepted
  #hasMore = false;
  #pause: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly context: Context,
    private readonly channel: string,
    private readonly handlers: Omit<ChannelHandlers, "onError">,
    private readonly onError = (error: unknown) => this.#report(error),
  ) {
    super(handlers);
    const { data = {}, key = randomName() } = handlers.presence ?? {};
    this.key = key; // stays the same after a loss, so others do not see the connection leave
    this.#data = this.#sent = this.#noted = data;
    this.#sub = context.nextSub();
    context.line.add(this.#sub, this);
  }

  get members(): PresentMember[] {
    return [...this.#members.values()];
  }

  update(data: PresenceData): void {
    this.#data = data;
    if (!this.#pause) this.#send();
  }

  close(): void {
    clearTimeout(this.#pause);
    void this.context.line.remove(this.#sub);
  }

  wanted(): Wanted {
    const { presence } = this.handlers;
    const { channel, key } = this;
    const data = (this.#sent = this.#data);
    return { channel, ...(presence && { presence: { hidden: false, ...presence, data, key } as PresenceForm }) };
  }

  override subscribed(frame: Subscribed): void {
    this.#hasMore = false;
    this.#noted = this.#sent;
    super.subscribed(frame);
    if (this.#data !== this.#sent) this.#send();
  }

  told(frame: Told): void {
    try {
      if (frame.type === "message") {
        const { channel, data, dropped = 0 } = frame;
        this.handlers.onMessage?.({ channel, data, dropped });
      } else this.#learn(frame);
    } catch (error) {
      this.#report(error);
    }
  }

  override ended(error?: Error): void {
    super.ended(error);
    if (error) this.onError(error);
  }

  entries(): void {}
  state(_state: LiveState): void {}
  claimed(): void {}

  #learn(frame: Exclude<Told, { type: "message" }>): void {
    if (frame.type === "presence") {
      if (frame.event === "left") this.#members.delete(frame.member.id);
      else this.#know(frame.member);
    } else {
      // A gateway that has just started does not know yet who returns.
      if (frame.settled && !this.#hasMore) this.#members.clear();
      this.#hasMore = frame.more;
      for (const member of frame.members) this.#know(member);
    }
    if (!this.#hasMore) this.handlers.onMembers?.(this.members);
  }

  #know(member: unknown): void {
    const known = fromWire<PresentMember>(member);
    this.#members.set(known.id, known);
  }

  #report(error: unknown): void {
    this.context.report(error, `channel ${this.channel}`);
  }

  #send(): void {
    if (this.connection !== "live") return; // the next subscription sends it
    const data = (this.#sent = this.#data);
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      if (this.#data !== data) this.#send();
    }, UPDATE_MS);
    this.context.line.ask({ type: "presence", sub: this.#sub, data })?.then(
      () => (this.#noted = data),
      (error) => {
        if (!(error instanceof Problem)) return;
        if (this.#data === data) this.#data = this.#noted;
        this.#report(error);
      },
    );
  }
}
