/** Search: a field whose text counts when typing has paused. */
import { type Signal, useSignalEffect } from "@preact/signals";
import type { RefObject } from "preact";
import { useRef } from "preact/hooks";

const PAUSE_MS = 180;

interface Props {
  label: string;
  value: Signal<string>;
  /** The field, where the key / goes to it; then the key is shown. */
  field?: RefObject<HTMLInputElement | null>;
  /** More about what can be typed. */
  title?: string;
  /** Action of Enter, besides taking the text at once. */
  onEnter?: () => void;
}

export function Search({ label, value, field, title, onEnter }: Props) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const own = useRef<HTMLInputElement>(null);
  const input = field ?? own;
  useSignalEffect(() => {
    const text = value.value;
    if (input.current && input.current !== document.activeElement) input.current.value = text;
  });
  const take = (text: string) => (clearTimeout(timer.current), (value.value = text));
  return (
    <span class="search">
      <input
        ref={input}
        type="search"
        aria-label={label}
        placeholder={label}
        title={title}
        defaultValue={value.peek()}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => take(currentTarget.value), PAUSE_MS);
        }}
        onKeyDown={({ key, currentTarget }) => {
          if (key === "Enter") (take(currentTarget.value), onEnter?.());
        }}
      />
      {field && <kbd>/</kbd>}
    </span>
  );
}
