/** The line over one WebSocket. It reconnects after each loss, and subscribes everything again. */
import { backoffMs } from "../wire/backoff.js";
import { renewMs } from "../wire/credentials.js";
import { ABNORMAL, comesBack, RATE_LIMITED, type Socket, type SocketClass, UNAUTHENTICATED } from "./socket.js";
import type { Authenticated, ClientFrame, ServerFrame } from "../wire/frames.js";
import type { Answer, ConnectionState, Line, Question, Settlement, Subscriber } from "./line.js";
import { fromWire } from "../wire/names.js";
import { Disconnected, Problem } from "../wire/problem.js";
import type { Rest } from "../wire/rest.js";
import type { Settled } from "../wire/types.js";

const PROTOCOL = "headgate.v1.json";
/** After RATE_LIMITED, pauses are at least those after this many failed attempts. */
const LIMITED_ATTEMPT = 4;
/** Maximum number of published messages that wait for their answers. */
const PUBLISHED_MAX = 1000;
const CONNECT_MS_MAX = 10_000;
/** How long a connection without subscriptions stays open: the next one may follow at once. */
const LINGER_MS = 1000;

type Waiting = { resolve(answer: Answer): void; reject(error: Error): void };
type Timer = ReturnType<typeof setTimeout>;

/** Receives states of the connection. */
export interface Watcher {
  state(state: ConnectionState, code?: number): void;
  /** An attempt failed, and no frame has ever arrived. */
  unreached(attempts: number): void;
}

export class SocketLine implements Line {
  #isOpen = false;
  #socket: Socket | undefined;
  readonly #subscribers = new Map<string, Subscriber>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #timers: Record<"retry" | "renewal" | "silence" | "linger", Timer | undefined> = {
    retry: undefined, renewal: undefined, silence: undefined, linger: undefined,
  };
  #heartbeatMs = 20_000;
  #count = 0;
  #attempt = 0;
  #refusals = 0; // consecutive refusals of credentials
  #comeBackAfterMs: number | undefined;
  #token: string | undefined;
  #url = "";
  #problem: Problem | undefined; // why the gateway ends the connection
  #closeCode: number | undefined;
  #wasReached = false;
  #isConnecting = false;
  #isPaused = false;
  #isOver = false;

  constructor(
    private readonly rest: Rest,
    private readonly WebSocket: SocketClass,
    private readonly watcher: Watcher,
  ) {}

  add(sub: string, subscriber: Subscriber): void {
    if (this.#isOver) return subscriber.ended(this.#error());
    clearTimeout(this.#timers.linger);
    this.#subscribers.set(sub, subscriber);
    if (this.#isOpen) this.#subscribe(sub);
    else this.#connect();
  }

  async remove(sub: string): Promise<void> {
    if (!this.#subscribers.delete(sub)) return;
    if (this.#subscribers.size === 0) this.#timers.linger = setTimeout(() => this.#rest("idle"), LINGER_MS);
    if (this.#isOpen) await this.#ask({ type: "unsubscribe", sub }).catch(() => {}); // a loss also unsubscribes
  }

  credit(sub: string, entries: number): void {
    this.#send({ type: "credit", sub, entries });
  }

  async settle(frame: Settlement): Promise<Settled[]> {
    const answer = await this.#ask(frame);
    return answer.type === "acked" || answer.type === "ok" ? answer.results : [];
  }

  ask(frame: Question): Promise<Answer> | undefined {
    if (!this.#isOpen) return undefined;
    if (frame.type === "publish" && this.#waiting.size >= PUBLISHED_MAX) throw new Error(`${PUBLISHED_MAX} messages wait for their answers`);
    return this.#ask(frame);
  }

  pause(): void {
    if (this.#isPaused || this.#isOver) return;
    this.#isPaused = true;
    clearTimeout(this.#timers.retry);
    this.#drop(1000);
    this.watcher.state("paused");
  }

  // An open connection may be dead: send a ping.
  resume(): void {
    this.#isPaused = false;
    if (this.#isOpen) this.#listen(0);
    else if (this.#subscribers.size > 0) this.#connect();
  }

  get isBusy(): boolean {
    return this.#waiting.size > 0;
  }

  /**
   * Hands the subscriptions over to another line. Returns false if frames have arrived after all, or the line has
   * ended.
   */
  retire(): boolean {
    if (this.#wasReached || this.#isOver) return false;
    this.#isOver = true;
    this.#subscribers.clear();
    this.#rest("connecting");
    return true;
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closeCode = 1000;
    this.#rest("closed");
    for (const sub of [...this.#subscribers.keys()]) this.#finish(sub);
  }

  #rest(state: ConnectionState): void {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.#drop(1000);
    this.watcher.state(state);
  }

  #connect(): void {
    if (this.#socket || this.#isConnecting || this.#isPaused || this.#isOver) return;
    clearTimeout(this.#timers.retry);
    this.#isConnecting = true;
    this.watcher.state("connecting");
    this.rest.credentials.current().then(
      (token) => this.#open(token),
      (error: Error) => this.#comeBack(UNAUTHENTICATED, error), // the token function may work again soon
    );
  }

  #open(token: string | undefined): void {
    this.#isConnecting = false;
    if (this.#isOver || this.#isPaused) return;
    this.#token = token;
    this.#problem = undefined;
    this.#url = this.rest.addresses.current;
    const socket = new this.WebSocket(`${this.#url.replace(/^http/, "ws")}/v1/ws`, PROTOCOL);
    this.#socket = socket;
    // Never in the URL, which proxies and browsers log.
    socket.onopen = () => token !== undefined && socket.send(JSON.stringify({ type: "auth", token }));
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(String(data)) as ServerFrame);
    socket.onclose = ({ code }) => void this.#lost(socket, code);
    socket.onerror = () => void this.#lost(socket, ABNORMAL); // some implementations do not call `onclose`
    this.#timers.silence = setTimeout(() => void this.#lost(socket, ABNORMAL), CONNECT_MS_MAX);
  }

  /** Drops the connection, and informs all who wait for it. */
  #drop(code: number, reason?: Error): void {
    const socket = this.#socket;
    this.#socket = undefined;
    clearTimeout(this.#timers.renewal);
    clearTimeout(this.#timers.silence);
    socket?.close(code === ABNORMAL ? undefined : code);
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    const error = new Disconnected("the connection was lost before the answer came", code);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (wasOpen) this.#lose(reason);
  }

  #lose(reason?: Error): void {
    for (const subscriber of this.#subscribers.values()) subscriber.lost(reason);
  }

  async #lost(socket: Socket, code: number): Promise<void> {
    if (socket !== this.#socket) return;
    if (this.#isOpen) this.#attempt = 0;
    const what = this.#isOpen ? `the connection to ${this.#url} was lost` : `the gateway cannot be reached at ${this.#url}`;
    const pauseMs = this.#isOpen ? undefined : this.rest.addresses.failedMs(this.#attempt, this.#url);
    const reason = this.#problem ?? new Disconnected(what, code);
    this.#drop(ABNORMAL, comesBack(code) ? reason : undefined);
    if (code === UNAUTHENTICATED) return this.#refresh(reason);
    if (comesBack(code)) this.#comeBack(code, reason, pauseMs);
    else this.#end(code);
  }

  /** Reconnects with another token. Ends if there is none, or if three were refused. */
  async #refresh(reason: Error): Promise<void> {
    this.#isConnecting = true;
    this.#refusals += 1;
    try {
      const fresh = this.#refusals < 3 ? await this.rest.credentials.refused(this.#token) : undefined;
      if (fresh === undefined) this.#end(UNAUTHENTICATED);
      else this.#comeBack(UNAUTHENTICATED, reason);
    } catch (error) {
      this.#comeBack(UNAUTHENTICATED, error as Error);
    }
  }

  #comeBack(code: number, reason: Error, pauseMs = backoffMs(this.#attempt)): void {
    this.#isConnecting = false;
    if (this.#isOver || this.#isPaused) return;
    this.#lose(reason);
    this.watcher.state("lost", code);
    if (code === RATE_LIMITED) this.#attempt = Math.max(this.#attempt, LIMITED_ATTEMPT);
    const afterMs = this.#comeBackAfterMs ?? (code === RATE_LIMITED ? backoffMs(this.#attempt) : pauseMs);
    this.#attempt += 1;
    this.#comeBackAfterMs = undefined;
    this.#timers.retry = setTimeout(() => this.#connect(), afterMs);
    if (!this.#wasReached && code !== UNAUTHENTICATED) this.watcher.unreached(this.#attempt);
  }

  #end(code: number): void {
    this.#isOver = true;
    this.#closeCode = code;
    for (const sub of [...this.#subscribers.keys()]) this.#finish(sub, this.#error());
    this.watcher.state("closed", code);
  }

  #error(): Error {
    return this.#problem ?? new Disconnected("the connection has ended for good", this.#closeCode);
  }

  #opens(): void {
    this.#isOpen = true;
    this.#refusals = 0;
    for (const sub of this.#subscribers.keys()) this.#subscribe(sub);
    this.watcher.state("open");
  }

  #subscribe(sub: string): void {
    const subscriber = this.#subscribers.get(sub);
    if (subscriber) this.#send({ type: "subscribe", rid: sub, sub, ...subscriber.wanted() });
  }

  #finish(sub: string, error?: Error): void {
    const subscriber = this.#subscribers.get(sub);
    if (this.#subscribers.delete(sub)) subscriber!.ended(error);
  }

  /** Treats the connection as lost if nothing arrives for this long, and then no pong. */
  #listen(silenceMs: number): void {
    clearTimeout(this.#timers.silence);
    this.#timers.silence = setTimeout(() => {
      const socket = this.#socket;
      this.#send({ type: "ping" });
      this.#timers.silence = setTimeout(() => socket && void this.#lost(socket, ABNORMAL), this.#heartbeatMs / 2);
    }, silenceMs);
  }

  #authenticated({ expires_at_ms }: Authenticated): void {
    if (!this.#isOpen) this.#opens();
    clearTimeout(this.#timers.renewal);
    // If the local clock is wrong, the token may seem to have ended: then wait until the connection ends.
    if (expires_at_ms == null || expires_at_ms <= Date.now() || !this.rest.credentials.canRenew) return;
    this.#timers.renewal = setTimeout(() => void this.#renew(expires_at_ms), renewMs(expires_at_ms - Date.now()));
  }

  /** Sends a fresh token, so that the connection continues. If there is none, it ends with the old one. */
  async #renew(expiresAtMs: number): Promise<void> {
    const socket = this.#socket;
    const fresh = await this.rest.credentials.renewed(this.#token).catch(() => undefined);
    if (socket === undefined || socket !== this.#socket) return;
    if (fresh === undefined) {
      this.#timers.renewal = setTimeout(() => void this.#renew(expiresAtMs), renewMs(expiresAtMs - Date.now()));
    } else {
      this.#token = fresh;
      this.#send({ type: "auth", token: fresh });
    }
  }

  #receive(frame: ServerFrame): void {
    this.#wasReached = true;
    this.#listen(this.#heartbeatMs / 2);
    const sub = "sub" in frame && frame.sub != null ? this.#subscribers.get(frame.sub) : undefined;
    switch (frame.type) {
      case "entries":
        return sub?.entries(frame);
      case "rows":
        return sub?.rows?.(frame);
      case "message":
      case "members":
      case "presence":
        return sub?.told?.(frame);
      case "welcome":
        this.#heartbeatMs = frame.heartbeat_ms;
        return this.#token === undefined ? this.#opens() : undefined;
      case "authenticated":
        return this.#authenticated(frame);
      case "draining":
        this.#comeBackAfterMs = frame.reconnect_after_ms;
        return;
      case "subscribed":
        return sub?.subscribed(frame);
      case "state":
        return sub?.state(frame.state);
      case "claimed":
        return sub?.claimed(frame.ids, frame.by);
      case "closed":
        sub?.state(frame.type);
        return this.#finish(frame.sub);
      case "problem":
        return this.#refused(frame);
      default:
        this.#answer(frame); // before an unexpected `unsubscribed`, there is a `problem`
    }
  }

  #refused(frame: Extract<ServerFrame, { type: "problem" }>): void {
    const problem = new Problem(fromWire(frame.problem));
    if (problem.code === "not_leader" && this.rest.addresses.urls[1]) {
      this.#drop(1000);
      return this.#comeBack(ABNORMAL, problem, this.rest.addresses.failedMs(this.#attempt, this.#url, problem));
    }
    const asked = frame.rid == null ? undefined : this.#waiting.get(frame.rid);
    if (asked) {
      this.#waiting.delete(frame.rid!);
      return asked.reject(problem);
    }
    const sub = frame.sub ?? frame.rid;
    if (sub == null) this.#problem = problem;
    else if (!problem.retryable) this.#finish(sub, problem);
    else {
      this.#subscribers.get(sub)?.lost(problem);
      this.#subscribeLater(sub, problem.retryAfterMs ?? backoffMs(0));
    }
  }

  // A new connection subscribes everything anyway.
  #subscribeLater(sub: string, afterMs: number): void {
    const socket = this.#socket;
    const timer = setTimeout(() => socket === this.#socket && this.#subscribe(sub), afterMs);
    (timer as { unref?(): void }).unref?.(); // only the socket keeps Node running
  }

  #answer(frame: Answer): void {
    if (frame.rid == null) return;
    this.#waiting.get(frame.rid)?.resolve(frame);
    this.#waiting.delete(frame.rid);
  }

  #ask(frame: Settlement | Question | { type: "unsubscribe"; sub: string }): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (!this.#isOpen) return reject(new Disconnected("there is no connection"));
      const rid = `r${(this.#count += 1)}`;
      this.#waiting.set(rid, { resolve, reject });
      this.#send({ ...frame, rid });
    });
  }

  #send(frame: ClientFrame): void {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(frame));
  }
}
