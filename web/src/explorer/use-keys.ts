import { useEffect } from "preact/hooks";
import { command, isTyping } from "../logic/keys";
import type { Action, View } from "../logic/view";

const OWN_KEYS: [selector: string, keys: string[]][] = [
  ["button, summary, a, [type=checkbox], [role=checkbox]", [" ", "Enter"]],
  ["[type=radio]", [" ", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]],
  ["[role=grid]", ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter"]],
];

/** True where the control that has the focus uses this key itself. */
function belongsToControl(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof Element)) return false;
  return OWN_KEYS.some(([selector, keys]) => keys.includes(key) && target.closest(selector));
}

/** Listens for the page's keys. No shortcut fires while typing, nor with Ctrl, Alt or Meta. */
export function useKeys(view: View, act: (action: Action) => void): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
      const isEscape = event.key === "Escape";
      if (!isEscape && (isTyping(event.target) || belongsToControl(event.target, event.key)))
        return;
      const wish = command(event.key, view);
      if (!wish) return;
      event.preventDefault();
      if (wish.do === "leave") (document.activeElement as HTMLElement | null)?.blur();
      else if (wish.do === "focus") {
        const selector = wish.on === "grid" ? "[role=grid]" : "[data-sentence]";
        document.querySelector<HTMLElement>(selector)?.focus();
      } else act(wish);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [view, act]);
}
