import type { Lang, Theme, View } from "../logic/view";

/** What the browser remembers between visits; nothing of it leaves the machine. */
export interface Kept {
  lang: Lang;
  theme: Theme;
  hasShortcuts: boolean;
  tour: number | null; // the step at which the tour was left
  isTourKnown: boolean;
}

const NAME = "lookleft";

/** The settings of earlier visits. A browser without storage gets none, and nothing breaks. */
export function recall(): Partial<Kept> {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Kept>;
  } catch {
    return {};
  }
}

export function remember(change: Partial<Kept>): void {
  try {
    localStorage.setItem(NAME, JSON.stringify({ ...recall(), ...change }));
  } catch {
    // Storage is refused in some one-file and notebook surroundings; the page works without.
  }
}

/** The first language of the reader that the page speaks. */
export function startLang(languages: readonly string[]): Lang {
  return recall().lang ?? (languages[0]?.toLowerCase().startsWith("hi") ? "hi" : "en");
}

/** Puts language and colours on the document, where style sheets and voices look for them. */
export function dress(view: View, title: string): void {
  const root = document.documentElement;
  root.lang = view.lang;
  document.title = title;
  if (view.theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = view.theme;
}
