/**
 * Live: the line that all subscriptions of a client share. It is a WebSocket. It uses events if the platform has no
 * WebSocket, or if WebSockets fail after a few attempts but requests succeed.
 */
import type { Answer, ConnectionState, Line, Question, Settlement, Subscriber } from "./line.js";
import { Disconnected } from "../wire/problem.js";
import type { Rest } from "../wire/rest.js";
import { watchPage } from "./page.js";
import type { SocketClass } from "./socket.js";
import { SocketLine } from "./socket-line.js";
import type { Settled } from "../wire/types.js";

const ATTEMPTS_MAX = 3;

export interface LiveOptions {
  /** WebSocket class. Default: that of the platform. */
  WebSocket?: SocketClass | undefined;
  /** `events`: one request per subscription, without trying a WebSocket first. */
  transport?: "events" | undefined;
  /**
   * A page that is hidden for this long closes its connection until it is visible again. `Infinity`: never. Default:
   * 30,000.
   */
  hiddenMs?: number | undefined;
  /** Called with the state of the connection, and the close code. */
  onState?: ((state: ConnectionState, code?: number) => void) | undefined;
}

export class Live implements Line {
  state: ConnectionState = "idle";
  #line: Line | undefined; // undefined until the code for events is loaded
  #isOver = false;
  readonly #subscribers = new Map<string, Subscriber>();
  readonly #forgetPage: () => void;

  constructor(
    private readonly rest: Rest,
    private readonly options: LiveOptions,
  ) {
    const { transport, WebSocket = globalThis.WebSocket as SocketClass | undefined, hiddenMs = 30_000 } = options;
    if (WebSocket && !transport) {
      const unreached = (attempts: number) => attempts >= ATTEMPTS_MAX && void this.#fallBack();
      const watcher = { state: this.#onState, unreached };
      this.#line = new SocketLine(rest, WebSocket, watcher);
    } else void this.#useEvents();
    this.#forgetPage = watchPage(this, hiddenMs);
  }

  get isBusy(): boolean {
    return !!this.#line?.isBusy || [...this.#subscribers.values()].some((subscriber) => subscriber.isBusy);
  }

  add(sub: string, subscriber: Subscriber): void {
    this.#subscribers.set(sub, subscriber);
    this.#line?.add(sub, subscriber);
  }

  async remove(sub: string): Promise<void> {
    this.#subscribers.delete(sub);
    await this.#line?.remove(sub);
  }

  credit(sub: string, entries: number): void {
    this.#line?.credit(sub, entries);
  }

  async settle(frame: Settlement): Promise<Settled[]> {
    if (!this.#line) throw new Disconnected("there is no connection");
    return this.#line.settle(frame);
  }

  ask(frame: Question): Promise<Answer> | undefined {
    return this.#line?.ask(frame);
  }

  pause(): void {
    this.#line?.pause();
  }

  resume(): void {
    this.#line?.resume();
  }

  close(): void {
    this.#isOver = true;
    this.#forgetPage();
    this.#line?.close();
  }

  readonly #onState = (state: ConnectionState, code?: number): void => {
    this.state = state;
    this.options.onState?.(state, code);
  };

  async #fallBack(): Promise<void> {
    const line = this.#line;
    if ((await this.rest.isReachable()) && line instanceof SocketLine && line.retire()) await this.#useEvents();
  }

  async #useEvents(): Promise<void> {
    this.#line = undefined;
    const { EventsLine } = await import("./events-line.js"); // rarely needed
    if (this.#isOver) return;
    this.#line = new EventsLine(this.rest, this.#onState);
    for (const [sub, subscriber] of this.#subscribers) this.#line.add(sub, subscriber);
  }
}
