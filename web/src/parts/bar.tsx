import { useExplorer } from "../explorer/explorer";
import { recall } from "../explorer/settings";
import { LANGS } from "../i18n";
import { millions } from "../logic/numbers";
import type { Lang, Panel, Theme } from "../logic/view";
import { ModelMenu } from "./model-menu";

/** The model's card in one line, and the doors to everything that opens on top. */
export function Bar() {
  const { card, view, set, t } = useExplorer();
  const facts = [
    card.is_cheater && t.bar.cheaterWhy,
    card.family,
    t.bar.layers(card.n_encoder_layers, card.n_decoder_layers),
    t.bar.heads(card.n_heads),
    millions(card.n_parameters),
    card.training?.step != null && t.bar.step(card.training.step),
    card.training?.data,
    card.hash.slice(0, 8),
  ];
  const door = (panel: NonNullable<Panel>, name: string, reason?: string) => (
    <button
      type="button"
      aria-haspopup="dialog"
      aria-expanded={view.panel === panel}
      disabled={reason !== undefined}
      title={reason}
      onClick={() => set({ panel: view.panel === panel ? null : panel })}
    >
      {name}
    </button>
  );
  const leftAt = recall().tour;
  return (
    <header class="bar">
      <h1>lookleft</h1>
      <ModelMenu />
      <p class="facts">{facts.filter(Boolean).join(" · ")}</p>
      <nav class="doors" aria-label="lookleft">
        <button type="button" onClick={() => set({ tour: leftAt ?? 0, panel: null })}>
          {leftAt ? t.tour.resume : t.bar.tour}
        </button>
        {door("audit", t.bar.audit, card.can.audit ? undefined : card.why_not.audit)}
        {door("beam", t.bar.beam, card.can.beam ? undefined : card.why_not.beam)}
        {door("export", t.bar.export)}
        {door("share", t.bar.share)}
        {door("help", t.bar.keys)}
        <label>
          <span class="hidden-text">{t.bar.language}</span>
          <select
            value={view.lang}
            onChange={(event) => set({ lang: event.currentTarget.value as Lang })}
          >
            {LANGS.map(({ lang, name }) => (
              <option key={lang} value={lang} lang={lang}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="hidden-text">{t.bar.theme}</span>
          <select
            value={view.theme}
            onChange={(event) => set({ theme: event.currentTarget.value as Theme })}
          >
            {(["auto", "light", "dark"] as const).map((theme) => (
              <option key={theme} value={theme}>
                {t.bar.themes[theme]}
              </option>
            ))}
          </select>
        </label>
      </nav>
    </header>
  );
}
