/** Overview: who needs attention, what the gateway does now and did lately, and its streams. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asked } from "../../gateway/key.js";
import { isSeen } from "../../gateway/polling.js";
import { useAddressed } from "../../parts/addressed.js";
import { Refusal } from "../../parts/refusal.js";
import { Switch } from "../../parts/switch.js";
import { Attention } from "./attention.js";
import { Bucket } from "./bucket.js";
import { Charts } from "./charts.js";
import { followMeasurements, type Measurements, type Step } from "./measurements.js";
import type { StreamPages } from "./stream-pages.js";
import { Streams } from "./streams.js";

export function Overview() {
  const step = useAddressed<Step>("step", "second", { choices: ["second", "minute"] });
  const measurements = useSignal<Measurements | undefined>(undefined);
  const isOn = isSeen.value && asked.value === undefined;
  useEffect(() => {
    if (!isOn) return undefined;
    const ending = new AbortController();
    measurements.value = followMeasurements(step.value, ending.signal);
    return () => ending.abort();
  }, [isOn, step.value]);

  const pages = useSignal<StreamPages | undefined>(undefined);
  const listed = () => {
    const own = pages.peek();
    return own?.prefix === "" && !own.isInternal && own.isWhole.peek() ? own.streams.peek() : undefined;
  };
  const { history, problem } = measurements.value ?? {};
  return (
    <>
      <header class="section">
        <h1>Overview</h1>
      </header>
      <Attention listed={listed} />
      <section class="measurements" aria-label="Measurements">
        <header class="section">
          <h2>Measurements</h2>
          <Switch
            label="Time range"
            value={step}
            options={[
              ["second", "15 min"],
              ["minute", "24 h"],
            ]}
          />
        </header>
        {problem?.value && <Refusal problem={problem.value} what="measurements" />}
        {history?.value && <Charts history={history.value} />}
      </section>
      <Bucket />
      <Streams onPages={(own) => (pages.value = own)} />
    </>
  );
}
