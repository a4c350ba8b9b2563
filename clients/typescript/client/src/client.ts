/** Client: access to a gateway, its streams and groups. */
import { Addresses } from "./wire/addresses.js";
import { Channel } from "./channel.js";
import { commit, type CommitOptions } from "./commit.js";
import { type Context, randomName } from "./context.js";
import { Credentials, type Token } from "./wire/credentials.js";
import { followed, type FollowOptions } from "./follower.js";
import { Group } from "./group.js";
import { Groups, type GroupsOptions } from "./groups.js";
import type { ConnectionState } from "./live/line.js";
import { Live, type LiveOptions } from "./live/live.js";
import { Problem } from "./wire/problem.js";
import { Rest } from "./wire/rest.js";
import { Schedule } from "./schedule.js";
import { Stream } from "./stream.js";
import type { CommitStep, Entry, PushSummary, ScheduleInfo, StreamInfo, Ticket, TicketRequest } from "./wire/types.js";

export interface ClientOptions extends LiveOptions {
  /**
   * URL of the gateway: `http://localhost:8080`, or without the scheme. For several gateways that share a bucket, a
   * list of URLs, or URLs separated by commas. Requests go to the one that leads, and to no other addresses than these.
   */
  url: string | readonly string[];
  /**
   * The credential: a key, a token or a ticket, or a function that returns a fresh one. The function is called before
   * the current token ends, and when it is refused. If the function throws, it is called again after growing pauses.
   */
  token?: Token | undefined;
  /** Send the token to other machines without TLS, where others on the network can read it. */
  insecure?: boolean | undefined;
  /** Called with errors that no other callback receives. Default: prints them to the console. */
  onError?: ((error: unknown, where: string) => void) | undefined;
  /** How long a request that was refused temporarily or lost is retried, if that is safe. Default: 30,000. */
  retryMs?: number | undefined;
  fetch?: typeof fetch | undefined;
}

/** Creates a client. It connects at the first subscription or consumer. */
export function createClient(options: ClientOptions): Client {
  return new Client(options);
}

export class Client {
  readonly #rest: Rest;
  readonly #line: Live;
  readonly #context: Context;

  constructor(options: ClientOptions) {
    const { url, token, retryMs = 30_000 } = options;
    const { onError = (error, where) => console.error(`headgate: ${where}:`, error) } = options;
    const addresses = new Addresses(url);
    const credentials = new Credentials(token, (error) => onError(error, "token"));
    this.#rest = new Rest(addresses, credentials, retryMs, options.fetch);
    const plain = addresses.urls.find(isPlain);
    if (token && !options.insecure && plain) {
      throw new Error(`others could read the token sent to ${plain}: use https`);
    }
    this.#line = new Live(this.#rest, options);
    let subs = 0;
    const nextSub = () => `s${(subs += 1)}`;
    let told: unknown; // when a credential is refused, all subscriptions end with the same error
    const report = (error: unknown, where: string) => {
      if (error !== told || !(error instanceof Problem)) onError(error, where);
      told = error;
    };
    this.#context = { rest: this.#rest, line: this.#line, producer: randomName(), nextSub, report };
  }

  /** URL that requests currently go to. */
  get url(): string {
    return this.#rest.addresses.current;
  }

  /** State of the connection. */
  get state(): ConnectionState {
    return this.#line.state;
  }

  stream(name: string): Stream {
    return new Stream(this.#context, name);
  }

  group(stream: string, name: string): Group {
    return new Group(this.#context, stream, name);
  }

  /** Returns the group of this name in all streams that match a pattern. */
  groups(name: string, options: GroupsOptions): Groups {
    return new Groups(this.#context, name, options);
  }

  /** Returns a channel. You do not need to create it. This sends nothing. */
  channel(name: string): Channel {
    return new Channel(this.#context, name);
  }

  schedule(name: string): Schedule {
    return new Schedule(this.#context, name);
  }

  /**
   * Executes all steps at once or none. Returns the ids of the entries that each step appended. The request is repeated
   * until it succeeds or `retryMs` has passed; the commit is executed at most once. `job.commit` also acknowledges a
   * job.
   * @throws NotYours if an entry is not pending with the consumer
   */
  commit(steps: CommitStep[], options: CommitOptions = {}): Promise<string[][]> {
    return commit(this.#context, steps, options);
  }

  /**
   * Follows all streams whose names match a Redis pattern. Each entry has its stream. After a reconnection, entries can
   * repeat.
   */
  follow(match: string, options?: FollowOptions): AsyncGenerator<Entry & { stream: string }, void, void> {
    return followed(this.#context, { match }, options);
  }

  /** Yields the schedules in the order of their names, page by page. */
  schedules(): AsyncGenerator<ScheduleInfo, void, void> {
    return this.#rest.items("/v1/schedules", "schedules");
  }

  /** Yields the pushes of groups, page by page. */
  pushes(): AsyncGenerator<PushSummary, void, void> {
    return this.#rest.items("/v1/pushes", "pushes");
  }

  /**
   * Yields the streams in the order of their names, page by page. `internal` includes those of the gateway and requires
   * `admin`.
   */
  streams({ prefix, internal }: { prefix?: string; internal?: boolean } = {}): AsyncGenerator<StreamInfo, void, void> {
    return this.#rest.items("/v1/streams", "streams", { prefix, internal });
  }

  /**
   * Creates a ticket, for one stream and a few minutes. Your server gives it to a page as its `token`, or in the URL of
   * your own `EventSource` (`?ticket=`), which cannot send headers. Never put any other token in a URL.
   */
  ticket(wanted: TicketRequest): Promise<Ticket> {
    return this.#rest.ask("POST", "/v1/tickets", { body: wanted, isRepeatable: true });
  }

  /** Ends all subscriptions. Entries that they hold go back. */
  close(): void {
    this.#line.close();
  }
}

/** Returns whether others on the network can read what is sent to a URL. */
function isPlain(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !/^(127\.[\d.]+|\[::1]|(.+\.)?localhost)$/.test(hostname);
}
