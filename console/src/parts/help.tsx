/** Help: which keys do what in the view that is shown. */
import { Dialog } from "./dialog.js";
import { keys } from "./keys.js";

const SHOWN: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc", "Ctrl+k": "Ctrl K" };

export function Help({ onClose }: { onClose: () => void }) {
  const shown = keys.value.filter(({ key }, at) => keys.value.findIndex((other) => other.key === key) === at);
  return (
    <Dialog label="Keyboard shortcuts" class="help" onClose={onClose}>
      <h2>Keyboard shortcuts</h2>
      <dl>
        {shown.map(({ key, does }) => (
          <div>
            <dt>
              {key.split(" ").map((part) => (
                <kbd>{SHOWN[part] ?? part}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button class="main">Close</button>
      </form>
    </Dialog>
  );
}
