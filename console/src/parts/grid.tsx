/**
 * Grid: a list of rows, of which only those are drawn that can be seen, so that a hundred thousand are as quick as
 * ten. The page itself scrolls. A row has the focus when j, k or the arrows come to it.
 */
import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useKeys } from "./keys.js";

const BEYOND = 12; // rows drawn above and below what is seen
const NEAR = 40; // rows from the end, where more is asked for
const PHONE = matchMedia("(max-width: 44rem)");

export interface Column {
  title: string;
  class?: string;
}

interface Props<T> {
  label: string;
  class: string;
  columns: Column[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  cells: (row: T) => ComponentChildren[];
  /** Action of Enter or a click. */
  onOpen?: (row: T) => void;
  /** The row that is shown elsewhere, by its key. */
  opened?: string | undefined;
  /** The marked rows, by their keys; none: rows cannot be marked. */
  marks?: Signal<ReadonlySet<string>>;
  /** Height of a row on a phone, where its cells take several lines. */
  phoneHeight?: number;
  /** Called when the end comes near. */
  onNear?: (() => void) | undefined;
}

export function Grid<T>({ label, class: kind, columns, rows, keyOf, cells, onOpen, opened, marks, phoneHeight = 44, onNear }: Props<T>) {
  const body = useRef<HTMLDivElement>(null);
  const range = useSignal({ from: 0, to: 60 });
  const current = useSignal(-1);
  const wanted = useRef(-1); // a row that is to have the focus once it is drawn
  const height = PHONE.matches ? phoneHeight : 29;

  useEffect(() => {
    const look = () => {
      if (!body.current) return;
      const top = -body.current.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(top / height) - BEYOND);
      const to = Math.ceil((top + innerHeight) / height) + BEYOND;
      if (from !== range.peek().from || to !== range.peek().to) range.value = { from, to };
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => (removeEventListener("scroll", look), removeEventListener("resize", look));
  }, [height, rows.length > 0]);

  useEffect(() => {
    if (range.value.to + NEAR > rows.length) onNear?.();
  });

  useSignalEffect(() => {
    void range.value;
    queueMicrotask(() => focusRow(body.current, wanted));
  });

  const move = (to: number) => {
    const at = Math.max(0, Math.min(rows.length - 1, to));
    if (!rows.length || !body.current) return;
    current.value = wanted.current = at;
    scrollToRow(body.current, at, height);
    requestAnimationFrame(() => focusRow(body.current, wanted));
  };
  const row = () => rows[current.value];
  const toggle = (key: string) => marks && (marks.value = toggled(marks.value, key));
  useKeys([
    { key: "j", does: "next row", run: () => move(current.value + 1) },
    { key: "k", does: "previous row", run: () => move(current.value - 1) },
    { key: "ArrowDown", does: "next row", run: () => move(current.value + 1) },
    { key: "ArrowUp", does: "previous row", run: () => move(current.value - 1) },
    { key: "g g", does: "first row", run: () => move(0) },
    { key: "G", does: "last row", run: () => move(rows.length - 1) },
    ...(marks ? [{ key: "x", does: "select the row", run: () => row() !== undefined && toggle(keyOf(row()!)) }] : []),
    ...(onOpen ? [{ key: "Enter", does: "open the row", run: () => row() !== undefined && onOpen(row()!) }] : []),
  ]);

  const { from, to } = range.value;
  const drawn = rows.slice(from, to);
  const areAllMarked = marks !== undefined && rows.length > 0 && marks.value.size >= rows.length;
  return (
    <div class={`grid ${kind}`} role="grid" aria-label={label} aria-rowcount={rows.length + 1}>
      <div role="rowgroup">
        <div class="row head" role="row" aria-rowindex={1}>
          {marks && (
            <span role="columnheader" class="mark">
              <label>
                <input
                  type="checkbox"
                  aria-label="Select all"
                  checked={areAllMarked}
                  onChange={() => (marks.value = areAllMarked ? new Set() : new Set(rows.map(keyOf)))}
                />
              </label>
            </span>
          )}
          {columns.map((column) => (
            <span role="columnheader" class={column.class}>
              {column.title}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="rows" ref={body} style={{ height: `${rows.length * height}px` }}>
        {drawn.map((each, place) => {
          const [at, key] = [from + place, keyOf(each)];
          const isMarked = marks?.value.has(key);
          return (
            <div
              key={key}
              role="row"
              class={`row ${isMarked ? "marked" : ""} ${opened === key ? "opened" : ""} ${onOpen ? "opens" : ""}`}
              data-at={at}
              aria-rowindex={at + 2}
              aria-selected={marks ? isMarked : opened === key}
              tabIndex={at === Math.max(0, current.value) ? 0 : -1}
              style={{ top: `${at * height}px`, height: `${height}px` }}
              onFocus={() => (current.value = at)}
              onClick={(event) => isFree(event) && onOpen?.(each)}
            >
              {marks && (
                <span role="gridcell" class="mark">
                  <label>
                    <input type="checkbox" tabIndex={-1} aria-label={`Select ${key}`} checked={isMarked ?? false} onChange={() => toggle(key)} />
                  </label>
                </span>
              )}
              {cells(each).map((cell, column) => (
                <span role="gridcell" class={columns[column]?.class}>
                  {cell}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** Whether a click is for the row itself, and not for something in it or for selecting text. */
function isFree({ target }: MouseEvent): boolean {
  return !(target as Element).closest("a, button, input, label") && getSelection()?.isCollapsed !== false;
}

function toggled(marks: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const changed = new Set(marks);
  if (!changed.delete(key)) changed.add(key);
  return changed;
}

/** Scroll just as far as it takes to see a row, below what sticks to the top. */
function scrollToRow(body: HTMLElement, at: number, height: number): void {
  const top = body.getBoundingClientRect().top + at * height;
  const covered = 90;
  if (top < covered) scrollBy({ top: top - covered });
  else if (top + height > innerHeight - height) scrollBy({ top: top + 2 * height - innerHeight });
}

function focusRow(body: HTMLElement | null, wanted: { current: number }): void {
  const row = body?.querySelector<HTMLElement>(`[data-at="${wanted.current}"]`);
  if (!row) return;
  row.focus({ preventScroll: true });
  wanted.current = -1;
}
