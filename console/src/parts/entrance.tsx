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
      <h1>This gateway requires a key</h1>
      <form onSubmit={enter}>
        <input type="password" aria-label="Key or token" placeholder="Key or token" autocomplete="off" spellcheck={false} required autofocus onInput={(event) => (text.value = event.currentTarget.value)} />
        <button class="main">Continue</button>
      </form>
      <p class="bad" role="alert">
        {fault}
      </p>
      <p class="soft">
        The key is stored in this tab only and is sent only to this gateway. To create a key, run <code>headgate keys add</code>.
      </p>
    </section>
  );
}
