/** Tab: a name for the tab of the browser that stays the same after a reload. */
import { randomName } from "./context.js";

const STORED = "headgate.tab";
let name: string | undefined;

/**
 * Returns the name of this tab, for the `key` of its presence, so that other members do not notice a reload. The name
 * is in the session storage only while the page is unloaded, so a duplicated tab gets its own name. Outside of
 * browsers, the name is new in each program.
 */
export function tabKey(): string {
  if (name !== undefined) return name;
  const made = randomName();
  try {
    const own = (name = sessionStorage.getItem(STORED) ?? made);
    const forget = () => sessionStorage.removeItem(STORED);
    forget();
    addEventListener("pagehide", () => sessionStorage.setItem(STORED, own));
    addEventListener("pageshow", forget);
  } catch {
    name = made;
  }
  return name;
}
