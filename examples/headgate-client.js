// Made of clients/typescript/client by `npm run example`; not to be edited.
var __defProp = Object.defineProperty;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __esm = (fn, res) => function __init() {
  return fn && (res = (0, fn[__getOwnPropNames(fn)[0]])(fn = 0)), res;
};
var __export = (target, all) => {
  for (var name2 in all)
    __defProp(target, name2, { get: all[name2], enumerable: true });
};

// client/src/wire/names.ts
function camelName(name2) {
  let camel = known.get(name2);
  if (camel === void 0) {
    camel = name2.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    known.set(name2, camel);
  }
  return camel;
}
function snakeName(name2) {
  return name2.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
function renamed(value, rename) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => renamed(item, rename)) : value;
  if (value === null || typeof value !== "object") return value;
  const result = {};
  for (const [name2, item] of Object.entries(value)) {
    result[rename(name2)] = VERBATIM.has(name2) ? item : renamed(item, rename);
  }
  return result;
}
function fromWire(value) {
  return renamed(value, camelName);
}
function toWire(value) {
  return renamed(value, snakeName);
}
var known, VERBATIM;
var init_names = __esm({
  "client/src/wire/names.ts"() {
    "use strict";
    known = /* @__PURE__ */ new Map();
    VERBATIM = /* @__PURE__ */ new Set(["data", "fields", "filter", "filters", "headers", "schema", "weights"]);
  }
});

// client/src/wire/problem.ts
var Problem, RowChanged, NotYours, isProblem, Disconnected;
var init_problem = __esm({
  "client/src/wire/problem.ts"() {
    "use strict";
    Problem = class extends Error {
      constructor(details) {
        super(details.detail);
        this.details = details;
        this.code = details.code;
        this.status = details.status;
        this.retryable = details.retryable;
        this.retryAfterMs = details.retryAfterMs ?? void 0;
      }
      name = "Problem";
      code;
      status;
      /** Whether the same request may succeed later. */
      retryable;
      retryAfterMs;
    };
    RowChanged = class extends Problem {
      /** The current row; null if there is none. */
      row;
      constructor(details) {
        super(details);
        this.row = details.row ?? null;
      }
    };
    NotYours = class extends Problem {
      /** These entries, and the consumers that have them. */
      held;
      constructor(details) {
        super(details);
        this.held = details.held;
      }
    };
    isProblem = (error, ...codes) => error instanceof Problem && (!codes.length || codes.includes(error.code));
    Disconnected = class extends Error {
      constructor(message, closeCode, options) {
        super(message, options);
        this.closeCode = closeCode;
      }
      name = "Disconnected";
    };
  }
});

// client/src/wire/backoff.ts
function backoffMs(attempt, chance = Math.random()) {
  return Math.min(MS_MAX, FIRST_MS * 2 ** attempt) * (0.5 + chance);
}
function waited(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}
var FIRST_MS, MS_MAX;
var init_backoff = __esm({
  "client/src/wire/backoff.ts"() {
    "use strict";
    FIRST_MS = 500;
    MS_MAX = 3e4;
  }
});

// client/src/wire/rest.ts
function path(strings, ...names) {
  return String.raw({ raw: strings }, ...names.map(encodeURIComponent));
}
function jsonOf(value) {
  return value === void 0 ? void 0 : JSON.stringify(value);
}
function cut(cause) {
  throw new Disconnected("the connection was lost before the answer was complete", void 0, { cause });
}
async function refusal(response) {
  const text = await response.text();
  try {
    const details = fromWire(JSON.parse(text));
    if (details.code === "row_changed") return new RowChanged(details);
    if (details.code === "not_yours") return new NotYours(details);
    if (details.code) return new Problem(details);
  } catch {
  }
  return new Disconnected(`${response.url} answered ${response.status} ${response.statusText}`);
}
var ANSWER_MS_MAX, Rest;
var init_rest = __esm({
  "client/src/wire/rest.ts"() {
    "use strict";
    init_backoff();
    init_names();
    init_problem();
    ANSWER_MS_MAX = 3e4;
    Rest = class {
      constructor(addresses, credentials, retryMs, fetching = (...words) => fetch(...words)) {
        this.addresses = addresses;
        this.credentials = credentials;
        this.retryMs = retryMs;
        this.fetching = fetching;
      }
      /**
       * Sends a request. Returns the answer, with names in camelCase.
       * @throws Problem if the gateway refuses it, Disconnected if the gateway cannot be reached
       */
      async ask(method, path2, request = {}) {
        const text = await this.open(method, path2, request, (answer) => answer.text().catch(cut));
        return text === "" ? void 0 : fromWire(JSON.parse(text));
      }
      /** Yields the items of a list, page by page. */
      async *items(path2, name2, query) {
        let cursor;
        do {
          const page = await this.ask("GET", path2, { query: { ...query, cursor } });
          yield* page[name2];
          cursor = page.nextCursor;
        } while (cursor);
      }
      /** Returns whether the gateway answers at all. */
      async isReachable() {
        return this.#send(this.addresses.current, "GET", "/healthz", {}).then(
          () => true,
          (error) => error instanceof Problem
        );
      }
      /** Sends a request. Returns what `take` returns for the answer. */
      async open(method, path2, request, take) {
        const endsAt = Date.now() + this.retryMs;
        for (let attempt = 0; ; attempt += 1) {
          const url = this.addresses.current;
          try {
            return await take(await this.#authorized(url, method, path2, request));
          } catch (error) {
            request.signal?.throwIfAborted();
            const isRefused = error instanceof Problem;
            const isUnsent = error === this.credentials.failure;
            const mayRepeat = isRefused ? error.retryable : isUnsent || request.isRepeatable || method === "GET";
            const delayMs = isUnsent ? backoffMs(attempt) : this.addresses.failedMs(attempt, url, error);
            const leftMs = endsAt - Date.now();
            const saidMs = isRefused && error.retryAfterMs || 0;
            if (!mayRepeat || delayMs && leftMs <= saidMs) throw error;
            request.onRetry?.(error);
            await waited(Math.min(delayMs, leftMs), request.signal);
          }
        }
      }
      /** Sends a request, and repeats it with a fresh token if the current one is refused. */
      async #authorized(base, method, path2, request) {
        const token = await this.credentials.current();
        try {
          return await this.#send(base, method, path2, request, token);
        } catch (error) {
          if (!(error instanceof Problem) || error.status !== 401) throw error;
          const fresh = await this.credentials.refused(token);
          if (fresh === void 0) throw error;
          return this.#send(base, method, path2, request, fresh);
        }
      }
      async #send(base, method, path2, request, token) {
        const { query = {}, body, signal } = request;
        const words = Object.entries(query).filter(([, value]) => value != null);
        const url = new URL(base + path2);
        url.search = new URLSearchParams(words.map(([name2, value]) => [name2, String(value)])).toString();
        const headers = new Headers(request.headers);
        if (token !== void 0) headers.set("authorization", `Bearer ${token}`);
        const late = new AbortController();
        const init = { method, headers, signal: AbortSignal.any([signal ?? late.signal, late.signal]) };
        if (body !== void 0) {
          const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
          headers.set("content-type", type);
          init.body = JSON.stringify(toWire(body));
        }
        let response;
        const waitMs = Number(query.wait_ms ?? body?.waitMs ?? 0);
        const timer = setTimeout(() => late.abort(), ANSWER_MS_MAX + waitMs);
        try {
          response = await this.fetching(url, init);
        } catch (error) {
          signal?.throwIfAborted();
          throw new Disconnected(`the gateway cannot be reached at ${base}`, void 0, { cause: error });
        } finally {
          clearTimeout(timer);
        }
        if (!response.ok) throw await refusal(response);
        return response;
      }
    };
  }
});

// client/src/live/events-line.ts
var events_line_exports = {};
__export(events_line_exports, {
  EventsLine: () => EventsLine
});
var PAUSE_MS_MAX, SILENCE_MS, SILENCE_MS_MIN, EventsLine, Feed;
var init_events_line = __esm({
  "client/src/live/events-line.ts"() {
    "use strict";
    init_backoff();
    init_problem();
    init_rest();
    PAUSE_MS_MAX = 2 ** 31 - 1;
    SILENCE_MS = 6e4;
    SILENCE_MS_MIN = 2e4;
    EventsLine = class {
      constructor(rest, onState) {
        this.rest = rest;
        this.onState = onState;
      }
      isBusy = false;
      #feeds = /* @__PURE__ */ new Map();
      add(sub, subscriber) {
        const feed = new Feed(sub, subscriber, this.rest, this.onState);
        this.#feeds.set(sub, feed);
        void feed.follow().finally(() => this.#feeds.delete(sub));
      }
      async remove(sub) {
        this.#feeds.get(sub)?.stop();
      }
      credit(sub, entries) {
        this.#feeds.get(sub)?.credit(entries);
      }
      async settle(frame) {
        const feed = this.#feeds.get(frame.sub ?? "");
        if (!feed) throw new Disconnected("there is no connection");
        return feed.settle(frame);
      }
      ask() {
      }
      pause() {
        for (const feed of this.#feeds.values()) feed.pause();
        this.onState("paused");
      }
      resume() {
        for (const feed of this.#feeds.values()) feed.resume();
      }
      close() {
        for (const feed of this.#feeds.values()) feed.stop();
        this.onState("closed");
      }
    };
    Feed = class {
      constructor(sub, subscriber, rest, onState) {
        this.sub = sub;
        this.subscriber = subscriber;
        this.rest = rest;
        this.onState = onState;
      }
      #isOpen = false;
      #isOver = false;
      #isPaused = false;
      #reading = new AbortController();
      // for one request and the pause after it
      #wanted;
      #consumer = "";
      #attempt = 0;
      #comeBackAfterMs;
      #available = 0;
      #silenceMs = SILENCE_MS;
      #cameAt = 0;
      #onCredit;
      stop() {
        this.#isOver = true;
        this.#interrupt();
      }
      pause() {
        this.#isPaused = true;
        this.#interrupt();
      }
      resume() {
        this.#isPaused = false;
        if (!this.#isOpen) this.#interrupt();
      }
      #interrupt() {
        this.#reading.abort();
        this.#onCredit?.();
      }
      credit(entries) {
        this.#available += entries;
        if (this.#available > 0) this.#onCredit?.();
      }
      async settle({ type, sub: _, rid: __, stream, ...body }) {
        const query = { consumer: this.#consumer };
        if (stream != null) {
          const { ids, ...options } = { ids: [], ...body };
          const named2 = { query, body: { ...options, entries: [{ stream, ids }] } };
          return (await this.rest.ask("POST", `${this.#place}/${type}`, named2)).streams[0].results;
        }
        return (await this.rest.ask("POST", `${this.#place}/${type}`, { query, body })).results;
      }
      async follow() {
        while (!this.#isOver) {
          const { signal } = this.#reading = new AbortController();
          let error = new Disconnected(`the connection to ${this.rest.addresses.current} was lost`);
          try {
            if (!this.#isPaused) await this.#read(signal);
          } catch (caught) {
            if (caught instanceof Problem && !caught.retryable && !this.#mayRenew(caught)) return this.subscriber.ended(caught);
            if (caught instanceof Problem || caught instanceof Disconnected) error = caught;
          }
          const isLost = !(this.#isOver || this.#isPaused || signal.aborted);
          if (isLost) this.#lose(error);
          else if (this.#isOpen && !this.#isOver) this.subscriber.lost();
          this.#isOpen = false;
          if (this.#isOver || signal.aborted) continue;
          await waited(this.#isPaused ? PAUSE_MS_MAX : this.#comeBackAfterMs ?? backoffMs(this.#attempt), signal);
          this.#comeBackAfterMs = void 0;
          this.#attempt += 1;
        }
        this.subscriber.ended();
      }
      /**
       * Returns whether the credential of the events has ended and can be renewed. For the request itself, `Rest` has tried
       * that.
       */
      #mayRenew({ status }) {
        return status === 401 && this.#isOpen && this.rest.credentials.canRenew;
      }
      #lose(error) {
        this.subscriber.lost(error);
        this.onState("lost");
      }
      get #place() {
        const { stream, group, channel } = this.#wanted;
        if (channel != null) return path`/v1/channels/${channel}`;
        if (stream == null) return group == null ? "/v1" : path`/v1/groups/${group}`;
        return path`/v1/streams/${stream}` + (group == null ? "" : path`/groups/${group}`);
      }
      async #read(signal) {
        const wanted = this.#wanted = this.subscriber.wanted();
        const { match, after, view, prefix, filter, consumer, credit = 64, claim_idle_ms, on_disconnect } = wanted;
        const create = wanted.create ? JSON.stringify(wanted.create) : void 0;
        this.#available = wanted.group == null ? credit : Infinity;
        const ofStream = { match: match ?? void 0, after, view, prefix, filter: filter ? JSON.stringify(filter) : void 0 };
        const query = wanted.group == null ? ofStream : { match: match ?? void 0, consumer, credit, claim_idle_ms, on_disconnect, create };
        const headers = { accept: "text/event-stream" };
        const onRetry = (error) => this.#lose(error);
        const asked = { query, headers, signal, onRetry };
        const answer = await this.rest.open("GET", `${this.#place}/events`, asked, (answer2) => answer2);
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        const renewal = setTimeout(() => this.#interrupt(), this.rest.credentials.renewInMs);
        try {
          await this.#takeAll(reader, signal);
        } finally {
          clearTimeout(renewal);
        }
      }
      async #takeAll(reader, signal) {
        for (let text = ""; ; ) {
          this.#cameAt = Date.now();
          const silence = setTimeout(() => void reader.cancel(), this.#silenceMs);
          const { value, done } = await reader.read().finally(() => clearTimeout(silence));
          if (done) return;
          const events = (text + value).split("\n\n");
          text = events.pop();
          for (const event of events) this.#take(event);
          while (this.#available <= 0 && !signal.aborted) await new Promise((resolve) => this.#onCredit = resolve);
        }
      }
      #take(event) {
        const line = (name2) => event.match(new RegExp(`^${name2}: ?(.*)$`, "m"))?.[1];
        const data = line("data");
        if (data === void 0) {
          this.#silenceMs = Math.max(SILENCE_MS_MIN, 1.5 * (Date.now() - this.#cameAt));
          return;
        }
        const { sub, subscriber } = this;
        const value = JSON.parse(data);
        switch (line("event")) {
          case "ready":
            this.#isOpen = true;
            this.#attempt = 0;
            this.#consumer = value.consumer ?? "";
            this.onState("open");
            return subscriber.subscribed({ type: "subscribed", sub, ...value });
          case "entry":
            this.#available -= 1;
            return subscriber.entries({ type: "entries", sub, entries: [value], credit_left: 0 });
          case "row":
            this.#available -= 1;
            return subscriber.rows?.({ type: "rows", sub, rows: [value], credit_left: 0, ...line("id") && { position: line("id") } });
          case "message":
            return subscriber.told?.({ type: "message", sub, ...value });
          case "position":
            return subscriber.entries({ type: "entries", sub, entries: [], credit_left: 0, position: value.at });
          case "gap":
            return subscriber.entries({ type: "entries", sub, entries: [], credit_left: 0, gaps: [value.gap] });
          case "caught_up":
            return subscriber.state("caught_up");
          case "claimed":
            return subscriber.claimed(value.ids, value.by);
          case "closed":
            this.#isOver = true;
            return subscriber.state("closed");
          case "draining":
            this.#comeBackAfterMs = value.reconnect_after_ms;
            return;
          case "problem":
            throw new Problem(value);
        }
      }
    };
  }
});

// client/src/context.ts
function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function once({ producer }, key = randomName()) {
  return { "idempotency-key": key, "idempotency-producer": producer };
}

// client/src/live/subscription.ts
var Subscription = class {
  connection = "connecting";
  error = null;
  #tell;
  constructor({ onConnection }) {
    this.#tell = onConnection;
  }
  subscribed(_frame) {
    this.#become("live");
  }
  lost(error) {
    this.#become(error ? "lost" : "connecting", error);
  }
  ended(error) {
    if (error) this.#become("refused", error);
  }
  // Each failed attempt has its own error with the same message.
  #become(connection, error = null) {
    const isNews = connection !== this.connection || error?.message !== this.error?.message;
    this.connection = connection;
    this.error = error;
    if (isNews) this.#tell?.(connection, error);
  }
};

// client/src/channel.ts
init_names();
init_problem();
init_rest();
var UPDATE_MS = 50;
var Channel = class {
  constructor(context, name2) {
    this.context = context;
    this.name = name2;
  }
  get #path() {
    return path`/v1/channels/${this.name}`;
  }
  /**
   * Publishes a message, any JSON. Returns the number of subscribers. The message is delivered at most once and not
   * stored: subscribers that are disconnected or too slow miss it. It is sent over the client's WebSocket if one is
   * open, in the order of the calls. If the answer is lost, the client does not publish it again.
   * @throws Error if 1,000 messages of the client are waiting for their answers
   */
  async publish(data) {
    const { rest, line } = this.context;
    const answered = line.ask({ type: "publish", channel: this.name, data });
    const answer = await (answered ?? rest.ask("POST", `${this.#path}/messages`, { body: { data } }));
    return answer.receivers;
  }
  /**
   * Receives messages that are published from now on, across reconnections. Misses messages published while
   * disconnected.
   */
  subscribe({ onError, ...handlers }) {
    const listener = new Listener(this.context, this.name, handlers, onError);
    handlers.signal?.addEventListener("abort", () => listener.close(), { once: true });
    return listener;
  }
  /** Returns the present members: the first `limit` (default: 100), and the total number. */
  members({ limit, signal } = {}) {
    return this.context.rest.ask("GET", `${this.#path}/presence`, { query: { limit }, signal });
  }
};
var Listener = class extends Subscription {
  constructor(context, channel, handlers, onError = (error) => this.#report(error)) {
    super(handlers);
    this.context = context;
    this.channel = channel;
    this.handlers = handlers;
    this.onError = onError;
    const { data = {}, key = randomName() } = handlers.presence ?? {};
    this.key = key;
    this.#data = this.#sent = this.#noted = data;
    this.#sub = context.nextSub();
    context.line.add(this.#sub, this);
  }
  isBusy = false;
  key;
  #members = /* @__PURE__ */ new Map();
  #sub;
  #data;
  #sent;
  #noted;
  // the data that the gateway has accepted
  #hasMore = false;
  #pause;
  get members() {
    return [...this.#members.values()];
  }
  update(data) {
    this.#data = data;
    if (!this.#pause) this.#send();
  }
  close() {
    clearTimeout(this.#pause);
    void this.context.line.remove(this.#sub);
  }
  wanted() {
    const { presence } = this.handlers;
    const { channel, key } = this;
    const data = this.#sent = this.#data;
    return { channel, ...presence && { presence: { hidden: false, ...presence, data, key } } };
  }
  subscribed(frame) {
    this.#hasMore = false;
    this.#noted = this.#sent;
    super.subscribed(frame);
    if (this.#data !== this.#sent) this.#send();
  }
  told(frame) {
    try {
      if (frame.type === "message") {
        const { channel, data, dropped = 0 } = frame;
        this.handlers.onMessage?.({ channel, data, dropped });
      } else this.#learn(frame);
    } catch (error) {
      this.#report(error);
    }
  }
  ended(error) {
    super.ended(error);
    if (error) this.onError(error);
  }
  entries() {
  }
  state(_state) {
  }
  claimed() {
  }
  #learn(frame) {
    if (frame.type === "presence") {
      if (frame.event === "left") this.#members.delete(frame.member.id);
      else this.#know(frame.member);
    } else {
      if (frame.settled && !this.#hasMore) this.#members.clear();
      this.#hasMore = frame.more;
      for (const member of frame.members) this.#know(member);
    }
    if (!this.#hasMore) this.handlers.onMembers?.(this.members);
  }
  #know(member) {
    const known2 = fromWire(member);
    this.#members.set(known2.id, known2);
  }
  #report(error) {
    this.context.report(error, `channel ${this.channel}`);
  }
  #send() {
    if (this.connection !== "live") return;
    const data = this.#sent = this.#data;
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = void 0;
      if (this.#data !== data) this.#send();
    }, UPDATE_MS);
    this.context.line.ask({ type: "presence", sub: this.#sub, data })?.then(
      () => this.#noted = data,
      (error) => {
        if (!(error instanceof Problem)) return;
        if (this.#data === data) this.#data = this.#noted;
        this.#report(error);
      }
    );
  }
};

// client/src/wire/addresses.ts
init_backoff();
init_problem();
var Addresses = class {
  /** The token is sent only to these URLs: a leader that is not in the list is not followed. */
  urls;
  current;
  #named;
  // the leader that was named last
  /** URLs without a scheme use `http`. Several URLs are a list, or separated by commas. */
  constructor(given) {
    const texts = String(given).match(/[^\s,]+/g);
    this.urls = texts.map((text) => (text.includes("://") ? text : `http://${text}`).replace(/\/+$/, ""));
    this.current = this.urls[0];
  }
  /**
   * Notes that an attempt at a URL failed. `attempt` counts from 0. Returns the pause before the next attempt, which
   * goes to another URL if there was no answer or the gateway does not lead. There is no pause until all URLs were
   * tried. A standby may name a leader that is gone, so the same name is followed only once.
   */
  failedMs(attempt, url, error) {
    const { urls, current } = this;
    const problem = error instanceof Problem ? error : void 0;
    const waitMs = problem?.retryAfterMs;
    if (problem && problem.status !== 503) return waitMs || backoffMs(attempt);
    if (url === current) {
      const named2 = urls.find((each) => each !== url && `${problem?.details.leader}/`.startsWith(`${each}/`));
      this.current = named2 && named2 !== this.#named ? this.#named = named2 : urls[(urls.indexOf(url) + 1) % urls.length];
    }
    return (attempt + 1) % urls.length ? 0 : waitMs || backoffMs(urls[1] ? 1 : attempt);
  }
};

// client/src/fields.ts
function entryOf(fields, { delayMs, deliverAtMs, ttlMs, expiresAtMs } = {}) {
  const texts = {};
  const base64 = [];
  for (const [name2, value] of Object.entries(fields)) {
    if (value instanceof Uint8Array) base64.push(name2);
    texts[name2] = value instanceof Uint8Array ? textOf(value) : String(value);
  }
  return { fields: texts, ...base64.length && { base64 }, delayMs, deliverAtMs, ttlMs, expiresAtMs };
}
function bytesOf(entry, name2) {
  const text = entry.fields[name2] ?? "";
  if (!entry.base64?.includes(name2)) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
function textOf(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

// client/src/job.ts
var errorText = (error) => error == null ? null : new TextDecoder().decode(new TextEncoder().encode(String(error)).subarray(0, 1e3));
var keyOf = ({ id, stream }) => stream === void 0 ? id : `${stream}
${id}`;
var Job = class {
  /** @internal */
  constructor(delivery, settler, connection) {
    this.settler = settler;
    this.connection = connection;
    this.delivery = delivery;
    this.id = delivery.id;
    this.stream = delivery.stream;
    this.key = keyOf(delivery);
    this.fields = delivery.fields;
    this.deliveries = delivery.deliveries;
    this.idleMs = delivery.idleMs;
    this.claimedFrom = delivery.claimedFrom ?? void 0;
    this.lastError = delivery.lastError ?? void 0;
  }
  id;
  /** Stream of the entry, if several are read together. */
  stream;
  /** @internal Id of the entry, prefixed with its stream if several are read: ids can repeat. */
  key;
  fields;
  /** Number of deliveries, including this one. It increases if the job is delivered again after a reconnection. */
  deliveries;
  idleMs;
  /** The previous consumer, if the entry was claimed. */
  claimedFrom;
  /** Error of the previous delivery, if known. */
  lastError;
  /** The complete delivery, with `base64` and `pairs`. */
  delivery;
  /** Whether the job was acknowledged or given back. */
  isSettled = false;
  /** Whether the entry no longer belongs to this consumer. Further work on it is wasted. */
  isLost = false;
  #losing;
  #steps;
  /** Aborted when the job is lost because another consumer has claimed it. */
  get signal() {
    this.#losing ??= new AbortController();
    if (this.isLost) this.#losing.abort();
    return this.#losing.signal;
  }
  /** Acknowledges the job. Returns the outcome. */
  ack() {
    return this.settler.ack(this);
  }
  /** Gives the job back. It is delivered to the next consumer, or becomes a dead letter. */
  nack(options = {}) {
    return this.settler.nack(this, options);
  }
  /**
   * Executes all steps and acknowledges the job, or does nothing. Returns the ids of the entries that each step
   * appended. After a crash, either everything was committed or nothing.
   * @throws NotYours if the entry no longer belongs to this consumer: the job is lost, and nothing has changed
   */
  async commit(steps) {
    const made = await this.settler.commit(this, [...steps, ...this.#steps?.removed() ?? []], "ack");
    return made.slice(0, steps.length);
  }
  /** @internal Whether it has steps, which the commit that acknowledges it removes. */
  get hasSteps() {
    return this.#steps !== void 0;
  }
  /**
   * Runs a function once, even if this program crashes. Returns its result, which is stored as JSON until the entry is
   * settled. If this program crashes, the next one gets the result without calling the function again. If it crashes
   * before the result is stored, the function runs again: pass an idempotency key, such as `job.id`, to external
   * services.
   * @throws NotYours if the entry no longer belongs to this consumer
   */
  step(name2, act) {
    return this.#remembered.step(name2, act);
  }
  /**
   * Gives the entry back, and runs its handler again after this time. In the next run, steps that were done with `step`
   * are not repeated, and this sleep returns at once. Throws `Paused`, which ends the handler: do not catch it.
   */
  sleep(duration) {
    return this.#remembered.sleep(duration);
  }
  /**
   * Waits until a key is signalled (`Group.signal`). Returns the value of the signal. Meanwhile the entry is given
   * back, as with `sleep`.
   * @throws DOMException `TimeoutError` if the key was not signalled within this time
   */
  waitFor(key, within) {
    return this.#remembered.waitFor(key, within);
  }
  get #remembered() {
    return this.#steps ??= this.settler.stepsOf(this);
  }
  /** Restarts the idle time of the entry. The client extends jobs that you hold automatically. */
  extend() {
    return this.settler.extend(this);
  }
  /** @internal */
  cameAgain(deliveries, connection) {
    this.deliveries = deliveries;
    this.connection = connection;
  }
  /** @internal */
  lose() {
    this.isLost = true;
    this.#losing?.abort();
  }
};

// client/src/commit.ts
function append(stream, fields, { lastId, ...timing } = {}) {
  const entries = [fields].flat().map((each) => entryOf(each, timing));
  return { append: { stream, entries, ...lastId && { ifLastId: lastId } } };
}
function putRow(stream, key, fields, options = {}) {
  const { ifMatch, ifAbsent } = options;
  return { putRow: { stream, key, ...entryOf(fields), ...ifMatch && { ifMatch }, ...ifAbsent && { ifNoneMatch: "*" } } };
}
function deleteRow(stream, key, options = {}) {
  return { deleteRow: { stream, key, ...options } };
}
function ack(stream, group, ids, options = {}) {
  return { ack: { stream, group, ids, ...options } };
}
function nack(stream, group, ids, { error, ...options } = {}) {
  return { nack: { stream, group, ids, ...options, error: errorText(error) } };
}
function extend(stream, group, ids, options = {}) {
  return { extend: { stream, group, ids, ...options } };
}
function schedule(name2, { fields, ...parts }) {
  return { schedule: { name: name2, ...parts, ...entryOf(fields) } };
}
function cancel(name2) {
  return { cancel: { name: name2 } };
}
async function commit(context, steps, { consumer, idempotencyKey, signal }) {
  const headers = once(context, idempotencyKey);
  const body = { consumer, steps };
  const { results } = await context.rest.ask("POST", "/v1/commit", { body, headers, signal, isRepeatable: true });
  return results.map(({ ids = [] }) => ids);
}

// client/src/wire/credentials.ts
init_backoff();
init_problem();
var RENEW_AHEAD_MS = 6e4;
var RENEW_MS_MIN = 1e3;
var TIMER_MS_MAX = 2 ** 31 - 1;
var QUIET_MS_MAX = 5e3;
var ANSWER_MS_MAX2 = 3e4;
function renewMs(leftMs) {
  const waitMs = Math.max(leftMs - RENEW_AHEAD_MS, leftMs / 2);
  return Math.min(TIMER_MS_MAX, Math.max(RENEW_MS_MIN, waitMs));
}
var Credentials = class {
  /** `report` is called when the function begins to fail. */
  constructor(source, report) {
    this.source = source;
    this.report = report;
  }
  /** Why there is no fresh token although one is needed. */
  failure;
  #token;
  #endsAt = Infinity;
  #renewAt = Infinity;
  #failures = 0;
  #quietUntil = 0;
  #coming;
  /** Whether another token can follow this one. */
  get canRenew() {
    return typeof this.source === "function";
  }
  /** Time until the token must be renewed, at most the maximum of a timer. */
  get renewInMs() {
    return Math.min(TIMER_MS_MAX, this.#renewAt - Date.now());
  }
  /**
   * Returns the current token, or a fresh one if it is about to end; undefined if no token is needed.
   * @throws Disconnected if there is no token
   */
  async current() {
    if (typeof this.source !== "function") return this.source;
    if (Date.now() < this.#renewAt && this.#token !== void 0) return this.#token;
    return this.#fresh().catch((error) => {
      if (this.#token === void 0 || Date.now() >= this.#endsAt) throw error;
      return this.#token;
    });
  }
  /**
   * Returns a different token than one that ends; undefined if there is none.
   * @throws Disconnected if the function fails
   */
  async renewed(old) {
    if (!this.canRenew) return void 0;
    const token = this.#token === void 0 || this.#token === old ? await this.#fresh() : this.#token;
    return token === old ? void 0 : token;
  }
  /** Returns a different token than one that was refused, and no longer uses that one. See `renewed`. */
  refused(old) {
    if (this.#token === old) this.#token = void 0;
    return this.renewed(old);
  }
  // Concurrent calls get the same token or the same error.
  async #fresh() {
    if (Date.now() < this.#quietUntil) throw this.failure;
    return this.#coming ??= this.#fetched().finally(() => this.#coming = void 0);
  }
  async #fetched() {
    try {
      const token = await this.#answer();
      const leftMs = endOf(token) - Date.now();
      this.#endsAt = leftMs > 0 ? Date.now() + leftMs : Infinity;
      this.#renewAt = this.#endsAt === Infinity ? Infinity : Date.now() + renewMs(leftMs);
      this.#failures = 0;
      this.failure = void 0;
      return this.#token = token;
    } catch (cause) {
      this.failure = new Disconnected(`there is no token: ${cause}`, void 0, { cause });
      if (this.#failures === 0) this.report(this.failure);
      this.#quietUntil = Date.now() + Math.min(QUIET_MS_MAX, backoffMs(this.#failures, 0));
      this.#renewAt = Date.now() + renewMs(this.#endsAt - Date.now());
      this.#failures += 1;
      throw this.failure;
    }
  }
  async #answer() {
    const over = new AbortController();
    const late = waited(ANSWER_MS_MAX2, over.signal).then(() => Promise.reject(new Error("the token function does not answer")));
    try {
      const token = await Promise.race([late, Promise.resolve().then(this.source)]);
      if (typeof token !== "string" || token === "") throw new TypeError("the token function returned no text");
      return token;
    } finally {
      over.abort();
    }
  }
};
function endOf(token) {
  try {
    const { exp } = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return typeof exp === "number" ? exp * 1e3 : Infinity;
  } catch {
    return Infinity;
  }
}

// client/src/arrivals.ts
var Arrivals = class {
  constructor(signal, take = () => this.#queue.shift()) {
    this.signal = signal;
    this.take = take;
    signal?.addEventListener("abort", this.#stop);
  }
  #queue = [];
  #wake = () => {
  };
  #isOver = false;
  #error;
  add(item) {
    this.#queue.push(item);
    this.come();
  }
  /** Signals that there may be an item to take. */
  come() {
    this.#wake();
  }
  /** Signals that no more items arrive, for this reason. */
  end(error) {
    this.#isOver = true;
    this.#error = error;
    this.#wake();
  }
  /** Returns the next item; undefined after the end, or if the signal is aborted. */
  async next() {
    while (!this.signal?.aborted) {
      const item = this.take();
      if (item !== void 0) return item;
      if (this.#error) throw this.#error;
      if (this.#isOver) break;
      await new Promise((resolve) => this.#wake = resolve);
    }
    return void 0;
  }
  close() {
    this.signal?.removeEventListener("abort", this.#stop);
  }
  #stop = () => this.#wake();
};

// client/src/follower.ts
init_names();

// client/src/window.ts
var CreditWindow = class {
  // items that wait here
  constructor(context, sub, limit = 512) {
    this.context = context;
    this.sub = sub;
    this.limit = limit;
  }
  #available = 0;
  // items that the gateway may still send
  #untaken = 0;
  /** Returns the credit for the start of a subscription. */
  begin() {
    return this.#available = Math.max(1, this.limit - this.#untaken);
  }
  came(items) {
    this.#available -= items;
    this.#untaken += items;
  }
  /** Signals that this many items have been taken. */
  taken(items) {
    this.#untaken -= items;
    const credit = this.limit - this.#untaken - this.#available;
    if (credit < this.limit / 2) return;
    this.#available += credit;
    this.context.line.credit(this.sub, credit);
  }
};

// client/src/follower.ts
var Follower = class extends Subscription {
  constructor(context, place, options, onEntries, onEnd) {
    super(options);
    this.context = context;
    this.place = place;
    this.options = options;
    this.onEntries = onEntries;
    this.onEnd = onEnd;
    this.#after = options.after ?? "$";
    this.#sub = context.nextSub();
    this.#window = new CreditWindow(context, this.#sub, options.credit);
    context.line.add(this.#sub, this);
  }
  isBusy = false;
  #after;
  #sub;
  #window;
  /** Signals that this many entries have been taken. */
  taken(entries) {
    this.#window.taken(entries);
  }
  close() {
    void this.context.line.remove(this.#sub);
  }
  wanted() {
    const { filter } = this.options;
    return { ...this.place, after: this.#after, credit: this.#window.begin(), ...filter && { filter } };
  }
  subscribed(frame) {
    super.subscribed(frame);
    this.#after = frame.position ?? this.#after;
    this.#gap(frame.gap);
  }
  entries({ entries, gap, gaps, position }) {
    for (const each of gaps ?? [gap]) this.#gap(each);
    this.#after = position ?? ("stream" in this.place && entries.at(-1)?.id || this.#after);
    if (!entries.length) return;
    this.#window.came(entries.length);
    this.onEntries(fromWire(entries));
  }
  state(state) {
    this.options.onState?.(state);
  }
  ended(error) {
    super.ended(error);
    this.onEnd(error);
  }
  claimed() {
  }
  #gap(gap) {
    if (gap) this.options.onGap?.(gap);
  }
};
async function* followed(context, place, options = {}) {
  const { signal } = options;
  const arrivals = new Arrivals(signal);
  const add = (entries) => arrivals.add(entries);
  const follower = new Follower(context, place, options, add, (error) => arrivals.end(error));
  try {
    for (let entries = await arrivals.next(); entries; entries = await arrivals.next()) {
      for (const entry of entries) {
        if (signal?.aborted) return;
        yield entry;
      }
      follower.taken(entries.length);
    }
  } finally {
    arrivals.close();
    follower.close();
  }
}

// client/src/table.ts
init_names();
init_problem();
init_rest();
var Table = class {
  constructor(context, stream) {
    this.context = context;
    this.stream = stream;
  }
  /** Returns the row of a key; undefined if there is no row. */
  get(key, { signal } = {}) {
    return found(this.context.rest.ask("GET", this.#place(key), { signal }));
  }
  /** Returns the row of a key when it changes after an id, or when `waitMs` have passed (default: 20,000). */
  wait(key, options) {
    const { after, waitMs = 2e4, signal } = options;
    return found(this.context.rest.ask("GET", this.#place(key), { query: { after, wait_ms: waitMs }, signal }));
  }
  /**
   * Appends an entry that becomes the row of a key. Returns its id. The gateway adds the key field.
   * @throws RowChanged if the row does not match the condition
   */
  async put(key, fields, options = {}) {
    return (await this.#change("PUT", key, options, entryOf(fields))).id;
  }
  /**
   * Appends an entry that removes the row of a key. Returns false if there is no row.
   * @throws RowChanged if the row does not match the condition
   */
  async delete(key, options = {}) {
    return !!await found(this.#change("DELETE", key, options));
  }
  /**
   * Yields all rows in the order of their keys, as of one id, page by page.
   * @throws Problem `gone` if too much has changed meanwhile: start again
   */
  async *rows(options) {
    for await (const { rows } of this.#pages(options)) yield* rows;
  }
  /**
   * Yields all rows, and then each change as it arrives, across reconnections. If entries were trimmed before you
   * received them, the client reads all rows again and yields the differences. Ends with the loop, its signal, or a
   * closed stream.
   */
  async *changes(options = {}) {
    const { signal } = options;
    const arrivals = new Arrivals(signal);
    const follower = new TableFollower(this.context, this.stream, options, arrivals);
    try {
      for (let arrived = await arrivals.next(); arrived; arrived = await arrivals.next()) {
        for (const change of arrived.changes) {
          if (signal?.aborted) return;
          yield change;
        }
        follower.taken(arrived.count);
        if (arrived.state) options.onState?.(arrived.state);
      }
    } finally {
      arrivals.close();
      follower.close();
    }
  }
  async *#pages({ signal, limit = 1e3, prefix, filter, columns } = {}) {
    const asked = { limit, prefix, filter: jsonOf(filter), columns: jsonOf(columns) };
    for (let next = {}; ; ) {
      const page = await this.context.rest.ask("GET", this.#place(), { query: { ...asked, ...next }, signal });
      yield page;
      if (page.nextAfterKey === null) return;
      next = { after_key: page.nextAfterKey, as_of: page.asOf };
    }
  }
  #change(method, key, options, body) {
    const { ifMatch, ifAbsent, idempotencyKey, signal } = options;
    const headers = {
      ...once(this.context, idempotencyKey),
      ...ifMatch && { "if-match": `"${ifMatch}"` },
      ...ifAbsent && { "if-none-match": "*" }
    };
    return this.context.rest.ask(method, this.#place(key), { body, headers, signal, isRepeatable: true });
  }
  #place(key) {
    const table = path`/v1/streams/${this.stream}/table`;
    if (key === void 0) return table;
    return table + path`/${/^\.\.?$/.test(key) ? `base64:${btoa(key)}` : key}`;
  }
};
async function found(asking) {
  return asking.catch((error) => {
    if (!isProblem(error, "entry_not_found")) throw error;
    return void 0;
  });
}
var TableFollower = class extends Subscription {
  constructor(context, stream, options, arrivals) {
    super(options);
    this.context = context;
    this.stream = stream;
    this.options = options;
    this.arrivals = arrivals;
    this.#sub = context.nextSub();
    this.#window = new CreditWindow(context, this.#sub, options.credit);
    context.line.add(this.#sub, this);
  }
  isBusy = false;
  #after;
  // undefined: all rows are sent
  #asOf = "";
  #keys;
  // of the rows received, until all have arrived
  #known = /* @__PURE__ */ new Map();
  // the id of each row
  #sub;
  #window;
  taken(rows) {
    this.#window.taken(rows);
  }
  close() {
    void this.context.line.remove(this.#sub);
  }
  wanted() {
    const { prefix } = this.options;
    const after = this.#after;
    return { stream: this.stream, view: "table", credit: this.#window.begin(), ...prefix && { prefix }, ...after && { after } };
  }
  subscribed(frame) {
    super.subscribed(frame);
    if (frame.gap || this.#after === void 0) this.#begin(frame.position ?? "");
  }
  rows({ rows, again, position }) {
    if (again) this.#begin("");
    this.#window.came(rows.length);
    const changes = fromWire(rows).filter((row) => this.#isNews(row));
    this.arrivals.add({ changes, count: rows.length });
    if (position) this.#after = position;
  }
  state(state) {
    const keys = state === "caught_up" ? this.#keys : void 0;
    const gone = keys ? [...this.#known.keys()].filter((key) => !keys.has(key) && this.#known.delete(key)) : [];
    if (keys) {
      this.#keys = void 0;
      this.#after ??= this.#asOf || void 0;
    }
    this.arrivals.add({ changes: gone.map((key) => ({ key, id: this.#asOf, fields: null })), count: 0, state });
  }
  ended(error) {
    super.ended(error);
    this.arrivals.end(error);
  }
  entries() {
  }
  claimed() {
  }
  /** Notes that all rows are sent again. Those that are not sent are gone. */
  #begin(asOf) {
    this.#after = void 0;
    this.#asOf = asOf;
    this.#keys = /* @__PURE__ */ new Set();
  }
  #isNews({ key, id, fields }) {
    this.#keys?.add(key);
    if (!fields) return this.#known.delete(key);
    return this.#known.get(key) !== id && !!this.#known.set(key, id);
  }
};

// client/src/steps.ts
init_problem();
init_rest();
var STEPS_MAX = 90;
var CONFIG = { keyField: "key", retain: "latest", compactAfterMs: 6e4, tombstoneMs: 6e4, maxAgeMs: 90 * 864e5 };
var WAKER = "headgate-signal";
var UNITS = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
var Paused = class extends Error {
  name = "Paused";
  constructor() {
    super("the entry is delivered again later");
  }
};
function milliseconds(duration) {
  if (typeof duration === "number") return duration;
  const parts = /^(\d+)(ms|s|m|h|d)$/.exec(duration);
  if (!parts) throw new RangeError(`${duration} is not a duration such as 2d, 3h, 90m, 10s or 500ms`);
  return Number(parts[1]) * UNITS[parts[2]];
}
var StepTable = class {
  constructor(context, stream, group) {
    this.context = context;
    this.stream = stream;
    this.group = group;
    this.name = `${stream}.${group}.steps`;
    this.#table = new Table(context, this.name);
  }
  name;
  #table;
  /** Returns the rows whose keys start with a prefix, by key without the prefix. */
  async rows(prefix) {
    const rows = /* @__PURE__ */ new Map();
    try {
      for await (const row of this.#table.rows({ prefix })) rows.set(row.key.slice(prefix.length), row);
    } catch (error) {
      if (!isProblem(error, "stream_not_found")) throw error;
    }
    return rows;
  }
  /** Delivers entries now that were given back for later. */
  async wake(ids) {
    if (!ids.length) return;
    const place = path`/v1/streams/${this.stream}/groups/${this.group}/nack`;
    await this.context.rest.ask("POST", place, { body: { ids, mode: "fail", delayMs: 0 }, query: { consumer: WAKER } });
  }
  async signal(key, value) {
    await this.changed(() => this.#table.put(signalOf(key), { value: JSON.stringify(value ?? null) }));
    await this.wake([...(await this.rows(waitingOf(key, ""))).keys()]);
  }
  /** Changes rows. Creates the table if it does not exist. */
  async changed(change) {
    try {
      return await change();
    } catch (error) {
      if (!isProblem(error, "stream_not_found")) throw error;
    }
    await this.context.rest.ask("PUT", path`/v1/streams/${this.name}`, { body: CONFIG, isRepeatable: true });
    return await change();
  }
};
var Steps = class {
  constructor(table, entryId, commit2) {
    this.table = table;
    this.entryId = entryId;
    this.commit = commit2;
  }
  #known;
  // by key without the prefix
  #asked = /* @__PURE__ */ new Set();
  #sleeps = 0;
  /** Returns the steps of a commit that removes all of these rows. */
  removed() {
    return [...this.#known?.keys() ?? []].map((name2) => deleteRow(this.table.name, this.#key(name2)));
  }
  async step(name2, act) {
    const known2 = await this.#find(`step/${name2}`);
    if (known2) return JSON.parse(known2.fields.result);
    const result = await act();
    await this.#remember(`step/${name2}`, { result: JSON.stringify(result ?? null) }, "extend");
    return result;
  }
  async sleep(duration) {
    this.#sleeps += 1;
    const name2 = `sleep/${this.#sleeps}`;
    const known2 = await this.#find(name2);
    if (!known2) {
      const laterMs2 = milliseconds(duration);
      await this.#remember(name2, { for_ms: String(laterMs2) }, { laterMs: laterMs2 });
      throw new Paused();
    }
    const laterMs = await this.#leftMs(name2, known2);
    if (laterMs <= 0) return;
    await this.commit([], { laterMs });
    throw new Paused();
  }
  async waitFor(key, within) {
    const name2 = `wait/${encodeURIComponent(key)}`;
    const known2 = await this.#find(name2);
    if (known2?.fields.value !== void 0) return JSON.parse(known2.fields.value);
    if (known2?.fields.timed_out !== void 0) throw timedOut(key);
    const waiting = waitingOf(key, this.entryId);
    const isOver = deleteRow(this.table.name, waiting);
    const value = (await this.table.rows(signalOf(key))).get("")?.fields.value;
    if (value !== void 0) {
      await this.#remember(name2, { value }, "extend", isOver);
      return JSON.parse(value);
    }
    if (!known2) {
      const laterMs = milliseconds(within);
      await this.#remember(name2, { for_ms: String(laterMs) }, { laterMs }, putRow(this.table.name, waiting, {}));
    } else {
      const laterMs = await this.#leftMs(name2, known2);
      if (laterMs <= 0) {
        await this.#remember(name2, { timed_out: "1" }, "extend", isOver);
        throw timedOut(key);
      }
      await this.commit([], { laterMs });
    }
    if ((await this.table.rows(signalOf(key))).size) await this.table.wake([this.entryId]);
    throw new Paused();
  }
  /** Returns the remaining time of a wait, by the clock of the gateway: ids contain its time. */
  async #leftMs(name2, { id, fields }) {
    const sinceMs = Number(fields.since_ms ?? msOf(id));
    const forMs = Number(fields.for_ms);
    return sinceMs + forMs - await this.#remember(name2, { for_ms: String(forMs), since_ms: String(sinceMs) }, "extend");
  }
  async #find(name2) {
    if (this.#asked.has(name2)) throw new Error(`${name2} is used twice: give each step its own name`);
    this.#asked.add(name2);
    this.#known ??= await this.table.rows(this.#key(""));
    if (!this.#known.has(name2) && this.#known.size >= STEPS_MAX) throw new Error(`an entry has at most ${STEPS_MAX} steps`);
    return this.#known.get(name2);
  }
  /** Writes a row and returns the time of the gateway (unix ms). */
  async #remember(name2, fields, settling, ...others) {
    const key = this.#key(name2);
    const row = putRow(this.table.name, key, fields);
    const [ids] = await this.table.changed(() => this.commit([row, ...others], settling));
    const id = ids[0];
    this.#known.set(name2, { key, id, fields });
    return msOf(id);
  }
  #key(name2) {
    return `${this.entryId}/${name2}`;
  }
};
var timedOut = (key) => new DOMException(`${key} was not signalled in time`, "TimeoutError");
var msOf = (id) => Number(id.split("-", 1)[0]);
var signalOf = (key) => `signal/${encodeURIComponent(key)}`;
var waitingOf = (key, entryId) => `waiting/${encodeURIComponent(key)}/${entryId}`;

// client/src/consumer.ts
init_names();
init_problem();
var soon = globalThis.setImmediate ?? ((work) => setTimeout(work, 0));
var Consumer = class extends Subscription {
  constructor(context, names, options, claimIdleMs) {
    super(options);
    this.context = context;
    this.names = names;
    this.options = options;
    this.claimIdleMs = claimIdleMs;
    this.sub = context.nextSub();
  }
  /** Called when there may be a job to `take`. */
  onJobs = () => {
  };
  onEnd = () => {
  };
  sub;
  #name;
  // name of this consumer
  #queue = [];
  #inHand = /* @__PURE__ */ new Map();
  /** Jobs that are done, but not known to be acknowledged because the connection was lost. */
  #done = /* @__PURE__ */ new Set();
  #acks = [];
  #isAcking = false;
  #isClosed = false;
  #connection = 0;
  #extending;
  get isBusy() {
    return this.#inHand.size > 0 || this.#acks.length > 0;
  }
  open() {
    if (!this.#isClosed) this.context.line.add(this.sub, this);
  }
  /** Returns the next job to begin. */
  take() {
    for (let job = this.#queue.shift(); job; job = this.#queue.shift()) {
      if (job.isLost) continue;
      this.#inHand.set(job.key, job);
      return job;
    }
    return void 0;
  }
  /** Ends the subscription after all outcomes were sent and answered. Unsettled jobs go back. */
  async close() {
    this.#isClosed = true;
    clearInterval(this.#extending);
    this.#send();
    await this.context.line.remove(this.sub);
  }
  wanted() {
    const { consumer, credit = 64, claimIdleMs, onDisconnect } = this.options;
    return {
      ...this.names,
      credit,
      auto_credit: true,
      consumer: consumer ?? null,
      claim_idle_ms: claimIdleMs ?? null,
      on_disconnect: onDisconnect ?? null
    };
  }
  subscribed(frame) {
    super.subscribed(frame);
    this.#name = frame.consumer ?? void 0;
    void this.#keepExtending();
  }
  entries({ entries }) {
    for (const frame of entries) {
      const key = keyOf(frame);
      const job = this.#inHand.get(key);
      if (job) job.cameAgain(frame.deliveries, this.#connection);
      else if (this.#done.delete(key)) this.#acknowledge({ key });
      else this.#queue.push(new Job(fromWire(frame), this, this.#connection));
    }
    this.onJobs();
  }
  state(state) {
    if (state === "caught_up") this.#done.clear();
    this.options.onState?.(state);
  }
  claimed(ids, by) {
    const gone = new Set(ids);
    for (const job of [...this.#queue, ...this.#inHand.values()]) if (gone.has(job.id)) job.lose();
    this.options.onClaimed?.(ids, by);
  }
  lost(error) {
    super.lost(error);
    this.#letGo();
  }
  #letGo() {
    this.#connection += 1;
    for (const job of this.#queue.splice(0)) job.lose();
  }
  ended(error) {
    super.ended(error);
    this.#isClosed = true;
    clearInterval(this.#extending);
    this.#letGo();
    this.onEnd(error);
  }
  /** Acknowledges a job without waiting. If that is not possible now, it is done when the job is delivered again. */
  finish(job) {
    if (!this.#settles(job) || job.isLost) return;
    if (job.connection === this.#connection) this.#acknowledge({ key: job.key });
    else this.#done.add(job.key);
  }
  ack(job) {
    this.#settles(job);
    if (job.connection !== this.#connection) return Promise.reject(stale());
    return new Promise((resolve, reject) => this.#acknowledge({ key: job.key, resolve, reject }));
  }
  nack(job, { mode = "fail", delayMs, error }) {
    this.#settles(job);
    return this.#settle(job, {
      type: "nack",
      sub: this.sub,
      ...named(job),
      mode,
      delay_ms: delayMs ?? null,
      error: errorText(error)
    });
  }
  extend(job) {
    return this.#settle(job, { type: "extend", sub: this.sub, ...named(job) });
  }
  async commit(job, steps, settling) {
    if (job.isSettled) throw new Error("this job is already settled");
    const { deliveries } = job;
    const isForLater = typeof settling === "object";
    if (isForLater) this.#inHand.delete(job.key);
    try {
      const ids = await commit(this.context, [...steps, this.#own(job, settling)], { consumer: this.#name });
      if (settling !== "extend") this.#settles(job);
      return ids.slice(0, -1);
    } catch (error) {
      if (!(error instanceof NotYours)) throw error;
      if (job.deliveries !== deliveries) return await this.commit(job, steps, settling);
      this.#drop(job);
      job.lose();
      throw error;
    } finally {
      if (job.isSettled || job.isLost) this.extend(job).catch(() => {
      });
    }
  }
  /** Returns the step that settles a job or extends it. */
  #own({ id, deliveries, stream = this.names.stream }, settling) {
    const place = [stream, this.names.group, [id]];
    const fence = { deliveries: [deliveries] };
    if (settling === "ack") return ack(...place, fence);
    if (settling === "extend") return extend(...place, fence);
    return nack(...place, { mode: "silent", delayMs: settling.laterMs, ...fence });
  }
  /** Returns the steps of a job. They are stored in a table of its group. */
  stepsOf(job) {
    const table = new StepTable(this.context, job.stream ?? this.names.stream, this.names.group);
    return new Steps(table, job.id, (steps, settling) => this.commit(job, steps, settling));
  }
  /** Removes a job from the jobs in hand. Returns false if it was settled before. */
  #settles(job) {
    if (job.isSettled) return false;
    this.#drop(job);
    return job.isSettled = true;
  }
  /** Removes a job from the jobs in hand, but not another job of the same entry. */
  #drop(job) {
    if (this.#inHand.get(job.key) === job) this.#inHand.delete(job.key);
  }
  async #settle(job, frame) {
    if (job.connection !== this.#connection) throw stale();
    return (await this.context.line.settle(frame))[0].outcome;
  }
  #acknowledge(ack2) {
    if (this.#acks.push(ack2) === 1) soon(() => this.#flush());
  }
  #flush() {
    if (!this.#isAcking) this.#send();
  }
  #send() {
    const acks = this.#acks;
    if (acks.length === 0) return;
    this.#acks = [];
    this.#isAcking = true;
    const sent = new Map(acks.map((ack2) => [ack2.key, ack2]));
    const settled = of([...sent.keys()]).map(
      ({ keys, ...ids }) => this.context.line.settle({ type: "ack", sub: this.sub, ...ids }).then(
        (results) => keys.forEach((key, index) => sent.get(key).resolve?.(results[index].outcome)),
        (error) => keys.forEach((key) => (sent.get(key).reject ?? (() => this.#done.add(key)))(error))
      )
    );
    void Promise.all(settled).then(() => {
      this.#isAcking = false;
      this.#flush();
    });
  }
  async #keepExtending() {
    if (this.#extending) return;
    try {
      const claimIdleMs = this.options.claimIdleMs ?? await this.claimIdleMs();
      clearInterval(this.#extending);
      if (claimIdleMs && !this.#isClosed) this.#extending = setInterval(() => this.#extendAll(), claimIdleMs / 3);
    } catch (error) {
      if (this.#isClosed || !(error instanceof Problem)) return;
      void this.close();
      this.ended(error);
    }
  }
  #extendAll() {
    const held = [...this.#inHand.values()].filter((job) => job.connection === this.#connection);
    for (const { keys: _, ...ids } of of(held.map(({ key }) => key))) {
      this.context.line.settle({ type: "extend", sub: this.sub, ...ids }).catch(() => {
      });
    }
  }
};
var named = ({ id, stream }) => ({ ids: [id], ...stream !== void 0 && { stream } });
function of(keys) {
  const byStream = /* @__PURE__ */ new Map();
  for (const key of keys) {
    const stream = key.slice(0, Math.max(key.lastIndexOf("\n"), 0));
    byStream.get(stream)?.push(key) ?? byStream.set(stream, [key]);
  }
  return [...byStream].map(([stream, keys2]) => ({
    keys: keys2,
    ids: keys2.map((key) => key.slice(key.lastIndexOf("\n") + 1)),
    ...stream && { stream }
  }));
}
function stale() {
  return new Disconnected("the connection of the job was lost; it is delivered again");
}

// client/src/push.ts
init_rest();
var Push = class {
  /** `groups` is set for a group over a pattern. Then `stream` is the pattern. */
  constructor(context, stream, group, groups) {
    this.context = context;
    this.stream = stream;
    this.group = group;
    this.groups = groups;
  }
  /**
   * Creates the push or replaces it. Options that are left out have the default of the gateway. The answer has the
   * `secret` only when it is new. If the answer is lost, the request is not repeated: call `rotate` to get a secret
   * that you know.
   */
  set(push) {
    return this.#ask("PUT", "", { ...this.groups, ...push });
  }
  /** Returns the state of the push and the latest answers of the receiver. */
  info() {
    return this.#ask("GET");
  }
  /** Sends nothing until `resume`. Requests in progress finish. */
  pause() {
    return this.#ask("POST", "/pause");
  }
  /** Resumes after a pause, or after the push was disabled. */
  resume() {
    return this.#ask("POST", "/resume");
  }
  /** Retries failed entries now instead of waiting. Returns their number. */
  async retry() {
    return (await this.#ask("POST", "/retry")).entries;
  }
  /** Sends a test event now and returns the result. No entry is sent or acknowledged. */
  test() {
    return this.#ask("POST", "/test");
  }
  /**
   * Replaces the secret and returns the new one. Requests are also signed with the old one for `overlapMs`. Default:
   * one day.
   */
  async rotate(overlapMs) {
    return (await this.#ask("POST", "/rotate", { overlapMs })).secret;
  }
  /** Yields the stored attempts, newest first: those of one entry, or all. */
  attempts(id) {
    return this.context.rest.items(`${this.#place}/attempts`, "attempts", { id, match: this.groups && this.stream });
  }
  /**
   * Sends the entries of a range again without moving the group, or only counts them (`dryRun`). `info` shows the
   * progress.
   */
  replay(wanted) {
    return this.#ask("POST", "/replay", wanted);
  }
  /** Cancels the current replay. */
  cancelReplay() {
    return this.#ask("DELETE", "/replay");
  }
  /** Deletes the push. The group and its pending entries remain. */
  delete() {
    return this.#ask("DELETE");
  }
  get #place() {
    return this.groups ? path`/v1/groups/${this.group}/push` : path`/v1/streams/${this.stream}/groups/${this.group}/push`;
  }
  #ask(method, act = "", body) {
    return this.context.rest.ask(method, this.#place + act, { query: { match: this.groups ? this.stream : void 0 }, body });
  }
};

// client/src/group.ts
init_rest();

// client/src/worker.ts
init_problem();
var Worker = class {
  constructor(consumer, handler, concurrency, onError) {
    this.consumer = consumer;
    this.handler = handler;
    this.concurrency = concurrency;
    this.onError = onError;
    this.finished = new Promise((resolve, reject) => [this.#resolve, this.#reject] = [resolve, reject]);
    consumer.onJobs = () => this.#pump();
    consumer.onEnd = (error) => error ? this.#reject(error) : this.#resolve();
  }
  /**
   * Resolves when all jobs that were begun are done and the gateway knows it. Rejects when the group can no longer be
   * read.
   */
  finished;
  #running = 0;
  #isDraining = false;
  #closing;
  #resolve;
  #reject;
  /** Begins no more jobs. Running jobs finish and are acknowledged. */
  drain() {
    if (this.#isDraining) return;
    this.#isDraining = true;
    this.#pump();
  }
  #pump() {
    while (!this.#isDraining && this.#running < this.concurrency) {
      const job = this.consumer.take();
      if (!job) return;
      this.#running += 1;
      void this.#run(job);
    }
    if (this.#isDraining && this.#running === 0) this.#closing ??= this.consumer.close().then(this.#resolve);
  }
  async #run(job) {
    try {
      await this.handler(job);
      if (job.hasSteps && !job.isSettled) await job.commit([]);
      this.consumer.finish(job);
    } catch (error) {
      if (!(error instanceof Paused)) await this.#fail(job, error);
    }
    this.#running -= 1;
    this.#pump();
  }
  async #fail(job, error) {
    this.onError(error, job);
    if (job.isSettled || job.isLost) return;
    await job.nack({ error }).catch((reason) => {
      if (!(reason instanceof Disconnected)) this.onError(reason, job);
    });
  }
};
function drainOn(worker, { signal, signals = ["SIGTERM", "SIGINT"] }) {
  const { process } = globalThis;
  const drain = () => worker.drain();
  if (signal?.aborted) drain();
  signal?.addEventListener("abort", drain);
  for (const name2 of signals) process?.once?.(name2, drain);
  return () => {
    signal?.removeEventListener("abort", drain);
    for (const name2 of signals) process?.off?.(name2, drain);
  };
}

// client/src/group.ts
var Worked = class {
  constructor(context) {
    this.context = context;
  }
  /**
   * Processes the group: runs the handler for each job, acknowledges the job when the handler returns, and gives it
   * back as failed when the handler throws. Resolves when a signal has ended the worker and the jobs that it had begun
   * are done.
   */
  async work(handler, options = {}) {
    const { concurrency = 16, onError } = options;
    const credit = options.credit ?? Math.max(64, 2 * concurrency);
    const consumer = this.#consumer({ ...options, credit });
    const { group, stream, match } = this.names;
    const where = `group ${group} of ${stream ?? match}`;
    const report = onError ?? ((error, job) => this.context.report(error, `job ${job.id}, ${where}`));
    const worker = new Worker(consumer, handler, concurrency, report);
    const forget = drainOn(worker, options);
    try {
      consumer.open();
      await worker.finished;
    } finally {
      forget();
    }
  }
  /** Yields jobs one by one. Acknowledge each job or give it back. Unsettled jobs go back when the loop ends. */
  async *consume(options = {}) {
    const consumer = this.#consumer(options);
    const arrivals = new Arrivals(options.signal, () => consumer.take());
    consumer.onJobs = () => arrivals.come();
    consumer.onEnd = (error) => arrivals.end(error);
    try {
      consumer.open();
      for (let job = await arrivals.next(); job; job = await arrivals.next()) yield job;
    } finally {
      arrivals.close();
      await consumer.close();
    }
  }
  #consumer(options) {
    return new Consumer(this.context, this.names, options, () => this.claimIdleMs());
  }
};
var Group = class extends Worked {
  constructor(context, stream, name2) {
    super(context);
    this.stream = stream;
    this.name = name2;
  }
  /** The push, which sends the entries to a URL. `set` creates it. */
  get push() {
    return new Push(this.context, this.stream, this.name);
  }
  get names() {
    return { stream: this.stream, group: this.name };
  }
  async claimIdleMs() {
    return (await this.info()).policy.claimIdleMs ?? void 0;
  }
  /** Creates the group. Does nothing if it exists with the same policy. */
  create(group = {}) {
    return this.context.rest.ask("PUT", this.#path, { body: group, isRepeatable: true });
  }
  /** Returns the state of the group. */
  info() {
    return this.context.rest.ask("GET", this.#path);
  }
  /** Changes the position or the policy. */
  update(patch) {
    return this.context.rest.ask("PATCH", this.#path, { body: patch, isRepeatable: true });
  }
  /**
   * Resumes handlers that wait for a key, now or later (`Job.waitFor`). The last signal of a key counts, for 90 days.
   */
  signal(key, value) {
    return new StepTable(this.context, this.stream, this.name).signal(key, value);
  }
  /** Deletes the group and its pending entries. */
  delete() {
    return this.context.rest.ask("DELETE", this.#path);
  }
  /** Reads entries as a consumer, with one request. */
  read({ consumer, signal, ...body }) {
    return this.#ask("read", { ...body }, { consumer, signal });
  }
  async ack(ids, options = {}) {
    return (await this.#ask("ack", { ids }, options)).results;
  }
  async nack(ids, { consumer, error, ...options } = {}) {
    return (await this.#ask("nack", { ids, ...options, error: errorText(error) }, { consumer })).results;
  }
  async extend(ids, options) {
    return (await this.#ask("extend", { ids }, options)).results;
  }
  claim({ consumer, signal, ...body }) {
    return this.#ask("claim", { ...body }, { consumer, signal });
  }
  autoclaim({ consumer, signal, ...body }) {
    return this.#ask("autoclaim", { ...body }, { consumer, signal });
  }
  /** Returns the pending entries, with their consumers and idle times. */
  async pending({ minIdleMs, ...options } = {}) {
    const query = { ...options, min_idle_ms: minIdleMs };
    return (await this.context.rest.ask("GET", `${this.#path}/pending`, { query })).pending;
  }
  pendingSummary() {
    return this.context.rest.ask("GET", `${this.#path}/pending/summary`);
  }
  /** Delivers dead letters again, oldest first. */
  async redrive(redrive = {}) {
    return (await this.#ask("dead-letters/redrive", redrive)).results;
  }
  async consumers() {
    const consumers = [];
    const all = this.context.rest.items(`${this.#path}/consumers`, "consumers");
    for await (const consumer of all) consumers.push(consumer);
    return consumers;
  }
  /** Returns the keys of a fair group, each with its waiting entries, their age, and its share of the last minute. */
  async keys(query = {}) {
    return (await this.context.rest.ask("GET", `${this.#path}/keys`, { query })).keys;
  }
  /**
   * Deletes a consumer. Returns the number of entries that it held. By default, they are released to other consumers.
   */
  async deleteConsumer(consumer, pending = "release") {
    const place = this.#path + path`/consumers/${consumer}`;
    return (await this.context.rest.ask("DELETE", place, { query: { pending } })).pending;
  }
  get #path() {
    return path`/v1/streams/${this.stream}/groups/${this.name}`;
  }
  #ask(verb, body, { consumer, signal } = {}) {
    return this.context.rest.ask("POST", `${this.#path}/${verb}`, { query: { consumer }, body, signal });
  }
};

// client/src/groups.ts
init_names();
init_rest();
var Groups = class extends Worked {
  constructor(context, name2, options) {
    super(context);
    this.name = name2;
    this.options = options;
  }
  get names() {
    return { ...toWire(this.options), group: this.name };
  }
  // The policy can differ between streams.
  async claimIdleMs() {
  }
  /** The push, which sends the entries of all the streams to a URL. `set` creates it. */
  get push() {
    const { match, ...options } = this.options;
    return new Push(this.context, match, this.name, options);
  }
  /** Reads entries as a consumer, with one request. */
  read({ consumer, signal, ...body }) {
    const { match, ...options } = this.options;
    return this.#ask("read", { ...options, ...body }, { match, consumer }, signal);
  }
  async ack(entries, { consumer } = {}) {
    return (await this.#ask("ack", { entries }, { consumer })).streams;
  }
  async nack(entries, { consumer, error, ...options } = {}) {
    return (await this.#ask("nack", { entries, ...options, error: errorText(error) }, { consumer })).streams;
  }
  async extend(entries, { consumer }) {
    return (await this.#ask("extend", { entries }, { consumer })).streams;
  }
  #ask(verb, body, query, signal) {
    return this.context.rest.ask("POST", path`/v1/groups/${this.name}` + `/${verb}`, { query, body, signal });
  }
};

// client/src/live/live.ts
init_problem();

// client/src/live/page.ts
function watchPage(live, hiddenMs) {
  const { document } = globalThis;
  if (typeof document === "undefined" || typeof addEventListener === "undefined") return () => {
  };
  let timer;
  const onVisibility = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") live.resume();
    else if (hiddenMs < Infinity) timer = setTimeout(hide, hiddenMs);
  };
  const hide = () => {
    if (live.isBusy) timer = setTimeout(hide, hiddenMs);
    else live.pause();
  };
  const onNetwork = () => live.resume();
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("online", onNetwork);
  addEventListener("offline", onNetwork);
  onVisibility();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("online", onNetwork);
    removeEventListener("offline", onNetwork);
  };
}

// client/src/live/socket-line.ts
init_backoff();

// client/src/live/socket.ts
var ABNORMAL = 1006;
var UNAUTHENTICATED = 4401;
var RATE_LIMITED = 4529;
function comesBack(code) {
  if (code === UNAUTHENTICATED) return true;
  return !(code === 1e3 || code === 1009 || code >= 4400 && code <= 4499);
}

// client/src/live/socket-line.ts
init_names();
init_problem();
var PROTOCOL = "headgate.v1.json";
var LIMITED_ATTEMPT = 4;
var PUBLISHED_MAX = 1e3;
var CONNECT_MS_MAX = 1e4;
var LINGER_MS = 1e3;
var SocketLine = class {
  constructor(rest, WebSocket, watcher) {
    this.rest = rest;
    this.WebSocket = WebSocket;
    this.watcher = watcher;
  }
  #isOpen = false;
  #socket;
  #subscribers = /* @__PURE__ */ new Map();
  #waiting = /* @__PURE__ */ new Map();
  #timers = {
    retry: void 0,
    renewal: void 0,
    silence: void 0,
    linger: void 0
  };
  #heartbeatMs = 2e4;
  #count = 0;
  #attempt = 0;
  #refusals = 0;
  // consecutive refusals of credentials
  #comeBackAfterMs;
  #token;
  #url = "";
  #problem;
  // why the gateway ends the connection
  #closeCode;
  #wasReached = false;
  #isConnecting = false;
  #isPaused = false;
  #isOver = false;
  add(sub, subscriber) {
    if (this.#isOver) return subscriber.ended(this.#error());
    clearTimeout(this.#timers.linger);
    this.#subscribers.set(sub, subscriber);
    if (this.#isOpen) this.#subscribe(sub);
    else this.#connect();
  }
  async remove(sub) {
    if (!this.#subscribers.delete(sub)) return;
    if (this.#subscribers.size === 0) this.#timers.linger = setTimeout(() => this.#rest("idle"), LINGER_MS);
    if (this.#isOpen) await this.#ask({ type: "unsubscribe", sub }).catch(() => {
    });
  }
  credit(sub, entries) {
    this.#send({ type: "credit", sub, entries });
  }
  async settle(frame) {
    const answer = await this.#ask(frame);
    return answer.type === "acked" || answer.type === "ok" ? answer.results : [];
  }
  ask(frame) {
    if (!this.#isOpen) return void 0;
    if (frame.type === "publish" && this.#waiting.size >= PUBLISHED_MAX) throw new Error(`${PUBLISHED_MAX} messages wait for their answers`);
    return this.#ask(frame);
  }
  pause() {
    if (this.#isPaused || this.#isOver) return;
    this.#isPaused = true;
    clearTimeout(this.#timers.retry);
    this.#drop(1e3);
    this.watcher.state("paused");
  }
  // An open connection may be dead: send a ping.
  resume() {
    this.#isPaused = false;
    if (this.#isOpen) this.#listen(0);
    else if (this.#subscribers.size > 0) this.#connect();
  }
  get isBusy() {
    return this.#waiting.size > 0;
  }
  /**
   * Hands the subscriptions over to another line. Returns false if frames have arrived after all, or the line has
   * ended.
   */
  retire() {
    if (this.#wasReached || this.#isOver) return false;
    this.#isOver = true;
    this.#subscribers.clear();
    this.#rest("connecting");
    return true;
  }
  close() {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closeCode = 1e3;
    this.#rest("closed");
    for (const sub of [...this.#subscribers.keys()]) this.#finish(sub);
  }
  #rest(state) {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.#drop(1e3);
    this.watcher.state(state);
  }
  #connect() {
    if (this.#socket || this.#isConnecting || this.#isPaused || this.#isOver) return;
    clearTimeout(this.#timers.retry);
    this.#isConnecting = true;
    this.watcher.state("connecting");
    this.rest.credentials.current().then(
      (token) => this.#open(token),
      (error) => this.#comeBack(UNAUTHENTICATED, error)
      // the token function may work again soon
    );
  }
  #open(token) {
    this.#isConnecting = false;
    if (this.#isOver || this.#isPaused) return;
    this.#token = token;
    this.#problem = void 0;
    this.#url = this.rest.addresses.current;
    const socket = new this.WebSocket(`${this.#url.replace(/^http/, "ws")}/v1/ws`, PROTOCOL);
    this.#socket = socket;
    socket.onopen = () => token !== void 0 && socket.send(JSON.stringify({ type: "auth", token }));
    socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(String(data)));
    socket.onclose = ({ code }) => void this.#lost(socket, code);
    socket.onerror = () => void this.#lost(socket, ABNORMAL);
    this.#timers.silence = setTimeout(() => void this.#lost(socket, ABNORMAL), CONNECT_MS_MAX);
  }
  /** Drops the connection, and informs all who wait for it. */
  #drop(code, reason) {
    const socket = this.#socket;
    this.#socket = void 0;
    clearTimeout(this.#timers.renewal);
    clearTimeout(this.#timers.silence);
    socket?.close(code === ABNORMAL ? void 0 : code);
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    const error = new Disconnected("the connection was lost before the answer came", code);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (wasOpen) this.#lose(reason);
  }
  #lose(reason) {
    for (const subscriber of this.#subscribers.values()) subscriber.lost(reason);
  }
  async #lost(socket, code) {
    if (socket !== this.#socket) return;
    if (this.#isOpen) this.#attempt = 0;
    const what = this.#isOpen ? `the connection to ${this.#url} was lost` : `the gateway cannot be reached at ${this.#url}`;
    const pauseMs = this.#isOpen ? void 0 : this.rest.addresses.failedMs(this.#attempt, this.#url);
    const reason = this.#problem ?? new Disconnected(what, code);
    this.#drop(ABNORMAL, comesBack(code) ? reason : void 0);
    if (code === UNAUTHENTICATED) return this.#refresh(reason);
    if (comesBack(code)) this.#comeBack(code, reason, pauseMs);
    else this.#end(code);
  }
  /** Reconnects with another token. Ends if there is none, or if three were refused. */
  async #refresh(reason) {
    this.#isConnecting = true;
    this.#refusals += 1;
    try {
      const fresh = this.#refusals < 3 ? await this.rest.credentials.refused(this.#token) : void 0;
      if (fresh === void 0) this.#end(UNAUTHENTICATED);
      else this.#comeBack(UNAUTHENTICATED, reason);
    } catch (error) {
      this.#comeBack(UNAUTHENTICATED, error);
    }
  }
  #comeBack(code, reason, pauseMs = backoffMs(this.#attempt)) {
    this.#isConnecting = false;
    if (this.#isOver || this.#isPaused) return;
    this.#lose(reason);
    this.watcher.state("lost", code);
    if (code === RATE_LIMITED) this.#attempt = Math.max(this.#attempt, LIMITED_ATTEMPT);
    const afterMs = this.#comeBackAfterMs ?? (code === RATE_LIMITED ? backoffMs(this.#attempt) : pauseMs);
    this.#attempt += 1;
    this.#comeBackAfterMs = void 0;
    this.#timers.retry = setTimeout(() => this.#connect(), afterMs);
    if (!this.#wasReached && code !== UNAUTHENTICATED) this.watcher.unreached(this.#attempt);
  }
  #end(code) {
    this.#isOver = true;
    this.#closeCode = code;
    for (const sub of [...this.#subscribers.keys()]) this.#finish(sub, this.#error());
    this.watcher.state("closed", code);
  }
  #error() {
    return this.#problem ?? new Disconnected("the connection has ended for good", this.#closeCode);
  }
  #opens() {
    this.#isOpen = true;
    this.#refusals = 0;
    for (const sub of this.#subscribers.keys()) this.#subscribe(sub);
    this.watcher.state("open");
  }
  #subscribe(sub) {
    const subscriber = this.#subscribers.get(sub);
    if (subscriber) this.#send({ type: "subscribe", rid: sub, sub, ...subscriber.wanted() });
  }
  #finish(sub, error) {
    const subscriber = this.#subscribers.get(sub);
    if (this.#subscribers.delete(sub)) subscriber.ended(error);
  }
  /** Treats the connection as lost if nothing arrives for this long, and then no pong. */
  #listen(silenceMs) {
    clearTimeout(this.#timers.silence);
    this.#timers.silence = setTimeout(() => {
      const socket = this.#socket;
      this.#send({ type: "ping" });
      this.#timers.silence = setTimeout(() => socket && void this.#lost(socket, ABNORMAL), this.#heartbeatMs / 2);
    }, silenceMs);
  }
  #authenticated({ expires_at_ms }) {
    if (!this.#isOpen) this.#opens();
    clearTimeout(this.#timers.renewal);
    if (expires_at_ms == null || expires_at_ms <= Date.now() || !this.rest.credentials.canRenew) return;
    this.#timers.renewal = setTimeout(() => void this.#renew(expires_at_ms), renewMs(expires_at_ms - Date.now()));
  }
  /** Sends a fresh token, so that the connection continues. If there is none, it ends with the old one. */
  async #renew(expiresAtMs) {
    const socket = this.#socket;
    const fresh = await this.rest.credentials.renewed(this.#token).catch(() => void 0);
    if (socket === void 0 || socket !== this.#socket) return;
    if (fresh === void 0) {
      this.#timers.renewal = setTimeout(() => void this.#renew(expiresAtMs), renewMs(expiresAtMs - Date.now()));
    } else {
      this.#token = fresh;
      this.#send({ type: "auth", token: fresh });
    }
  }
  #receive(frame) {
    this.#wasReached = true;
    this.#listen(this.#heartbeatMs / 2);
    const sub = "sub" in frame && frame.sub != null ? this.#subscribers.get(frame.sub) : void 0;
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
        return this.#token === void 0 ? this.#opens() : void 0;
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
        this.#answer(frame);
    }
  }
  #refused(frame) {
    const problem = new Problem(fromWire(frame.problem));
    if (problem.code === "not_leader" && this.rest.addresses.urls[1]) {
      this.#drop(1e3);
      return this.#comeBack(ABNORMAL, problem, this.rest.addresses.failedMs(this.#attempt, this.#url, problem));
    }
    const asked = frame.rid == null ? void 0 : this.#waiting.get(frame.rid);
    if (asked) {
      this.#waiting.delete(frame.rid);
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
  #subscribeLater(sub, afterMs) {
    const socket = this.#socket;
    const timer = setTimeout(() => socket === this.#socket && this.#subscribe(sub), afterMs);
    timer.unref?.();
  }
  #answer(frame) {
    if (frame.rid == null) return;
    this.#waiting.get(frame.rid)?.resolve(frame);
    this.#waiting.delete(frame.rid);
  }
  #ask(frame) {
    return new Promise((resolve, reject) => {
      if (!this.#isOpen) return reject(new Disconnected("there is no connection"));
      const rid = `r${this.#count += 1}`;
      this.#waiting.set(rid, { resolve, reject });
      this.#send({ ...frame, rid });
    });
  }
  #send(frame) {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(frame));
  }
};

// client/src/live/live.ts
var ATTEMPTS_MAX = 3;
var Live = class {
  constructor(rest, options) {
    this.rest = rest;
    this.options = options;
    const { transport, WebSocket = globalThis.WebSocket, hiddenMs = 3e4 } = options;
    if (WebSocket && !transport) {
      const unreached = (attempts) => attempts >= ATTEMPTS_MAX && void this.#fallBack();
      const watcher = { state: this.#onState, unreached };
      this.#line = new SocketLine(rest, WebSocket, watcher);
    } else void this.#useEvents();
    this.#forgetPage = watchPage(this, hiddenMs);
  }
  state = "idle";
  #line;
  // undefined until the code for events is loaded
  #isOver = false;
  #subscribers = /* @__PURE__ */ new Map();
  #forgetPage;
  get isBusy() {
    return !!this.#line?.isBusy || [...this.#subscribers.values()].some((subscriber) => subscriber.isBusy);
  }
  add(sub, subscriber) {
    this.#subscribers.set(sub, subscriber);
    this.#line?.add(sub, subscriber);
  }
  async remove(sub) {
    this.#subscribers.delete(sub);
    await this.#line?.remove(sub);
  }
  credit(sub, entries) {
    this.#line?.credit(sub, entries);
  }
  async settle(frame) {
    if (!this.#line) throw new Disconnected("there is no connection");
    return this.#line.settle(frame);
  }
  ask(frame) {
    return this.#line?.ask(frame);
  }
  pause() {
    this.#line?.pause();
  }
  resume() {
    this.#line?.resume();
  }
  close() {
    this.#isOver = true;
    this.#forgetPage();
    this.#line?.close();
  }
  #onState = (state, code) => {
    this.state = state;
    this.options.onState?.(state, code);
  };
  async #fallBack() {
    const line = this.#line;
    if (await this.rest.isReachable() && line instanceof SocketLine && line.retire()) await this.#useEvents();
  }
  async #useEvents() {
    this.#line = void 0;
    const { EventsLine: EventsLine2 } = await Promise.resolve().then(() => (init_events_line(), events_line_exports));
    if (this.#isOver) return;
    this.#line = new EventsLine2(this.rest, this.#onState);
    for (const [sub, subscriber] of this.#subscribers) this.#line.add(sub, subscriber);
  }
};

// client/src/client.ts
init_problem();
init_rest();

// client/src/schedule.ts
init_rest();
var Schedule = class {
  constructor(context, name2) {
    this.context = context;
    this.name = name2;
  }
  get #path() {
    return path`/v1/schedules/${this.name}`;
  }
  /** Creates the schedule or replaces it. */
  set({ fields, ...parts }) {
    return this.context.rest.ask("PUT", this.#path, { body: { ...parts, ...entryOf(fields) }, isRepeatable: true });
  }
  /** Changes parts of the schedule. */
  update({ fields, ...parts }) {
    const body = fields === void 0 ? parts : { ...parts, ...entryOf(fields) };
    return this.context.rest.ask("PATCH", this.#path, { body, isRepeatable: true });
  }
  /** Appends nothing until `resume`. */
  pause() {
    return this.update({ paused: true });
  }
  /** Ends the pause. Due times missed during the pause are skipped. */
  resume() {
    return this.update({ paused: false });
  }
  /** Returns the next due time, the last entry and the last problem. */
  info() {
    return this.context.rest.ask("GET", this.#path);
  }
  /** Appends the entry now. Returns its id. Due times do not change. */
  async run() {
    return (await this.context.rest.ask("POST", `${this.#path}/run`)).id;
  }
  /** Deletes the schedule. Its stream remains. */
  delete() {
    return this.context.rest.ask("DELETE", this.#path, { isRepeatable: true });
  }
};

// client/src/stream.ts
init_problem();
init_rest();
var Stream = class {
  constructor(context, name2) {
    this.context = context;
    this.name = name2;
  }
  get #path() {
    return path`/v1/streams/${this.name}`;
  }
  /** Returns a group of this stream. `create` creates it. */
  group(name2) {
    return new Group(this.context, this.name, name2);
  }
  /** Returns the table of this stream, which must have a `keyField`. */
  table() {
    return new Table(this.context, this.name);
  }
  /**
   * Appends an entry. Returns its id. The request is repeated until it succeeds or `retryMs` has passed; the entry is
   * appended at most once.
   */
  async append(fields, options = {}) {
    return (await this.#post("entries", entryOf(fields, options), options)).id;
  }
  /** Appends all entries or none. Returns their ids. */
  async appendMany(entries, options = {}) {
    return (await this.#post("entries/batch", entries.map((fields) => entryOf(fields, options)), options)).ids;
  }
  /**
   * Closes the stream permanently, optionally with a last entry, in one step. Followers receive the remaining entries
   * and then end. Consumers end when the group has settled everything. Closing a closed stream without an entry changes
   * nothing.
   */
  close(fields, options = {}) {
    return this.#post("close", fields && entryOf(fields, options), options);
  }
  #post(place, body, { idempotencyKey, lastId, signal }) {
    const headers = {
      ...once(this.context, idempotencyKey),
      ...lastId && { "if-match": `"${lastId}"` }
    };
    return this.context.rest.ask("POST", `${this.#path}/${place}`, { body, headers, signal, isRepeatable: true });
  }
  /** Reads a range, or the entries after an id. */
  read({ signal, onRetry, waitMs, filter, columns, ...range } = {}) {
    const query = { ...range, wait_ms: waitMs, filter: jsonOf(filter), columns: jsonOf(columns) };
    return this.context.rest.ask("GET", `${this.#path}/entries`, { query, signal, onRetry });
  }
  /** Follows the stream across reconnections. Ends with the loop, its signal, or a closed stream. */
  follow(options) {
    return followed(this.context, { stream: this.name }, options);
  }
  /** Follows the stream with callbacks. */
  subscribe({ onEntries, onError, ...options }) {
    let before = Promise.resolve();
    const fail = onError ?? ((error) => this.context.report(error, `stream ${this.name}`));
    const take = (entries) => {
      before = before.then(() => onEntries(entries)).then(
        () => follower.taken(entries.length),
        (error) => (follower.close(), fail(error))
      );
    };
    const end = (error) => void before.then(() => error && fail(error));
    const follower = new Follower(this.context, { stream: this.name }, options, take, end);
    options.signal?.addEventListener("abort", () => follower.close(), { once: true });
    return follower;
  }
  /** Returns the state of the stream. */
  info() {
    return this.context.rest.ask("GET", this.#path);
  }
  /** Creates the stream. The first append also creates it. */
  create(config = {}) {
    return this.context.rest.ask("PUT", this.#path, { body: config, isRepeatable: true });
  }
  /** Changes settings. Null resets a setting to its default. */
  update(config) {
    return this.context.rest.ask("PATCH", this.#path, { body: config, isRepeatable: true });
  }
  /** Returns the schema that new entries must match; undefined if there is none. */
  async schema() {
    try {
      return (await this.context.rest.ask("GET", `${this.#path}/schema`)).schema;
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found") return void 0;
      throw error;
    }
  }
  /** Sets the schema that new entries must match: JSON Schema 2020-12 for the object of fields. */
  async setSchema(schema, options = {}) {
    await this.context.rest.ask("PUT", `${this.#path}/schema`, {
      body: { schema },
      query: { force: options.force },
      isRepeatable: true
    });
  }
  /** Deletes the schema. The stream then accepts any entries. */
  deleteSchema() {
    return this.context.rest.ask("DELETE", `${this.#path}/schema`);
  }
  /** Removes the oldest entries. Returns their number. */
  async trim(trim) {
    return (await this.context.rest.ask("POST", `${this.#path}/trim`, { body: trim })).removed;
  }
  /** Deletes archived entries permanently: those before an id, or all. Returns their number. */
  async trimArchive(before) {
    return (await this.context.rest.ask("DELETE", `${this.#path}/archive`, { query: { before } })).removed;
  }
  /** Deletes entries. Returns the outcome of each. */
  deleteEntries(ids, references) {
    return this.context.rest.ask("POST", `${this.#path}/entries/delete`, { body: { ids, references } });
  }
  /** Deletes the stream and its groups. */
  delete() {
    return this.context.rest.ask("DELETE", this.#path);
  }
  /** Returns the groups. */
  async groups() {
    const groups = [];
    for await (const group of this.context.rest.items(`${this.#path}/groups`, "groups")) groups.push(group);
    return groups;
  }
};

// client/src/client.ts
function createClient(options) {
  return new Client(options);
}
var Client = class {
  #rest;
  #line;
  #context;
  constructor(options) {
    const { url, token, retryMs = 3e4 } = options;
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
    const nextSub = () => `s${subs += 1}`;
    let told;
    const report = (error, where) => {
      if (error !== told || !(error instanceof Problem)) onError(error, where);
      told = error;
    };
    this.#context = { rest: this.#rest, line: this.#line, producer: randomName(), nextSub, report };
  }
  /** URL that requests currently go to. */
  get url() {
    return this.#rest.addresses.current;
  }
  /** State of the connection. */
  get state() {
    return this.#line.state;
  }
  stream(name2) {
    return new Stream(this.#context, name2);
  }
  group(stream, name2) {
    return new Group(this.#context, stream, name2);
  }
  /** Returns the group of this name in all streams that match a pattern. */
  groups(name2, options) {
    return new Groups(this.#context, name2, options);
  }
  /** Returns a channel. You do not need to create it. This sends nothing. */
  channel(name2) {
    return new Channel(this.#context, name2);
  }
  schedule(name2) {
    return new Schedule(this.#context, name2);
  }
  /**
   * Executes all steps at once or none. Returns the ids of the entries that each step appended. The request is repeated
   * until it succeeds or `retryMs` has passed; the commit is executed at most once. `job.commit` also acknowledges a
   * job.
   * @throws NotYours if an entry is not pending with the consumer
   */
  commit(steps, options = {}) {
    return commit(this.#context, steps, options);
  }
  /**
   * Follows all streams whose names match a Redis pattern. Each entry has its stream. After a reconnection, entries can
   * repeat.
   */
  follow(match, options) {
    return followed(this.#context, { match }, options);
  }
  /** Yields the schedules in the order of their names, page by page. */
  schedules() {
    return this.#rest.items("/v1/schedules", "schedules");
  }
  /** Yields the pushes of groups, page by page. */
  pushes() {
    return this.#rest.items("/v1/pushes", "pushes");
  }
  /**
   * Yields the streams in the order of their names, page by page. `internal` includes those of the gateway and requires
   * `admin`.
   */
  streams({ prefix, internal } = {}) {
    return this.#rest.items("/v1/streams", "streams", { prefix, internal });
  }
  /**
   * Creates a ticket, for one stream and a few minutes. Your server gives it to a page as its `token`, or in the URL of
   * your own `EventSource` (`?ticket=`), which cannot send headers. Never put any other token in a URL.
   */
  ticket(wanted) {
    return this.#rest.ask("POST", "/v1/tickets", { body: wanted, isRepeatable: true });
  }
  /** Ends all subscriptions. Entries that they hold go back. */
  close() {
    this.#line.close();
  }
};
function isPlain(url) {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !/^(127\.[\d.]+|\[::1]|(.+\.)?localhost)$/.test(hostname);
}

// client/src/index.ts
init_problem();

// client/src/tab.ts
var STORED = "headgate.tab";
var name;
function tabKey() {
  if (name !== void 0) return name;
  const made = randomName();
  try {
    const own = name = sessionStorage.getItem(STORED) ?? made;
    const forget = () => sessionStorage.removeItem(STORED);
    forget();
    addEventListener("pagehide", () => sessionStorage.setItem(STORED, own));
    addEventListener("pageshow", forget);
  } catch {
    name = made;
  }
  return name;
}
export {
  Channel,
  Client,
  Disconnected,
  Group,
  Groups,
  Job,
  NotYours,
  Paused,
  Problem,
  Push,
  RowChanged,
  Schedule,
  Stream,
  Table,
  ack,
  append,
  bytesOf,
  cancel,
  createClient,
  deleteRow,
  extend,
  isProblem,
  nack,
  putRow,
  schedule,
  tabKey
};
