/** Tab: a name for the browser's tab, which is the same when its page is loaded again. */
import { randomName } from "./context.js";

const STORED = "headgate.tab";
let name: string | undefined;

/**
 * Return the name of this tab, for the `key` of its presence: others do not see a reload. It is in the session storage only
 * while the page is left, so that a tab that is duplicated gets a name of its own. Outside of browsers it is made anew.
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
