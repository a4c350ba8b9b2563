/** Notices: what was done, or not, for a few seconds at the edge of the page. */
import { signal } from "@preact/signals";

interface Notice {
  text: string;
  isBad: boolean;
}

const SHOWN_MS = 6000;
const notices = signal<Notice[]>([]);

/** Show a text for a while. */
export function notice(text: string, { isBad = false } = {}): void {
  const added = { text, isBad };
  notices.value = [...notices.value, added];
  setTimeout(() => (notices.value = notices.value.filter((each) => each !== added)), SHOWN_MS);
}

export function Notices() {
  return (
    <div class="notices" role="status">
      {notices.value.map(({ text, isBad }) => (
        <p class={isBad ? "bad" : "good"}>{text}</p>
      ))}
    </div>
  );
}
