import type { Lang } from "../logic/view";
import { en, type Strings } from "./en";
import { hi } from "./hi";

const LANGUAGES: Record<Lang, Strings> = { en, hi };

/** All words of the page in one language. */
export function strings(lang: Lang): Strings {
  return LANGUAGES[lang];
}

export const LANGS = Object.entries(LANGUAGES).map(([lang, { name }]) => ({
  lang: lang as Lang,
  name,
}));
