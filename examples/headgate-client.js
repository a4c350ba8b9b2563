/** A request was refused (`problem`), or there is no connection, or it was lost before the answer came. */
export class Refused extends Error {
    problem;
    constructor(problem) {
        super(problem?.detail ?? "there is no connection, or it was lost before the answer came");
        this.problem = problem;
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
export function comesBack(code) {
    if (code === UNAUTHENTICATED)
        return true;
    return !(code === 1000 || code === 1009 || (code >= 4400 && code <= 4499));
}
/** Return how long to wait before a token with so much time left is renewed. */
export function renewMs(leftMs) {
    const waitMs = Math.max(leftMs - RENEW_AHEAD_MS, leftMs / 2);
    return Math.min(RENEW_MS_MAX, Math.max(RENEW_MS_MIN, waitMs));
}
/**
 * Return a ticket: it stands in the URL of events (`?ticket=`), where a browser can send no header.
 * It is good for every reconnection until it ends. The token itself never stands in a URL.
 */
export async function createTicket(gateway, token, wanted) {
    const answer = await fetch(`${urlOf(gateway)}/v1/tickets`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${await freshToken(token)}` },
        body: JSON.stringify(wanted),
    });
    const said = await answer.json();
    if (!answer.ok)
        throw new Refused(said);
    return said.ticket;
}
async function freshToken(token) {
    return typeof token === "string" ? token : token();
}
function urlOf(gateway) {
    return (gateway.includes("://") ? gateway : `http://${gateway}`).replace(/\/$/, "");
}
/** Return how long to wait before the next attempt, the first being 0; chance is from 0 to 1. */
export function backoffMs(attempt, chance) {
    return Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** attempt) * (0.5 + chance);
}
class Subscription {
    wanted;
    handlers;
    /** The cursor of a stream: the connection before has sent everything up to it. */
    after;
    constructor(wanted, handlers) {
        this.wanted = wanted;
        this.handlers = handlers;
        this.after = wanted.after;
    }
    frame(sub) {
        const { after: _, ...wanted } = this.wanted;
        const frame = { type: "subscribe", rid: sub, sub, credit: CREDIT, ...wanted };
        // A group knows by itself where it is, and what is settled gives its credit back.
        if (wanted.group != null)
            return { ...frame, auto_credit: wanted.ack !== "none" };
        return this.after === undefined ? frame : { ...frame, after: this.after };
    }
    /** Whether credit is given back by whoever has worked off the entries. */
    get isCreditOurs() {
        return this.wanted.group == null || this.wanted.ack === "none";
    }
}
/** One connection, made anew whenever it is lost, and everything subscribed over it. */
export class HeadgateClient {
    url;
    options;
    socket;
    subscriptions = new Map();
    waiting = new Map();
    openings = [];
    count = 0;
    attempt = 0;
    comeBackAfterMs;
    timer;
    renewal;
    token;
    refusedToken;
    isOpen = false;
    isOver = false;
    /**
     * Connect to a gateway.
     * @param url where it is: `http://localhost:8080`, or without the scheme
     * @param options who is there, and who is told how the connection is
     */
    constructor(url, options = {}) {
        this.url = url;
        this.options = options;
        void this.connect();
    }
    /** Begin to read, now and after every reconnection; `sub` is your name for it. */
    subscribe(sub, wanted, handlers) {
        const subscription = new Subscription(wanted, handlers);
        this.subscriptions.set(sub, subscription);
        if (this.isOpen)
            this.send(subscription.frame(sub));
    }
    /** End a subscription; what it holds goes back. */
    unsubscribe(sub) {
        if (this.subscriptions.delete(sub))
            this.send({ type: "unsubscribe", sub });
    }
    /** Acknowledge entries of a group; returns what became of each. */
    async ack(sub, ids) {
        return settled(await this.ask({ type: "ack", sub, ids }));
    }
    /** Give entries back, tried in vain unless `mode` says otherwise. */
    async nack(sub, ids, mode = "fail") {
        return settled(await this.ask({ type: "nack", sub, ids, mode }));
    }
    /** Say that entries are still being worked on. */
    async extend(sub, ids) {
        return settled(await this.ask({ type: "extend", sub, ids }));
    }
    /** Append entries, all or none, once there is a connection; returns their ids, once they are safe. */
    async append(stream, entries) {
        await this.opened();
        const answer = await this.ask({ type: "append", stream, entries });
        return answer.type === "appended" ? answer.ids : [];
    }
    /** Say goodbye. */
    close() {
        this.isOver = true;
        clearTimeout(this.timer);
        clearTimeout(this.renewal);
        if (this.socket)
            this.socket.close(1000);
        else
            this.end(1000);
    }
    async connect() {
        try {
            this.token = this.options.token === undefined ? undefined : await freshToken(this.options.token);
        }
        catch {
            this.comeBack(UNAUTHENTICATED); // whoever makes tokens may be back soon
            return;
        }
        if (this.isOver)
            return;
        if (this.token !== undefined && this.token === this.refusedToken) {
            this.end(UNAUTHENTICATED); // there is no other
            return;
        }
        const socket = new WebSocket(`${urlOf(this.url).replace(/^http/, "ws")}/v1/ws`, PROTOCOL);
        this.socket = socket;
        // Never in the URL, which proxies and browsers write down.
        socket.onopen = () => this.token !== undefined && socket.send(authFrame(this.token));
        socket.onmessage = ({ data }) => this.receive(JSON.parse(String(data)));
        socket.onclose = ({ code }) => this.lost(socket, code);
        socket.onerror = () => this.lost(socket, 1006); // not every implementation closes, too
    }
    lost(socket, code) {
        if (socket !== this.socket)
            return;
        this.socket = undefined;
        this.isOpen = false;
        clearTimeout(this.renewal);
        for (const { reject } of this.waiting.values())
            reject(new Refused(undefined));
        this.waiting.clear();
        if (code === UNAUTHENTICATED)
            this.refusedToken = this.token;
        const isFixed = typeof this.options.token !== "function"; // the next connection would be refused, too
        if (this.isOver || !comesBack(code) || (code === UNAUTHENTICATED && isFixed))
            this.end(code);
        else
            this.comeBack(code);
    }
    comeBack(code) {
        if (this.isOver)
            return;
        this.options.onState?.("lost", code);
        if (code === RATE_LIMITED)
            this.attempt = Math.max(this.attempt, LIMITED_ATTEMPT);
        const afterMs = this.comeBackAfterMs ?? backoffMs(this.attempt, Math.random());
        this.attempt += 1;
        this.comeBackAfterMs = undefined;
        this.timer = setTimeout(() => void this.connect(), afterMs);
    }
    end(code) {
        this.isOver = true;
        for (const { reject } of this.openings.splice(0))
            reject(new Refused(undefined));
        this.options.onState?.("closed", code);
    }
    opens() {
        this.isOpen = true;
        this.attempt = 0;
        for (const [sub, subscription] of this.subscriptions)
            this.send(subscription.frame(sub));
        for (const { resolve } of this.openings.splice(0))
            resolve();
        this.options.onState?.("open");
    }
    authenticated({ expires_at_ms }) {
        this.refusedToken = undefined;
        if (!this.isOpen)
            this.opens();
        if (expires_at_ms != null)
            this.renewBefore(expires_at_ms);
    }
    renewBefore(expiresAtMs) {
        const { token } = this.options;
        if (typeof token !== "function")
            return;
        clearTimeout(this.renewal);
        this.renewal = setTimeout(() => void this.renew(token, expiresAtMs), renewMs(expiresAtMs - Date.now()));
    }
    /** Send a fresh token, so that the connection goes on. If there is none, it ends with the old one. */
    async renew(token, expiresAtMs) {
        const { socket } = this;
        const fresh = await freshToken(token).catch(() => this.token);
        if (socket === undefined || socket !== this.socket)
            return;
        if (fresh === undefined || fresh === this.token)
            this.renewBefore(expiresAtMs);
        else
            socket.send(authFrame((this.token = fresh)));
    }
    receive(frame) {
        switch (frame.type) {
            case "welcome":
                if (this.token === undefined)
                    this.opens();
                return;
            case "authenticated":
                this.authenticated(frame);
                return;
            case "draining":
                this.comeBackAfterMs = frame.reconnect_after_ms;
                return;
            case "subscribed": {
                const subscription = this.subscriptions.get(frame.sub);
                if (subscription)
                    subscription.after = frame.position;
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
                if (frame.reason === "requested" || !subscription)
                    return;
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
    async work(frame) {
        const subscription = this.subscriptions.get(frame.sub);
        if (!subscription)
            return;
        const { entries } = frame;
        const last = entries.at(-1);
        if (last)
            subscription.after = last.id;
        const socket = this.socket;
        await subscription.handlers.entries(entries, frame);
        // A new connection has new credit.
        if (subscription.isCreditOurs && entries.length > 0 && socket === this.socket) {
            this.send({ type: "credit", sub: frame.sub, entries: entries.length });
        }
    }
    refuse({ rid, sub, problem }) {
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
    answer(frame) {
        if (frame.rid == null)
            return;
        this.waiting.get(frame.rid)?.resolve(frame);
        this.waiting.delete(frame.rid);
    }
    /** Return once there is a connection; refused if there will be none. */
    opened() {
        return new Promise((resolve, reject) => {
            if (this.isOpen)
                resolve();
            else if (this.isOver)
                reject(new Refused(undefined));
            else
                this.openings.push({ resolve, reject });
        });
    }
    ask(frame) {
        return new Promise((resolve, reject) => {
            if (!this.isOpen)
                return reject(new Refused(undefined));
            const rid = `r${(this.count += 1)}`;
            this.waiting.set(rid, { resolve, reject });
            this.send({ ...frame, rid });
        });
    }
    send(frame) {
        if (this.isOpen)
            this.socket?.send(JSON.stringify(frame));
    }
}
function authFrame(token) {
    return JSON.stringify({ type: "auth", token });
}
function settled(answer) {
    return answer.type === "acked" || answer.type === "ok" ? answer.results : [];
}
