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
  useEffect(() => {
    const dialog = element.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const onClick = (event: MouseEvent) => {
    if (event.target === element.current && !stays) onClose(); // beside it
  };
  return (
    <dialog ref={element} class={kind} aria-label={label} onClose={onClose} onMouseDown={onClick}>
      <div class="inner">{children}</div>
    </dialog>
  );
}
