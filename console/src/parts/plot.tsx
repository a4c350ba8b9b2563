/** Plot: lines over time, with what they say at the cursor, or now. Plots that belong together have one cursor. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { moment } from "../values/times.js";
import { colours } from "./theme.js";

export interface Line {
  label: string;
  values: readonly (number | null)[];
  /** Of `--line-1` to `--line-5`, or another colour of the style sheet. */
  colour: string;
  format?: (value: number | null | undefined) => string;
}

export interface PlotProps {
  title: string;
  timesMs: readonly number[];
  lines: Line[];
  format: (value: number | null | undefined) => string;
  /** Plots of the same name have one cursor. */
  together?: string;
  height?: number;
  /** Draw bars, and let a range be chosen. */
  onBrush?: (fromMs: number, toMs: number) => void;
  /** Text beside the title. */
  children?: ComponentChildren;
}

export function Plot({ title, timesMs, lines, format, together, height = 104, onBrush, children }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const at = useSignal<number | null>(null);
  const data = [timesMs.map((ms) => ms / 1000), ...lines.map(({ values }) => values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const shape = lines.map((line) => line.label + line.colour).join() + colours.value;

  useEffect(() => {
    const element = place.current!;
    let hasEnded = false;
    import("./drawing.js").then(
      ({ draw }) => {
        if (hasEnded) return;
        const options = { lines, format, together, onBrush, height, width: element.clientWidth };
        plot.current = draw(element, latest.current, options, (place) => (at.value = place));
      },
      () => {}, // of another release than the page, or the gateway is away: the numbers are there
    );
    const resizing = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    resizing.observe(element);
    return () => {
      hasEnded = true;
      resizing.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape, height]);

  useEffect(() => plot.current?.setData(data), [timesMs, lines.map(({ values }) => values.at(-1)).join()]);

  const shown = at.value ?? timesMs.length - 1;
  const says = lines.map((line) => `${line.label} ${(line.format ?? format)(line.values[shown])}`);
  return (
    <figure class="plot">
      <figcaption>
        <b>{title}</b>
        {lines.map((line, number) => (
          <span class="key">
            <i style={{ background: `var(--${line.colour})` }} />
            {line.label} <em>{says[number]!.slice(line.label.length + 1)}</em>
          </span>
        ))}
        {at.value !== null && timesMs[at.value] !== undefined && <time>{moment(timesMs[at.value]!)}</time>}
        {children}
      </figcaption>
      <div ref={place} class="canvas" role="img" aria-label={`${title}: ${says.join(", ")}`} style={{ height: `${height}px` }} />
    </figure>
  );
}
