/** Switch: a few choices beside each other, of which one holds. */
import type { Signal } from "@preact/signals";

interface Props<T extends string> {
  label: string;
  value: Signal<T>;
  options: readonly (readonly [value: T, label: string])[];
}

export function Switch<T extends string>({ label, value, options }: Props<T>) {
  return (
    <div class="switch" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button type="button" aria-pressed={value.value === option} onClick={() => (value.value = option)}>
          {text}
        </button>
      ))}
    </div>
  );
}
