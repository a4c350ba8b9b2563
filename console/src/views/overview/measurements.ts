/** Measurements of the gateway: the ring that it keeps, and then what it sends each second. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { call, send } from "../../gateway/calls.js";
import { eventsOf } from "../../gateway/events.js";
import { Problem } from "../../gateway/problem.js";
import type { History } from "../../gateway/shapes.js";

export type Step = "second" | "minute";

const KEPT = { second: 900, minute: 1440 } as const;
const AGAIN_MS = 2000;
const MINUTE_MS = 60_000;

interface Sample {
  time_ms: number;
  values: Record<string, number | null>;
}

export interface Measurements {
  readonly history: ReadonlySignal<History | undefined>;
  readonly problem: ReadonlySignal<Problem | undefined>;
}

/** Follow the measurements until the signal ends it. It comes back by itself, and fetches what it has missed. */
export function followMeasurements(step: Step, ending: AbortSignal): Measurements {
  const history = signal<History>();
  const problem = signal<Problem>();
  void follow();
  return { history, problem };

  async function follow(): Promise<void> {
    while (!ending.aborted) {
      try {
        await catchUp();
        problem.value = undefined;
        if (step === "second") await live();
        else await waited(MINUTE_MS / 2);
      } catch (error) {
        if (ending.aborted) return;
        if (!(error instanceof Problem)) throw error;
        problem.value = error;
      }
      await waited(AGAIN_MS);
    }
  }

  async function catchUp(): Promise<void> {
    const after_ms = history.value?.times_ms.at(-1);
    const query = { step, ...(after_ms === undefined ? {} : { after_ms }) };
    const next = await send(call("get", "/v1/admin/history", { params: { query } }), ending);
    history.value = history.value ? joined(history.value, next, KEPT[step]) : next;
  }

  async function live(): Promise<void> {
    for await (const { kind, data } of eventsOf("/v1/admin/history/events", ending)) {
      if (kind !== "sample" || !history.value) continue;
      const { time_ms, values } = data as Sample;
      const columns = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, [value]]));
      history.value = joined(history.value, { step_ms: 1000, times_ms: [time_ms], series: columns }, KEPT[step]);
    }
  }

  function waited(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      ending.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}

/** Return measurements with newer ones behind them, the newest so many. */
export function joined(old: History, next: History, kept: number): History {
  const last = old.times_ms.at(-1) ?? -Infinity;
  const from = next.times_ms.findIndex((ms) => ms > last);
  if (from < 0) return old;
  const times = [...old.times_ms, ...next.times_ms.slice(from)];
  const names = new Set([...Object.keys(old.series), ...Object.keys(next.series)]);
  const unknown = (count: number) => new Array<null>(count).fill(null);
  const series = [...names].map((name): [string, (number | null)[]] => [
    name,
    [
      ...(old.series[name] ?? unknown(old.times_ms.length)),
      ...(next.series[name] ?? unknown(next.times_ms.length)).slice(from),
    ].slice(-kept),
  ]);
  return { ...old, times_ms: times.slice(-kept), series: Object.fromEntries(series) };
}
