/**
 * A client of the Headgate WebSocket: subscriptions that outlive their connection.
 *
 * It comes back by itself, reads on where it was, gives credit as entries are worked off, and renews
 * its token before it ends. The types are those of the AsyncAPI document; there is nothing else it
 * depends on.
 */
import type {
  Authenticated,
  ClientFrame,
  Delivery,
  Draining,
  Entries,
  Entry,
  EntryInput,
  ProblemFrame,
  Problem,
  ServerFrame,
  Settled,
  SubscribeFrame,
} from "./frames.js";

export type { Delivery, Entry, EntryInput, Problem, Settled };

/** What to read, as the frame `subscribe` says it. */
export type Wanted = Omit<SubscribeFrame, "type" | "rid" | "sub" | "auto_credit">;

/** What is told of a subscription. Only `entries` is needed; a promise holds back further credit. */
export interface Handlers {
  entries(entries: (Entry | Delivery)[], frame: Entries): void | Promise<void>;
  state?(state: string): void;
  claimed?(ids: string[], by: string): void;
  ended?(reason: string, problem?: Problem): void;
}

/** A key or a token, or a function that returns a fresh one each time it is called. */
export type Token = string | (() => string | Promise<string>);

/** How to connect. */
export interface Options {
  /** Who is there, if the gateway asks for it. */
  token?: Token | undefined;
  /** Told how the connection is, and with which code it was closed. */
  onState?: (state: ConnectionState, code?: number) => void;
}

/** `open`; `lost`: it comes back; `closed`: it does not, because of `code`. */
export type ConnectionState = "open" | "lost" | "closed";

/** A request was refused (`problem`), or there is no connection, or it was lost before the answer came. */
export class Refused extends Error {
  constructor(readonly problem: Problem | undefined) {
    super(problem?.detail ?? "there is no connection, or it was lost before the answer came");
  }
}

const PROTOCOL = "headgate.v1.json";
const CREDIT = 64;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 30_000;
const UNAUTHENTICATED = 4401;
const RATE_LIMITED = 4529;
const LIMITED_ATTEMPT = 4; // after RATE_LIMITED: as if so many attempts had failed
const RENEW_MS_MIN = 1000;
const RENEW_MS_MAX = 2 ** 31 - 1; // a timer takes no more
const RENEW_AHEAD_MS = 60_000;

/** Tell whether to connect again after a close code; after 4401 it takes a new token. */
export function comesBack(code: number): boolean {
  if (code === UNAUTHENTICATED) return true;
  return !(code === 1000 || code === 1009 || (code >= 4400 && code <= 4499));
}

/** Return how long to wait before a token with so much time left is renewed. */
export function renewMs(leftMs: number): number {
  const waitMs = Math.max(leftMs - RENEW_AHEAD_MS, leftMs / 2);
  return Math.min(RENEW_MS_MAX, Math.max(RENEW_MS_MIN, waitMs));
}

/** What a ticket is for: one stream, and `consume` as a consumer of a group. */
export interface TicketRequest {
  stream: string;
  group?: string;
  consumer?: string;
  do: ("read" | "append" | "consume")[];
  ttl_ms?: number;
}

/**
 * Return a ticket: it stands in the URL of events (`?ticket=`), where a browser can send no header.
 * It is good for every reconnection until it ends. The token itself never stands in a URL.
 */
export async function createTicket(gateway: string, token: Token, wanted: TicketRequest): Promise<string> {
  const answer = await fetch(`${urlOf(gateway)}/v1/tickets`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${await freshToken(token)}` },
    body: JSON.stringify(wanted),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Refused(said as Problem);
  return (said as { ticket: string }).ticket;
}

async function freshToken(token: Token): Promise<string> {
  return typeof token === "string" ? token : token();
}

function urlOf(gateway: string): string {
  return (gateway.includes("://") ? gateway : `http://${gateway}`).replace(/\/$/, "");
}

/** Return how long to wait before the next attempt, the first being 0; chance is from 0 to 1. */
export function backoffMs(attempt: number, chance: number): number {
  return Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** attempt) * (0.5 + chance);
}

class Subscription {
  /** The cursor of a stream: the connection before has sent everything up to it. */
  after: string | undefined;

  constructor(
    readonly wanted: Wanted,
    readonly handlers: Handlers,
  ) {
    this.after = wanted.after;
  }

  frame(sub: string): SubscribeFrame {
    const { after: _, ...wanted } = this.wanted;
    const frame = { type: "subscribe" as const, rid: sub, sub, credit: CREDIT, ...wanted };
    // A group knows by itself where it is, and what is settled gives its credit back.
    if (wanted.group != null) return { ...frame, auto_credit: wanted.ack !== "none" };
    return this.after === undefined ? frame : { ...frame, after: this.after };
  }

  /** Whether credit is given back by whoever has worked off the entries. */
  get isCreditOurs(): boolean {
    return this.wanted.group == null || this.wanted.ack === "none";
  }
}

type Answer = Extract<ServerFrame, { rid?: string | null }>;
type Waiting = { resolve(frame: Answer): void; reject(error: Refused): void };
type Opening = { resolve(): void; reject(error: Refused): void };
type Unnumbered<Frame> = Frame extends unknown ? Omit<Frame, "rid"> : never;

/** One connection, made anew whenever it is lost, and everything subscribed over it. */
export class HeadgateClient {
  private socket: WebSocket | undefined;
  private readonly subscriptions = new Map<string, Subscription>();
  private readonly waiting = new Map<string, Waiting>();
  private readonly openings: Opening[] = [];
  private count = 0;
  private attempt = 0;
  private comeBackAfterMs: number | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private renewal: ReturnType<typeof setTimeout> | undefined;
  private token: string | undefined;
  private refusedToken: string | undefined;
  private isOpen = false;
  private isOver = false;

  /**
   * Connect to a gateway.
   * @param url where it is: `http://localhost:8080`, or without the scheme
   * @param options who is there, and who is told how the connection is
   */
  constructor(
    private readonly url: string,
    private readonly options: Options = {},
  ) {
    void this.connect();
  }

  /** Begin to read, now and after every reconnection; `sub` is your name for it. */
  subscribe(sub: string, wanted: Wanted, handlers: Handlers): void {
    const subscription = new Subscription(wanted, handlers);
    this.subscriptions.set(sub, subscription);
    if (this.isOpen) this.send(subscription.frame(sub));
  }

  /** End a subscription; what it holds goes back. */
  unsubscribe(sub: string): void {
    if (this.subscriptions.delete(sub)) this.send({ type: "unsubscribe", sub });
  }

  /** Acknowledge entries of a group; returns what became of each. */
  async ack(sub: string, ids: string[]): Promise<Settled[]> {
    return settled(await this.ask({ type: "ack", sub, ids }));
  }

  /** Give entries back, tried in vain unless `mode` says otherwise. */
  async nack(sub: string, ids: string[], mode: "silent" | "fail" | "fatal" = "fail"): Promise<Settled[]> {
    return settled(await this.ask({ type: "nack", sub, ids, mode }));
  }

  /** Say that entries are still being worked on. */
  async extend(sub: string, ids: string[]): Promise<Settled[]> {
    return settled(await this.ask({ type: "extend", sub, ids }));
  }

  /** Append entries, all or none, once there is a connection; returns their ids, once they are safe. */
  async append(stream: string, entries: EntryInput[]): Promise<string[]> {
    await this.opened();
    const answer = await this.ask({ type: "append", stream, entries });
    return answer.type === "appended" ? answer.ids : [];
  }

  /** Say goodbye. */
  close(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    clearTimeout(this.renewal);
    if (this.socket) this.socket.close(1000);
    else this.end(1000);
  }

  private async connect(): Promise<void> {
    try {
      this.token = this.options.token === undefined ? undefined : await freshToken(this.options.token);
    } catch {
      this.comeBack(UNAUTHENTICATED); // whoever makes tokens may be back soon
      return;
    }
    if (this.isOver) return;
    if (this.token !== undefined && this.token === this.refusedToken) {
      this.end(UNAUTHENTICATED); // there is no other
      return;
    }
    const socket = new WebSocket(`${urlOf(this.url).replace(/^http/, "ws")}/v1/ws`, PROTOCOL);
    this.socket = socket;
    // Never in the URL, which proxies and browsers write down.
    socket.onopen = () => this.token !== undefined && socket.send(authFrame(this.token));
    socket.onmessage = ({ data }) => this.receive(JSON.parse(String(data)) as ServerFrame);
    socket.onclose = ({ code }) => this.lost(socket, code);
    socket.onerror = () => this.lost(socket, 1006); // not every implementation closes, too
  }

  private lost(socket: WebSocket, code: number): void {
    if (socket !== this.socket) return;
    this.socket = undefined;
    this.isOpen = false;
    clearTimeout(this.renewal);
    for (const { reject } of this.waiting.values()) reject(new Refused(undefined));
    this.waiting.clear();
    if (code === UNAUTHENTICATED) this.refusedToken = this.token;
    const isFixed = typeof this.options.token !== "function"; // the next connection would be refused, too
    if (this.isOver || !comesBack(code) || (code === UNAUTHENTICATED && isFixed)) this.end(code);
    else this.comeBack(code);
  }

  private comeBack(code: number): void {
    if (this.isOver) return;
    this.options.onState?.("lost", code);
    if (code === RATE_LIMITED) this.attempt = Math.max(this.attempt, LIMITED_ATTEMPT);
    const afterMs = this.comeBackAfterMs ?? backoffMs(this.attempt, Math.random());
    this.attempt += 1;
    this.comeBackAfterMs = undefined;
    this.timer = setTimeout(() => void this.connect(), afterMs);
  }

  private end(code: number): void {
    this.isOver = true;
    for (const { reject } of this.openings.splice(0)) reject(new Refused(undefined));
    this.options.onState?.("closed", code);
  }

  private opens(): void {
    this.isOpen = true;
    this.attempt = 0;
    for (const [sub, subscription] of this.subscriptions) this.send(subscription.frame(sub));
    for (const { resolve } of this.openings.splice(0)) resolve();
    this.options.onState?.("open");
  }

  private authenticated({ expires_at_ms }: Authenticated): void {
    this.refusedToken = undefined;
    if (!this.isOpen) this.opens();
    if (expires_at_ms != null) this.renewBefore(expires_at_ms);
  }

  private renewBefore(expiresAtMs: number): void {
    const { token } = this.options;
    if (typeof token !== "function") return;
    clearTimeout(this.renewal);
    this.renewal = setTimeout(() => void this.renew(token, expiresAtMs), renewMs(expiresAtMs - Date.now()));
  }

  /** Send a fresh token, so that the connection goes on. If there is none, it ends with the old one. */
  private async renew(token: () => string | Promise<string>, expiresAtMs: number): Promise<void> {
    const { socket } = this;
    const fresh = await freshToken(token).catch(() => this.token);
    if (socket === undefined || socket !== this.socket) return;
    if (fresh === undefined || fresh === this.token) this.renewBefore(expiresAtMs);
    else socket.send(authFrame((this.token = fresh)));
  }

  private receive(frame: ServerFrame): void {
    switch (frame.type) {
      case "welcome":
        if (this.token === undefined) this.opens();
        return;
      case "authenticated":
        this.authenticated(frame);
        return;
      case "draining":
        this.comeBackAfterMs = (frame satisfies Draining).reconnect_after_ms;
        return;
      case "subscribed": {
        const subscription = this.subscriptions.get(frame.sub);
        if (subscription) subscription.after = frame.position;
        return;
      }
      case "entries":
        void this.work(frame);
        return;
      case "state":
        this.subscriptions.get(frame.sub)?.handlers.state?.(frame.state);
        return;
      case "claimed":
        this.subscriptions.get(frame.sub)?.handlers.claimed?.(frame.ids, frame.by);
        return;
      case "unsubscribed": {
        const subscription = this.subscriptions.get(frame.sub);
        if (frame.reason === "requested" || !subscription) return;
        this.subscriptions.delete(frame.sub);
        subscription.handlers.ended?.(frame.reason);
        return;
      }
      case "problem":
        this.refuse(frame);
        return;
      default:
        this.answer(frame);
    }
  }

  private async work(frame: Entries): Promise<void> {
    const subscription = this.subscriptions.get(frame.sub);
    if (!subscription) return;
    const { entries } = frame;
    const last = entries.at(-1);
    if (last) subscription.after = last.id;
    const socket = this.socket;
    await subscription.handlers.entries(entries, frame);
    // A new connection has new credit.
    if (subscription.isCreditOurs && entries.length > 0 && socket === this.socket) {
      this.send({ type: "credit", sub: frame.sub, entries: entries.length });
    }
  }

  private refuse({ rid, sub, problem }: ProblemFrame): void {
    const asked = rid == null ? undefined : this.waiting.get(rid);
    if (rid != null && asked) {
      this.waiting.delete(rid);
      asked.reject(new Refused(problem));
      return;
    }
    const name = sub ?? rid ?? "";
    const subscription = this.subscriptions.get(name);
    // What may succeed later is asked for again by the next connection.
    if (subscription && !problem.retryable) {
      this.subscriptions.delete(name);
      subscription.handlers.ended?.(problem.code, problem);
    }
  }

  private answer(frame: Answer): void {
    if (frame.rid == null) return;
    this.waiting.get(frame.rid)?.resolve(frame);
    this.waiting.delete(frame.rid);
  }

  /** Return once there is a connection; refused if there will be none. */
  private opened(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.isOpen) resolve();
      else if (this.isOver) reject(new Refused(undefined));
      else this.openings.push({ resolve, reject });
    });
  }

  private ask(frame: Unnumbered<ClientFrame>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (!this.isOpen) return reject(new Refused(undefined));
      const rid = `r${(this.count += 1)}`;
      this.waiting.set(rid, { resolve, reject });
      this.send({ ...frame, rid } as ClientFrame);
    });
  }

  private send(frame: ClientFrame): void {
    if (this.isOpen) this.socket?.send(JSON.stringify(frame));
  }
}

function authFrame(token: string): string {
  return JSON.stringify({ type: "auth", token } satisfies ClientFrame);
}

function settled(answer: Answer): Settled[] {
  return answer.type === "acked" || answer.type === "ok" ? answer.results : [];
}
