/** Lazy: a view whose code is loaded when it is shown first, so that a page begins with little. */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const loaded = signal<ComponentType<Props> | undefined>();
  const isMissing = signal(false);
  return function Lazy(props: Props) {
    useEffect(() => {
      load().then(
        (view) => (loaded.value = view),
        () => (isMissing.value = true), // of another release than the page, or the gateway is away
      );
    }, []);
    const View = loaded.value;
    if (View) return <View {...props} />;
    return isMissing.value ? <p class="refusal">This view cannot be loaded. Reload the page.</p> : null;
  };
}
