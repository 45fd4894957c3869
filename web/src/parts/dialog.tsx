import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useExplorer } from "../explorer/explorer";

/** A panel on top of the page. It takes the focus, keeps it, gives it back, and Escape closes it. */
export function Dialog({ name, children }: { name: string; children: ComponentChildren }) {
  const { set, t } = useExplorer();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-heading" onClose={() => set({ panel: null })}>
      <header>
        <h2 id="dialog-heading">{name}</h2>
        <button type="button" aria-label={t.help.close} onClick={() => set({ panel: null })}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
