/**
 * Act: something that changes streams. Every act is asked for in the same dialog: what it does, which right it
 * takes, the line for a shell that does the same, and a button. An act that is not allowed is disabled, with the
 * reason.
 */
import { signal, useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type Call, curlOf, send } from "../gateway/calls.js";
import { changes } from "../gateway/polling.js";
import { denialOf, type Need, rightsOf } from "../gateway/principal.js";
import { Problem, textOf } from "../gateway/problem.js";
import { Shell } from "./copy.js";
import { Dialog } from "./dialog.js";
import { type Field, Form, startOf, type Values } from "./form.js";
import { notice } from "./notices.js";

export interface Act<T = unknown> extends Need {
  title: string;
  /** Text of the button that does it. */
  verb: string;
  /** Its effect, in a sentence or two; with the values of the form. */
  about: ComponentChildren | ((values: Values) => string);
  fields?: Field[];
  /** What the values of the form mean, below it. */
  preview?: (values: Values) => ComponentChildren;
  /** The request. A text says why there is none yet. */
  call: (values: Values) => Call<T> | string;
  /** Whether it takes something away for good. */
  destroys?: boolean;
  /** Text to be typed first, so that it is not done by accident. */
  typed?: string;
  /** Whether the dialog stays open for the next one. */
  stays?: boolean;
  /** The outcome, for the notice. */
  done: (answer: T, values: Values) => string;
  /** What may be done instead, where it was refused. */
  instead?: (problem: Problem, values: Values) => Act<T> | undefined;
  /** What is asked for next, in the place of this dialog. */
  next?: (answer: T, values: Values) => Act<T> | undefined;
  /** Called after it. */
  after?: (answer: T) => void;
}

const open = signal<Act | undefined>();

/** Ask whether something is to be done. */
export function begin<T>(act: Act<T>): void {
  open.value = act as unknown as Act;
}

interface ButtonProps<T> {
  act: Act<T>;
  label?: string;
  class?: string;
  /** Why there is nothing to do now. */
  idle?: string | undefined;
}

export function ActButton<T>({ act, label = act.verb, class: kind = "", idle }: ButtonProps<T>) {
  const reason = denialOf(act) ?? idle;
  const onClick = (event: Event) => {
    event.stopPropagation();
    if (reason) notice(reason, { isBad: true });
    else begin(act);
  };
  return (
    <button
      type="button"
      class={`${kind} ${act.destroys ? "destroys" : ""}`}
      aria-disabled={reason !== undefined}
      title={reason ?? (rightsOf(act) ? `${act.title}: requires ${rightsOf(act)}` : act.title)}
      aria-description={reason}
      onClick={onClick}
    >
      {label}
    </button>
  );
}

export function OpenAct() {
  const act = open.value;
  return act && <ActDialog key={act} act={act} />;
}

function ActDialog({ act }: { act: Act }) {
  const values = useSignal<Values>(startOf(act.fields ?? []));
  const typed = useSignal("");
  const failure = useSignal("");
  const result = useSignal("");
  const isBusy = useSignal(false);
  const request = useComputed(() => act.call(values.value));
  const fault = typeof request.value === "string" ? request.value : undefined;
  const denial = denialOf(act);
  const mayDo = fault === undefined && denial === undefined && (act.typed === undefined || typed.value === act.typed);
  const close = () => {
    if (open.value === act) open.value = undefined; // not the act that has come in its place
  };

  async function perform(event: Event): Promise<void> {
    event.preventDefault();
    if (!mayDo || isBusy.value) return;
    isBusy.value = true;
    failure.value = "";
    try {
      const answer = await send(request.value as Call);
      changes.value += 1;
      result.value = act.done(answer, values.value);
      const next = act.next?.(answer, values.value);
      if (next) begin(next);
      else if (!act.stays) {
        close();
        notice(result.value);
      }
      act.after?.(answer);
    } catch (error) {
      const other = error instanceof Problem ? act.instead?.(error, values.value) : undefined;
      if (other) begin(other);
      else failure.value = textOf(error);
    } finally {
      isBusy.value = false;
    }
  }

  return (
    <Dialog label={act.title} class={act.destroys ? "act destroys" : "act"} onClose={close}>
      <form onSubmit={perform}>
        <h2>{act.title}</h2>
        <div class="about">{typeof act.about === "function" ? act.about(values.value) : act.about}</div>
        {act.fields && <Form fields={act.fields} values={values} />}
        {act.preview?.(values.value)}
        {act.typed !== undefined && (
          <label class="typed">
            <span>
              Type <b>{act.typed}</b> to confirm
            </span>
            <input value={typed} onInput={(event) => (typed.value = event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
        <Shell line={fault === undefined ? curlOf(request.value as Call) : "curl …"} />
        <p class="outcome" role="alert">
          {denial ?? (failure.value ? <span class="bad">{failure.value}</span> : !result.value && <span class="soft">{fault}</span>)}
          {result.value && <span class="good">{result.value}</span>}
        </p>
        <footer>
          <span class="needs">
            {rightsOf(act) && (
              <>
                Requires <b>{rightsOf(act)}</b> {act.stream === undefined ? "on the gateway" : `on ${act.stream}`}
              </>
            )}
          </span>
          <button type="button" onClick={close}>
            {act.stays && result.value ? "Close" : "Cancel"}
          </button>
          <button type="submit" class={act.destroys ? "main destroys" : "main"} disabled={!mayDo || isBusy.value} title={fault ?? ""}>
            {act.verb}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
