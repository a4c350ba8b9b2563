/** Client: a gateway, as a program sees it. */
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
   * URL of the gateway: `http://localhost:8080`, or without the scheme. Several gateways on one bucket have one
   * each, in a list or with commas between them: requests go to the one that leads, and to no other place than these.
   */
  url: string | readonly string[];
  /**
   * The credential: a key, a token or a ticket, or a function that returns a fresh one. It is called before the last one
   * ends, and when that is refused; when it throws, again after growing pauses.
   */
  token?: Token | undefined;
  /** Send the token to another machine without TLS, where others on the network can read it. */
  insecure?: boolean | undefined;
  /** Told of errors that nobody else is told of; the console is unless given. */
  onError?: ((error: unknown, where: string) => void) | undefined;
  /** Time in which a request that was refused for the moment or lost is tried again, if that is safe. */
  retryMs?: number | undefined;
  fetch?: typeof fetch | undefined;
}

/** Return a client. It connects when something is followed or worked on. */
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
      throw new Error(`others could read the token on its way to ${plain}: use https`);
    }
    this.#line = new Live(this.#rest, options);
    let subs = 0;
    const nextSub = () => `s${(subs += 1)}`;
    let told: unknown; // all subscriptions end for the same reason when a credential is refused
    const report = (error: unknown, where: string) => {
      if (error !== told || !(error instanceof Problem)) onError(error, where);
      told = error;
    };
    this.#context = { rest: this.#rest, line: this.#line, producer: randomName(), nextSub, report };
  }

  /** URL that requests go to now. */
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

  /** Return the group of one name in all streams that match a pattern. */
  groups(name: string, options: GroupsOptions): Groups {
    return new Groups(this.#context, name, options);
  }

  /** Return a channel, which need not be created; this sends nothing. */
  channel(name: string): Channel {
    return new Channel(this.#context, name);
  }

  schedule(name: string): Schedule {
    return new Schedule(this.#context, name);
  }

  /**
   * Carry out steps together: all of them, at one moment, or none. Returns the ids that each has appended.
   * It is sent again until it is known to be done, and is done once. `job.commit` acknowledges a job as well.
   * @throws NotYours if an entry is not pending with the consumer
   */
  commit(steps: CommitStep[], options: CommitOptions = {}): Promise<string[][]> {
    return commit(this.#context, steps, options);
  }

  /** Follow all streams whose names match a pattern of Redis. Each entry says its stream, and may come again after a loss. */
  follow(match: string, options?: FollowOptions): AsyncGenerator<Entry & { stream: string }, void, void> {
    return followed(this.#context, { match }, options);
  }

  /** Return schedules by name, page by page. */
  schedules(): AsyncGenerator<ScheduleInfo, void, void> {
    return this.#rest.items("/v1/schedules", "schedules");
  }

  /** Return the pushes of groups, page by page. */
  pushes(): AsyncGenerator<PushSummary, void, void> {
    return this.#rest.items("/v1/pushes", "pushes");
  }

  /** Return streams by name, page by page; with `internal`, those of the gateway too, which requires `admin`. */
  streams({ prefix, internal }: { prefix?: string; internal?: boolean } = {}): AsyncGenerator<StreamInfo, void, void> {
    return this.#rest.items("/v1/streams", "streams", { prefix, internal });
  }

  /**
   * Return a ticket, for one stream and a few minutes. A server gives it to a page, whose `token` it is; or it stands in
   * the URL of an `EventSource` of yours (`?ticket=`), which can send no header. A token never stands in a URL.
   */
  ticket(wanted: TicketRequest): Promise<Ticket> {
    return this.#rest.ask("POST", "/v1/tickets", { body: wanted, isRepeatable: true });
  }

  /** End every subscription; what it holds goes back. */
  close(): void {
    this.#line.close();
  }
}

/** Tell whether others on the network can read what is sent to a URL. */
function isPlain(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !/^(127\.[\d.]+|\[::1]|(.+\.)?localhost)$/.test(hostname);
}
