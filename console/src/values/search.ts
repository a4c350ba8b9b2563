/**
 * Search: what people type to find entries. Conditions on fields go to the gateway, which sends only entries for which
 * they hold: `sku=42`, `sku=A-*`, `sku=*`, `sku!=42`, `price>=10`. It has no condition for a text that may stand
 * anywhere, so this page looks for that in what it gets.
 */
import type { Filter } from "@headgate/client";
import type { Entry } from "../gateway/shapes.js";
import { pairsOf } from "./fields.js";

export interface Search {
  /** What the gateway looks for. */
  filter?: Filter | undefined;
  /** What this page looks for. */
  match?: ((entry: Entry) => boolean) | undefined;
}

type Match = NonNullable<Search["match"]>;

const CONDITION = /(?<=^|\s)([^\s=<>!"]+)(!=|>=|<=|=|>|<)("[^"]*"|\S*)/g;
const BOUNDS = { ">": "gt", ">=": "ge", "<": "lt", "<=": "le" } as const;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** Return the search that a text means. */
export function searchOf(text: string): Search {
  const filters: Filter[] = [];
  const matches: Match[] = [];
  const words = text.replace(CONDITION, (whole, name: string, sign: string, value: string) => {
    if (sign in BOUNDS && !NUMBER.test(value)) return whole;
    if (sign in BOUNDS) filters.push({ range: { [name]: { [BOUNDS[sign as "<"]]: Number(value) } } });
    else if (sign === "!=") filters.push({ not: all(textFilters(name, value)) });
    else {
      filters.push(...textFilters(name, value));
      const inner = /^\*([^*"]+)\*$/.exec(value)?.[1];
      if (inner !== undefined) matches.push((entry) => entry.fields[name]?.includes(inner) ?? false);
    }
    return "";
  }).trim();
  if (words) matches.push((entry) => hasText(entry, words));
  return {
    filter: filters.length ? all(filters) : undefined,
    match: matches.length ? (entry) => matches.every((match) => match(entry)) : undefined,
  };
}

function hasText(entry: Entry, text: string): boolean {
  return entry.id.startsWith(text) || pairsOf(entry).some((pair) => pair.some((own) => own.includes(text)));
}

/** Return the conditions of a value; a star at an edge stands for any text, and quotes for what they enclose. */
function textFilters(name: string, value: string): Filter[] {
  if (value.startsWith('"')) return [{ exact: { [name]: value.slice(1, -1) } }];
  const [, before, text = "", behind] = /^(\*?)(.*?)(\*?)$/s.exec(value) ?? [];
  if (!text || (before && behind)) return [{ present: [name] }];
  return [{ [before ? "suffix" : behind ? "prefix" : "exact"]: { [name]: text } }];
}

function all(filters: Filter[]): Filter {
  return filters.length === 1 ? filters[0]! : { all: filters };
}
