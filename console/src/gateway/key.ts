/** Key: who is there, where the gateway asks for that. It is kept for this tab only, and is never part of a URL. */
import { signal } from "@preact/signals";

const NAME = "headgate-key"; // the first page of the gateway has the same

/** The key or token in use; undefined where there is none. */
export const key = signal<string | undefined>(sessionStorage.getItem(NAME) ?? undefined);

/** Why a key is asked for; undefined while it is not. */
export const asked = signal<string | undefined>();

/** Use a key; returns what is wrong with it, if that can be seen. */
export function useKey(text: string): string | undefined {
  const trimmed = text.trim();
  if (!/^[\x21-\x7e]+$/.test(trimmed)) return "Invalid key or token.";
  sessionStorage.setItem(NAME, trimmed);
  key.value = trimmed;
  asked.value = undefined;
  return undefined;
}

/** Forget the key, and ask for another. */
export function forgetKey(why = ""): void {
  sessionStorage.removeItem(NAME);
  key.value = undefined;
  asked.value = why;
}

/** Return the headers of a request with the credential. */
export function credentials(): Record<string, string> {
  return key.value === undefined ? {} : { authorization: `Bearer ${key.value}` };
}
