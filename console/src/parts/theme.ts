/** Theme: light, dark, or as the system has it. */
import { effect, signal } from "@preact/signals";

const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const NAME = "headgate-theme";
const stored = localStorage.getItem(NAME);

export const theme = signal<Theme>(THEMES.find((name) => name === stored) ?? "auto");

/** Counts changes of the colours: who draws with them draws anew. */
export const colours = signal(0);

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  localStorage.setItem(NAME, theme.value);
}

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  colours.value = colours.peek() + 1;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colours.value += 1));

/** Return a colour of the style sheet as a canvas takes it; with less of it, if asked for. */
export function colour(name: string, opacity = 1): string {
  const probe = document.createElement("i");
  probe.style.color = `color-mix(in srgb, var(--${name}) ${opacity * 100}%, transparent)`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
