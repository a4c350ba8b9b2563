/** Dialog: something above the page that has the keyboard until it is closed. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  class?: string;
  /** Whether a press beside it does not close it. */
  stays?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ label, class: kind = "", stays = false, onClose, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const hasEnded = useRef(false);
  // The event `close` comes later, when another dialog may be open already.
  const end = () => {
    if (hasEnded.current) return;
    hasEnded.current = true;
    onClose();
  };
  useEffect(() => {
    const dialog = element.current!;
    dialog.showModal();
    return () => ((hasEnded.current = true), dialog.close());
  }, []);
  const onClick = (event: MouseEvent) => {
    if (event.target === element.current && !stays) end(); // beside it
  };
  return (
    <dialog ref={element} class={kind} aria-label={label} onCancel={end} onClose={end} onMouseDown={onClick}>
      <div class="inner">{children}</div>
    </dialog>
  );
}
