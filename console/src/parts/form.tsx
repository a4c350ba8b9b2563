/** Form: the fields of an act. Values are what was typed; the act makes a request of them, or says what is missing. */
import type { Signal } from "@preact/signals";
import { useId } from "preact/hooks";

export type Pairs = [string, string][];

export type Value = string | boolean | Pairs | string[] | Values[];

export interface Values {
  [name: string]: Value;
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
  | (Common & { kind: "checks"; value?: string[]; options: string[] })
  | (Common & { kind: "forms"; value?: Values[]; fields: Field[] })
  | (Common & { kind: "pairs"; value: Pairs; noun?: string });

/** Return the first values of the fields. */
export function startOf(fields: Field[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, initial(field)]));
}

function initial(field: Field): Value {
  if (field.kind === "choice") return field.value ?? field.options[0]?.[0] ?? "";
  if (field.kind === "checks") return field.value ?? [];
  if (field.kind === "forms") return field.value ?? [startOf(field.fields)];
  return field.value ?? (field.kind === "flag" ? false : "");
}

interface Props {
  fields: Field[];
  values: Signal<Values>;
}

export function Form({ fields, values }: Props) {
  return <Fields fields={fields} values={values.value} change={(changed) => (values.value = changed)} />;
}

interface FieldsProps {
  fields: Field[];
  values: Values;
  change: (values: Values) => void;
}

function Fields({ fields, values, change }: FieldsProps) {
  return (
    <div class="fields">
      {fields.map((field) => (
        <Input field={field} value={values[field.name]!} change={(value) => change({ ...values, [field.name]: value })} />
      ))}
    </div>
  );
}

interface InputProps {
  field: Field;
  value: Value;
  change: (value: Value) => void;
}

function Input({ field, value, change }: InputProps) {
  const id = useId();
  if (field.kind === "checks") return <Checks field={field} value={value as string[]} change={change} />;
  if (field.kind === "forms") return <Forms field={field} value={value as Values[]} change={change} />;
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

interface ChecksProps {
  field: Common & { options: string[] };
  value: string[];
  change: (checked: string[]) => void;
}

/** Any number of options. */
function Checks({ field: { label, options, hint }, value: checked, change }: ChecksProps) {
  return (
    <fieldset class="checks">
      <legend>{label}</legend>
      {options.map((option) => (
        <label class="flag">
          <input
            type="checkbox"
            checked={checked.includes(option)}
            onChange={(event) => change(options.filter((own) => (own === option ? event.currentTarget.checked : checked.includes(own))))}
          />
          <span>{option}</span>
        </label>
      ))}
      {hint && <small>{hint}</small>}
    </fieldset>
  );
}

interface FormsProps {
  field: Common & { fields: Field[] };
  value: Values[];
  change: (forms: Values[]) => void;
}

/** The same fields any number of times, at least once. */
function Forms({ field: { label, fields }, value: forms, change }: FormsProps) {
  return (
    <>
      {forms.map((form, at) => (
        <fieldset class="form">
          <legend>{forms.length > 1 ? `${label} ${at + 1}` : label}</legend>
          {forms.length > 1 && (
            <button type="button" class="icon" aria-label={`Remove ${label.toLowerCase()} ${at + 1}`} onClick={() => change(forms.filter((_, place) => place !== at))}>
              ×
            </button>
          )}
          <Fields fields={fields} values={form} change={(changed) => change(forms.map((own, place) => (place === at ? changed : own)))} />
        </fieldset>
      ))}
      <button type="button" class="small more-forms" onClick={() => change([...forms, startOf(fields)])}>
        Add {label.toLowerCase()}
      </button>
    </>
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
          <input aria-label={`Name of ${noun}`} value={name} spellcheck={false} onInput={(event) => set(at, [event.currentTarget.value, value])} />
          <textarea aria-label={`Value of ${name || noun}`} rows={1} spellcheck={false} value={value} onInput={(event) => set(at, [name, event.currentTarget.value])} />
          <button type="button" class="icon" aria-label={`Remove ${name || `this ${noun}`}`} onClick={() => change(pairs.filter((_, place) => place !== at))}>
            ×
          </button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => change([...pairs, ["", ""]])}>
        Add {noun}
      </button>
      {field.hint && <small>{field.hint}</small>}
    </fieldset>
  );
}
