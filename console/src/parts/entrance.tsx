/** Entrance: asks for a key. */
import { useSignal } from "@preact/signals";
import { asked, useKey } from "../gateway/key.js";

export function Entrance() {
  const fault = useSignal(asked.value ?? "");
  const text = useSignal("");
  const enter = (event: Event) => {
    event.preventDefault();
    fault.value = useKey(text.value) ?? "";
  };
  return (
    <section class="entrance">
      <h1>This gateway asks for a key</h1>
      <form onSubmit={enter}>
        <input type="password" aria-label="Key or token" placeholder="Key or token" autocomplete="off" spellcheck={false} required autofocus onInput={(event) => (text.value = event.currentTarget.value)} />
        <button class="main">Enter</button>
      </form>
      <p class="bad" role="alert">
        {fault}
      </p>
      <p class="soft">
        It is kept for this tab only, and goes nowhere but to this gateway. <code>headgate keys add</code> makes a key.
      </p>
    </section>
  );
}
