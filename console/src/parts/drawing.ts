/** Drawing: the lines of a plot, by uPlot, which is loaded when the first plot is shown. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes } from "../values/numbers.js";
import type { PlotProps } from "./plot.js";
import { colour } from "./theme.js";

// Places on an axis are so far apart: whole seconds, minutes, hours, days; powers of two for bytes.
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200]
  .concat([1, 2, 5, 10, 30, 90, 365, 3650].map((days) => days * 86_400));
const STEPS_BYTES = Array.from({ length: 44 }, (_, power) => 2 ** power);

// Bars are as high as the root of what they stand for, so that few entries are seen beside many.
const ROOTS = { distr: 100, fwd: Math.sqrt, bwd: (value: number) => value * value } as const;

type Options = Pick<PlotProps, "lines" | "format" | "together" | "onBrush"> & { width: number; height: number };

/** Draw lines in an element. `onCursor` is told the place under the cursor. */
export function draw(element: HTMLElement, data: uPlot.AlignedData, options: Options, onCursor: (place: number | null) => void): uPlot {
  const chosen = optionsFor(options);
  chosen.hooks = { ...chosen.hooks, setCursor: [(own) => onCursor(own.cursor.idx ?? null)] };
  const drawn = new uPlot(chosen, data, element);
  if (options.onBrush) brushByTouch(drawn);
  return drawn;
}

function optionsFor({ lines, format, together, onBrush, width, height }: Options): uPlot.Options {
  const bars = onBrush && uPlot.paths.bars!({ size: [0.9, 40], align: 1 });
  const axis = { stroke: colour("soft"), font: "11px system-ui", ticks: { show: false }, grid: { stroke: colour("line"), width: 1 } };
  return {
    width: Math.max(60, width),
    height,
    padding: [6, 28, 0, 0], // the last place on the axis has room for its time
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: !bars, size: 6 },
      drag: { x: onBrush !== undefined, y: false, setScale: false },
      ...(together === undefined ? {} : { sync: { key: together } }),
    },
    scales: {
      // A single place has a second around it: without that it would have years.
      x: { range: ({ data: [times] }, min, max) => (times.length === 1 ? [times[0]!, times[0]! + 1] : [min, max]) },
      y: { range: (_, _min, max) => [0, max > 0 ? max * 1.08 : 1], ...(onBrush ? ROOTS : {}) },
    },
    axes: [
      { ...axis, size: 22, space: 64, incrs: STEPS_S, values: (_, splits) => splits.map((split) => clockOf(split, splits)) },
      { ...axis, size: 52, space: 26, gap: 4, ...(format === bytes ? { incrs: STEPS_BYTES } : {}), filter: (_, splits) => splits, values: (_, splits) => splits.map((split) => format(split)) },
    ],
    series: [
      {},
      ...lines.map((line, number) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.5,
        points: { show: false },
        ...(number === 0 || bars ? { fill: colour(line.colour, bars ? 0.75 : 0.12) } : {}),
        ...(bars ? { paths: bars, width: 0 } : {}),
      })),
    ],
    hooks: onBrush
      ? {
          setSelect: [
            (plot) => {
              const { left, width: wide } = plot.select;
              if (wide < 3) return;
              onBrush(plot.posToVal(left, "x") * 1000, plot.posToVal(left + wide, "x") * 1000);
              plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
        }
      : {},
  };
}

/** Let a finger choose a range across, as a mouse does; up and down it scrolls the page. */
function brushByTouch(plot: uPlot): void {
  const { over } = plot;
  let fromX: number | undefined;
  const select = (event: PointerEvent, isChosen: boolean) => {
    if (fromX === undefined) return;
    const toX = xOf(event);
    plot.setSelect({ left: Math.min(fromX, toX), width: Math.abs(toX - fromX), top: 0, height: over.clientHeight }, isChosen);
    if (isChosen) fromX = undefined;
  };
  const xOf = ({ clientX }: PointerEvent) => Math.min(Math.max(clientX - over.getBoundingClientRect().left, 0), over.clientWidth);
  over.style.touchAction = "pan-y";
  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && event.isPrimary) fromX = xOf(event);
  });
  over.addEventListener("pointermove", (event) => select(event, false));
  over.addEventListener("pointerup", (event) => select(event, true));
  over.addEventListener("pointercancel", () => {
    fromX = undefined;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  });
}

/** Return the labels below the axis: as much of the time as tells the places apart. */
function clockOf(seconds: number, splits: number[]): string {
  const date = new Date(seconds * 1000);
  const stepS = (splits[1] ?? seconds + 60) - (splits[0] ?? seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  if (stepS >= 86_400) return `${two(date.getDate())}.${two(date.getMonth() + 1)}.`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return stepS < 60 ? `${time}:${two(date.getSeconds())}` : time;
}
