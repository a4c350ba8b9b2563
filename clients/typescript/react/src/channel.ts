/** useChannel and usePresence: the messages of a channel and its present members, over one subscription. */
import {
  type Client, type Connection, type Listening, type Message, type PresenceData, type PresenceOptions, type PresentMember, tabKey,
} from "@headgate/client";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useClient } from "./provider.js";
import { FRAME_MS } from "./stream.js";

export interface UseChannelOptions {
  /** Called with each message at once. */
  onMessage?: (message: Message) => void;
  /**
   * Number of newest messages to keep. Default: 100. With 0, none is kept, and messages do not render the component.
   */
  last?: number;
}

interface RoomValue {
  /** `lost`: the client reconnects; `refused`: it does not. */
  connection: Connection;
  /** Why the connection is lost or refused; null while it is live. */
  error: Error | null;
}

export interface ChannelValue extends RoomValue {
  /** Oldest first. */
  messages: Message[];
  /** Publishes a message, any JSON. Returns the number of subscribers. See `Channel.publish`. */
  publish: (data: unknown) => Promise<number>;
}

export interface UsePresenceOptions {
  /** Name of this connection. Default: the name of the tab, which stays the same after a reload. */
  key?: string;
}

export interface PresenceValue extends RoomValue {
  members: PresentMember[];
  /** The member that this page belongs to, once known. */
  me: PresentMember | undefined;
}

interface Shown extends RoomValue {
  members: PresentMember[];
}

const EMPTY: Shown = { connection: "connecting", error: null, members: [] };

/** Receives the messages of a channel, and shows the last of them. */
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
 * Makes the page present at a channel, and shows who is present. Without data, the page only watches. Other members see
 * changes of the data. A page is present once, even if several of its components call this: the newest sets the data.
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

/** Rooms by channel, for each client: components that name the same channel share one. */
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

/** A channel that is subscribed once for all components that show it. */
class Room {
  #value = EMPTY;
  #listening: Listening | undefined;
  #turn = 0; // number of the current subscription
  #presence: PresenceOptions | undefined; // of the current subscription
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

  /** Signals that a wish has changed. */
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

  // Runs after all components have rendered, so that others do not see a component leave that is remounted.
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
