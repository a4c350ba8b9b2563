/** Numbers: as people read them, short. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Return a count with its thousands apart. */
export function count(value: number | null | undefined): string {
  return value == null ? "–" : whole.format(value);
}

/** Return a number in four characters or so: 950, 12.3k, 4.56M. */
export function short(value: number | null | undefined): string {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return size >= 100 || Number.isInteger(value) ? whole.format(value) : digits(value);
}

/** Return a rate by the second. */
export function rate(value: number | null | undefined): string {
  return value == null ? "–" : `${short(value)}/s`;
}

/** Return a size in bytes. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = value < 1 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${power ? digits(value / 1024 ** power) : whole.format(value)} ${units[power]}`;
}

export function percent(value: number | null | undefined): string {
  return value == null ? "–" : `${digits(value)} %`;
}

/** Return a noun with its number. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** Return the number that a text is; undefined if it is none. */
export function wholeNumber(given: string): number | undefined {
  const text = given.replace(/[\s,_]/g, "");
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");
}
