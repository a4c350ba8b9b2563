/** Form: the fields of an act. Values are what was typed; the act makes a request of them, or says what is missing. */
import type { Signal } from "@preact/signals";
import { useId } from "preact/hooks";

export type Pairs = [string, string][];

export interface Values {
  [name: string]: string | boolean | Pairs;
}

interface Common {
  name: string;
  label: string;
  hint?: string;
}

export type Field =
  | (Common & { kind: "text"; value?: string; choices?: string[] })
  | (Common & { kind: "choice"; value?: string; options: [value: string, label: string][] })
  | (Common & { kind: "flag"; value?: boolean })
  | (Common & { kind: "pairs"; value: Pairs; noun?: string });

/** Return the first values of the fields. */
export function startOf(fields: Field[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, initial(field)]));
}

function initial(field: Field): string | boolean | Pairs {
  if (field.kind === "choice") return field.value ?? field.options[0]?.[0] ?? "";
  return field.value ?? (field.kind === "flag" ? false : "");
}

interface Props {
  fields: Field[];
  values: Signal<Values>;
}

export function Form({ fields, values }: Props) {
  return (
    <div class="fields">
      {fields.map((field) => (
        <Input field={field} value={values.value[field.name]!} change={(value) => (values.value = { ...values.value, [field.name]: value })} />
      ))}
    </div>
  );
}

interface InputProps {
  field: Field;
  value: string | boolean | Pairs;
  change: (value: string | boolean | Pairs) => void;
}

function Input({ field, value, change }: InputProps) {
  const id = useId();
  if (field.kind === "pairs") return <PairsInput field={field} value={value as Pairs} change={change} />;
  if (field.kind === "flag") {
    return (
      <label class="flag">
        <input type="checkbox" checked={value as boolean} onChange={(event) => change(event.currentTarget.checked)} />
        <span>{field.label}</span>
        {field.hint && <small>{field.hint}</small>}
      </label>
    );
  }
  return (
    <label>
      <span>{field.label}</span>
      {field.kind === "choice" ? (
        <select value={value as string} onChange={(event) => change(event.currentTarget.value)}>
          {field.options.map(([option, label]) => (
            <option value={option}>{label}</option>
          ))}
        </select>
      ) : (
        <input
          value={value as string}
          list={field.choices && id}
          onInput={(event) => change(event.currentTarget.value)}
          autocomplete="off"
          spellcheck={false}
        />
      )}
      {field.kind === "text" && field.choices && (
        <datalist id={id}>
          {field.choices.map((choice) => (
            <option value={choice} />
          ))}
        </datalist>
      )}
      {field.hint && <small>{field.hint}</small>}
    </label>
  );
}

interface PairsProps {
  field: Common & { noun?: string };
  value: Pairs;
  change: (pairs: Pairs) => void;
}

function PairsInput({ field, value: pairs, change }: PairsProps) {
  const { noun = "field" } = field;
  const set = (at: number, pair: [string, string]) => change(pairs.map((own, place) => (place === at ? pair : own)));
  return (
    <fieldset class="pairs">
      <legend>{field.label}</legend>
      {pairs.map(([name, value], at) => (
        <div class="pair">
          <input aria-label={`Name of a ${noun}`} value={name} spellcheck={false} onInput={(event) => set(at, [event.currentTarget.value, value])} />
          <textarea aria-label={`Value of ${name || `a ${noun}`}`} rows={1} spellcheck={false} value={value} onInput={(event) => set(at, [name, event.currentTarget.value])} />
          <button type="button" class="icon" aria-label={`Leave ${name || `this ${noun}`} out`} onClick={() => change(pairs.filter((_, place) => place !== at))}>
            ×
          </button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => change([...pairs, ["", ""]])}>
        Add a {noun}
      </button>
      {field.hint && <small>{field.hint}</small>}
    </fieldset>
  );
}
