/** Secret: a text that the gateway shows only once. It stays open whatever becomes of the view behind it. */
import { signal } from "@preact/signals";
import { Shell } from "./copy.js";
import { Dialog } from "./dialog.js";

export interface Revealed {
  title: string;
  about: string;
  /** The secret and what is made with it, by their labels. */
  lines: [label: string, line: string][];
}

const revealed = signal<Revealed | undefined>();

export function reveal(secret: Revealed): void {
  revealed.value = secret;
}

export function OpenSecret() {
  const shown = revealed.value;
  return shown && <Secret key={shown} {...shown} onClose={() => (revealed.value = undefined)} />;
}

export function Secret({ title, about, lines, onClose }: Revealed & { onClose: () => void }) {
  return (
    <Dialog label={title} class="secret" stays onClose={onClose}>
      <h2>{title}</h2>
      <p class="about">{about}</p>
      {lines.map(([label, line]) => (
        <section>
          {lines.length > 1 && <h3>{label}</h3>}
          <Shell line={line} label={label} />
        </section>
      ))}
      <form method="dialog">
        <footer>
          <span class="needs" />
          <button class="main">Done</button>
        </footer>
      </form>
    </Dialog>
  );
}
