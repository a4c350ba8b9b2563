/** useChannel and usePresence: the messages of a channel, and who is there, over one subscription. */
import {
  type Client, type Connection, type Listening, type Message, type PresenceData, type PresenceOptions, type PresentMember, tabKey,
} from "@headgate/client";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useClient } from "./provider.js";
import { FRAME_MS } from "./stream.js";

export interface UseChannelOptions {
  /** Told each message at once. */
  onMessage?: (message: Message) => void;
  /** Number of messages kept, the newest ones; 100 unless given. With 0, none is kept, and none renders the component. */
  last?: number;
}

interface RoomValue {
  /** `lost`: the client tries to connect again; `refused`: it does not. */
  connection: Connection;
  /** Why it is lost or refused; null while it is live. */
  error: Error | null;
}

export interface ChannelValue extends RoomValue {
  /** Oldest first. */
  messages: Message[];
  /** Publish a message, any JSON; returns how many are subscribed. See `Channel.publish`. */
  publish: (data: unknown) => Promise<number>;
}

export interface UsePresenceOptions {
  /** A name for this connection; that of the tab, which a reload keeps, unless given. */
  key?: string;
}

export interface PresenceValue extends RoomValue {
  members: PresentMember[];
  /** The member that this page belongs to, once it is there. */
  me: PresentMember | undefined;
}

interface Shown extends RoomValue {
  members: PresentMember[];
}

const EMPTY: Shown = { connection: "connecting", error: null, members: [] };

/** Hear the messages of a channel, and show the last of them. */
export function useChannel(name: string, { onMessage, last = 100 }: UseChannelOptions = {}): ChannelValue {
  const room = useRoom(name);
  const { connection, error } = useShown(room);
  const [messages, setMessages] = useState<Message[]>([]);
  const newest = useRef(onMessage);
  useEffect(() => {
    newest.current = onMessage;
  });
  useEffect(() => {
    let arrived: Message[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      const more = arrived;
      arrived = [];
      timer = undefined;
      setMessages((messages) => [...messages, ...more].slice(-last));
    };
    const leave = room.hear((message) => {
      newest.current?.(message);
      if (last <= 0) return;
      if (arrived.push(message) > last) arrived.shift();
      timer ??= setTimeout(show, FRAME_MS);
    });
    return () => {
      clearTimeout(timer);
      leave();
      setMessages([]);
    };
  }, [room, last]);
  return { messages, publish: room.publish, connection, error };
}

/**
 * Be present at a channel, and show who is there. Without data, only look. A change of the data is told to the others; a page
 * is present once, however many of its components say so: the one that came last says what others are told.
 */
export function usePresence(name: string, data?: PresenceData, { key }: UsePresenceOptions = {}): PresenceValue {
  const room = useRoom(name);
  const { members, connection, error } = useShown(room);
  const text = JSON.stringify(data);
  const wish = useRef<PresenceOptions>({});
  useEffect(() => {
    wish.current = { data, key: key ?? tabKey(), hidden: data === undefined };
    room.changed(wish);
  }, [room, text, key]);
  useEffect(() => room.enter(wish), [room]);
  const own = room.key;
  const me = members.find(({ connections }) => connections.some(({ key }) => key === own));
  return { members, me, connection, error };
}

/** Rooms by channel, of each client: components that name the same have one. */
const rooms = new WeakMap<Client, Map<string, Room>>();

function useRoom(name: string): Room {
  const client = useClient();
  return useMemo(() => {
    const ofClient = rooms.get(client) ?? new Map<string, Room>();
    rooms.set(client, ofClient);
    const room = ofClient.get(name) ?? new Room(client, name, ofClient);
    ofClient.set(name, room);
    return room;
  }, [client, name]);
}

function useShown(room: Room): Shown {
  return useSyncExternalStore(room.show, room.value, () => EMPTY);
}

type Wish = { current: PresenceOptions };

/** A channel that is subscribed while components show it, and once for all of them. */
class Room {
  #value = EMPTY;
  #listening: Listening | undefined;
  #turn = 0; // of subscriptions, one after the other
  #presence: PresenceOptions | undefined; // what it is subscribed with
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #shows = new Set<() => void>();
  readonly #hearers = new Set<(message: Message) => void>();
  readonly #wishes = new Set<Wish>();

  constructor(
    private readonly client: Client,
    private readonly name: string,
    private readonly ofClient: Map<string, Room>,
  ) {}

  get key(): string | undefined {
    return this.#listening?.key;
  }

  readonly value = (): Shown => this.#value;

  readonly publish = (data: unknown): Promise<number> => this.client.channel(this.name).publish(data);

  readonly show = (listener: () => void): (() => void) => this.#with(this.#shows, () => listener());

  hear(hearer: (message: Message) => void): () => void {
    return this.#with(this.#hearers, hearer);
  }

  enter(wish: Wish): () => void {
    return this.#with(this.#wishes, wish);
  }

  /** Say that a wish is another one now. */
  changed(wish: Wish): void {
    if (this.#wishes.has(wish)) this.#later();
  }

  #with<T>(members: Set<T>, member: T): () => void {
    members.add(member);
    this.#later();
    return () => {
      members.delete(member);
      this.#later();
    };
  }

  // All components of a page say what they want first. One that is unmounted and mounted again is not seen to leave.
  #later(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#settle();
    });
  }

  #settle(): void {
    if (!this.#shows.size) return this.#end();
    const wishes = [...this.#wishes].map(({ current }) => current);
    const wanted = wishes.filter(({ hidden }) => !hidden).at(-1) ?? wishes.at(-1);
    const { data = {} } = wanted ?? {};
    const isSame = !!this.#presence === !!wanted && this.#presence?.key === wanted?.key && this.#presence?.hidden === wanted?.hidden;
    if (!this.#listening || !isSame) this.#begin(wanted);
    else if (!wanted?.hidden && JSON.stringify(data) !== JSON.stringify(this.#presence?.data)) this.#listening.update(data);
    this.#presence = wanted;
  }

  #begin(presence: PresenceOptions | undefined): void {
    this.#listening?.close();
    this.ofClient.set(this.name, this);
    const turn = (this.#turn += 1);
    const change = (change: Partial<Shown>) => turn === this.#turn && this.#change(change);
    this.#listening = this.client.channel(this.name).subscribe({
      presence,
      onMessage: (message) => this.#hearers.forEach((hear) => hear(message)),
      onMembers: (members) => change({ members }),
      onConnection: (connection, error) => change({ connection, error }),
      onError: (error) => change({ connection: "refused", error: error as Error }),
    });
  }

  #end(): void {
    this.#listening?.close();
    this.#listening = undefined;
    this.#turn += 1;
    this.#presence = undefined;
    this.#value = EMPTY;
    this.ofClient.delete(this.name);
  }

  #change(change: Partial<Shown>): void {
    this.#value = { ...this.#value, ...change };
    for (const listener of this.#shows) listener();
  }
}
