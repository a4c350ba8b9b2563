/** useTable: the current rows of a table. */
import type { Client, Connection, LiveState, Row } from "@headgate/client";
import { useMemo, useSyncExternalStore } from "react";
import { useClient } from "./provider.js";
import { abortion, BEGUN, comesBack, connected, type ConnectionValue, FRAME_MS, MISSING_MS } from "./stream.js";

export interface UseTableOptions {
  /** Only rows whose keys start with this prefix. */
  prefix?: string;
}

/** `state` is `caught_up` when all rows have arrived. */
export interface TableValue extends ConnectionValue {
  /** Rows in the order of their keys. */
  rows: Row[];
}

const EMPTY: TableValue = { ...BEGUN, rows: [] };

/** Views by stream and prefix, for each client: components that name the same ones share one. */
const views = new WeakMap<Client, Map<string, View>>();

/** Shows the rows of a stream with a `keyField`. Waits for a stream that does not exist yet. */
export function useTable(stream: string, { prefix = "" }: UseTableOptions = {}): TableValue {
  const client = useClient();
  const view = useMemo(() => viewOf(client, stream, prefix), [client, stream, prefix]);
  return useSyncExternalStore(view.subscribe, view.value, () => EMPTY);
}

function viewOf(client: Client, stream: string, prefix: string): View {
  const key = JSON.stringify([stream, prefix]);
  const ofClient = views.get(client) ?? new Map<string, View>();
  views.set(client, ofClient);
  const view = ofClient.get(key) ?? new View(client, stream, prefix, () => ofClient.delete(key));
  ofClient.set(key, view);
  return view;
}

/** A table that is followed while a component shows it. */
class View {
  #value = EMPTY;
  #abort: (() => void) | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(
    private readonly client: Client,
    private readonly stream: string,
    private readonly prefix: string,
    private readonly forget: () => void,
  ) {}

  readonly value = (): TableValue => this.#value;

  readonly subscribe = (listener: () => void): (() => void) => {
    const heard = () => listener(); // two components may pass the same listener
    this.#listeners.add(heard);
    if (!this.#abort) this.#begin();
    return () => {
      this.#listeners.delete(heard);
      if (!this.#listeners.size) this.#end();
    };
  };

  #begin(): void {
    const { signal, abort } = abortion();
    this.#abort = abort;
    void this.#follow(signal);
  }

  #end(): void {
    this.#abort?.();
    this.#abort = undefined;
    this.#value = EMPTY;
    this.forget();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { client, stream, prefix } = this;
    const rows = new Map<string, Row>();
    let value: ConnectionValue = { ...this.#value };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      clearTimeout(timer);
      timer = undefined;
      this.#show(signal, { ...value, rows: [...rows.values()].sort((a, b) => (a.key < b.key ? -1 : 1)) });
    };
    const changed = (change: Partial<ConnectionValue> = {}) => {
      value = { ...value, ...change };
      timer ??= setTimeout(show, FRAME_MS);
    };
    const onState = (state: LiveState) => value.connection === "live" && changed({ state });
    const onConnection = (connection: Connection, error: Error | null) =>
      connection === "refused" || changed(connected(connection, error)); // the loop also throws
    const options = { prefix, signal, onState, onConnection };
    try {
      for await (const { fields, ...row } of client.stream(stream).table().changes(options)) {
        if (fields) rows.set(row.key, { ...row, fields });
        else rows.delete(row.key);
        changed();
      }
    } catch (error) {
      if (comesBack(error)) setTimeout(() => signal.aborted || this.#follow(signal), MISSING_MS);
      if (comesBack(error)) value = { ...BEGUN, error: error as Error };
      else value = { state: "ended", connection: "refused", error: error as Error };
      show();
    }
  }

  #show(signal: AbortSignal, value: TableValue): void {
    if (signal.aborted) return;
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }
}
