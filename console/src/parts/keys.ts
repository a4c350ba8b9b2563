/** Keys: what each does in the view that is shown. A view has a key before the page as a whole. */
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Key {
  /** As the browser names it; two keys after each other stand with a space between. */
  key: string;
  does: string;
  run: () => void;
}

/** The keys that do something now; of two that are the same, the first one holds. */
export const keys = signal<Key[]>([]);

const PAIR_MS = 800;
let before = { key: "", atMs: 0 };

/** Let keys do something while a component is there; those `of` the page as a whole, where no view wants them. */
export function useKeys(own: Key[], of: "view" | "page" = "view"): void {
  const latest = useRef(own);
  latest.current = own;
  const names = own.map(({ key }) => key).join();
  useLayoutEffect(() => {
    // A key works as soon as what it does is drawn.
    const mine = latest.current.map(({ key, does }) => ({
      key,
      does,
      run: () => latest.current.find((each) => each.key === key)?.run(),
    }));
    keys.value = of === "view" ? [...mine, ...keys.value] : [...keys.value, ...mine];
    return () => (keys.value = keys.value.filter((key) => !mine.includes(key)));
  }, [names]);
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || isTyping(event) || document.querySelector("dialog[open]")) return;
  const name = event.ctrlKey || event.metaKey ? `Ctrl+${event.key}` : event.key;
  const isPair = event.timeStamp - before.atMs < PAIR_MS;
  const pair = keys.value.find(({ key }) => isPair && key === `${before.key} ${name}`);
  const match = pair ?? keys.value.find(({ key }) => key === name);
  before = { key: name, atMs: event.timeStamp };
  if (!match) return;
  event.preventDefault();
  match.run();
});

/** Whether a key is meant for a field; Escape leaves the field instead. */
function isTyping(event: KeyboardEvent): boolean {
  const { target } = event;
  if (!(target instanceof HTMLElement) || !target.matches("input:not([type=checkbox]), textarea, select")) return false;
  if (event.key === "Escape") target.blur();
  return event.key !== "Escape" && !event.ctrlKey && !event.metaKey;
}
