/** Group history: how a group did lately, as the gateway observes it; or since this page was opened. */
import { call, send } from "../../gateway/calls.js";
import type { Group, History } from "../../gateway/shapes.js";
import { joined } from "../overview/measurements.js";

const KEPT = 900;

export class GroupHistory {
  #observed: History | undefined;
  #own: History = { step_ms: 1000, times_ms: [], series: { lag: [], pending: [] } };

  constructor(
    private readonly stream: string,
    private readonly group: string,
  ) {}

  /** Ask how the group is, and for what was measured since the last time. */
  async ask(signal: AbortSignal): Promise<{ group: Group; history: History }> {
    const { stream, group: name } = this;
    const path = { stream, group: name };
    const after_ms = this.#observed?.times_ms.at(-1);
    const query = after_ms === undefined ? {} : { after_ms };
    const [group, history] = await Promise.all([
      send(call("get", "/v1/streams/{stream}/groups/{group}", { params: { path } }), signal),
      send(call("get", "/v1/streams/{stream}/groups/{group}/history", { params: { path, query } }), signal).catch(() => undefined),
    ]);
    return { group, history: this.#with(group, history) };
  }

  #with(group: Group, history: History | undefined): History {
    if (history?.observed !== false && history?.times_ms.length) {
      this.#observed = this.#observed ? joined(this.#observed, history, KEPT) : history;
    }
    const sample = { step_ms: 1000, times_ms: [Date.now()], series: { lag: [group.lag ?? null], pending: [group.pending] } };
    this.#own = joined(this.#own, sample, KEPT);
    return this.#observed ?? this.#own;
  }
}
