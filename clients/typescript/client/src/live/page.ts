/** Page: whether the page is visible and online. */
import type { Line } from "./line.js";

/** Pauses a line while its page is hidden. Reconnects at once when the page is visible or the network is back. */
export function watchPage(live: Line, hiddenMs: number): () => void {
  const { document } = globalThis;
  if (typeof document === "undefined" || typeof addEventListener === "undefined") return () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onVisibility = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") live.resume();
    else if (hiddenMs < Infinity) timer = setTimeout(hide, hiddenMs);
  };
  const hide = () => {
    if (live.isBusy) timer = setTimeout(hide, hiddenMs);
    else live.pause();
  };
  const onNetwork = () => live.resume();
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("online", onNetwork);
  addEventListener("offline", onNetwork);
  onVisibility();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("online", onNetwork);
    removeEventListener("offline", onNetwork);
  };
}
