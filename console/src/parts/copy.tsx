/** Copy: a text with a button that puts it into the clipboard. */
import { useRef, useState } from "preact/hooks";

const SHOWN_MS = 1500;

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [state, setState] = useState("");
  const copy = async () => {
    const outcome = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Copy failed");
    setState(outcome);
    setTimeout(() => setState(""), SHOWN_MS);
  };
  return (
    <button type="button" class="small" onClick={copy}>
      {state || label}
    </button>
  );
}

/** A line, such as one for a shell. It can be selected at once where there is no clipboard. */
export function Shell({ line, label = "Equivalent curl command" }: { line: string; label?: string }) {
  const element = useRef<HTMLElement>(null);
  const select = () => getSelection()?.selectAllChildren(element.current!);
  return (
    <div class="shell">
      <code ref={element} onDblClick={select} tabIndex={0} aria-label={label}>
        {line}
      </code>
      <CopyButton text={line} />
    </div>
  );
}
