/** Addressed: what a view shows stands in the query of its address, so that a saved link shows the same. */
import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { query, setQuery } from "../route.js";

interface Options<T extends string> {
  /** The values that are allowed; the address may hold anything. */
  choices?: readonly T[];
  /** What the address says of a value, where it is something else. */
  written?: (value: T) => string;
}

/** Return a value that the address has under a name, in both directions. The address is silent about the usual one. */
export function useAddressed<T extends string = string>(name: string, usual: NoInfer<T>, { choices, written }: Options<T> = {}): Signal<T> {
  const said = (): T => {
    const text = query.value.get(name) as T | null;
    return text === null || (choices && !choices.includes(text)) ? usual : text;
  };
  const value = useSignal<T>(said());
  const noted = useRef<string>(value.peek());
  useSignalEffect(() => {
    const own = value.value;
    noted.current = own !== usual && written ? written(own) : own;
    setQuery(name, own === usual ? "" : noted.current);
  });
  useSignalEffect(() => {
    const text = said();
    if (text !== noted.current) value.value = text;
  });
  return value;
}
