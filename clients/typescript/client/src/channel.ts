/** Channel: messages that are not kept, and who is there. */
import { type Context, randomName } from "./context.js";
import type { LiveState, Subscriber, Told, Wanted } from "./live/line.js";
import { type ConnectionOptions, Subscription } from "./live/subscription.js";
import type { Following } from "./stream.js";
import type { PresenceForm, Subscribed } from "./wire/frames.js";
import { fromWire } from "./wire/names.js";
import { Problem } from "./wire/problem.js";
import { path } from "./wire/rest.js";
import type { PresentMember, PresentMembers } from "./wire/types.js";

/** Data of a connection change no more often: of changes that come faster, only the newest is sent. */
const UPDATE_MS = 50;

export interface Message {
  channel: string;
  /** What was published: any JSON. */
  data: any;
  /** Messages before it that this program was too slow for. */
  dropped: number;
}

/** What a connection says of itself. */
export type PresenceData = Record<string, unknown>;

export interface PresenceOptions {
  /** What others are told of this connection: at most 1,024 bytes of JSON. */
  data?: PresenceData | undefined;
  /** A name for this connection: another one with the same takes its place. One is made unless given. */
  key?: string | undefined;
  /** See who is there, and be not among them. */
  hidden?: boolean | undefined;
}

/** Callbacks of a channel. */
export interface ChannelHandlers extends ConnectionOptions {
  onMessage?: ((message: Message) => void) | undefined;
  /** Be present at the channel, and know who else is. */
  presence?: PresenceOptions | undefined;
  /** With `presence`: told who is there, and again after each change. */
  onMembers?: ((members: PresentMember[]) => void) | undefined;
  /** Nothing more comes, for this reason. What a callback throws is told to the client's `onError`, and ends nothing. */
  onError?: ((error: unknown) => void) | undefined;
  /** Ends it. */
  signal?: AbortSignal | undefined;
}

/** A subscription of a channel that ends when it is told to. */
export interface Listening extends Following {
  /** The name of this connection among those of its member. */
  readonly key: string;
  /** Who is there, as far as it is known. */
  readonly members: PresentMember[];
  /**
   * Change what others are told of this connection. Of changes within 50 ms, only the newest is sent. What the gateway
   * refuses is told to the client's `onError`, and changes nothing.
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
   * Publish a message, any JSON; returns how many are subscribed. It is delivered at most once and not kept: whoever is
   * away or too slow misses it. It goes over the client's WebSocket if there is one, in the order of the calls.
   * If the answer is lost, it is not published again.
   * @throws Error if 1,000 messages of the client are on their way
   */
  async publish(data: unknown): Promise<number> {
    const { rest, line } = this.context;
    const answered = line.ask({ type: "publish", channel: this.name, data: data as PresenceData });
    const answer = await (answered ?? rest.ask("POST", `${this.#path}/messages`, { body: { data } }));
    return (answer as { receivers: number }).receivers;
  }

  /** Get the messages that are published from now on, over every reconnection. What is published meanwhile is missed. */
  subscribe({ onError, ...handlers }: ChannelHandlers): Listening {
    const listener = new Listener(this.context, this.name, handlers, onError);
    handlers.signal?.addEventListener("abort", () => listener.close(), { once: true });
    return listener;
  }

  /** Return who is present: the first `limit` members (100 unless given), and how many there are. */
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
  #noted: PresenceData; // what the gateway has taken
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
    this.key = key; // also one that is made stays through a loss: others do not see it leave
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
      // One that has just started does not know yet who comes back to it.
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
    if (this.connection !== "live") return; // it goes with the next subscription
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
