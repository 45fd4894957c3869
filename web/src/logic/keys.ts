import type { Action, View } from "./view";

/** What a key press asks for: a change of the view, or something only the page can do. */
export type Command = Action | { do: "focus"; on: "grid" | "sentence" } | { do: "leave" };

const set = (to: Partial<View>): Action => ({ do: "set", to });

/** Keys and what they mean outside a text box. Arrows inside a grid belong to the grid. */
export function command(key: string, view: View): Command | null {
  if (key === "Escape") return view.panel ? set({ panel: null }) : { do: "leave" };
  if (key === "ArrowLeft" || key === "ArrowRight")
    return { do: "stage", by: key === "ArrowLeft" ? -1 : 1 };
  if (key === "ArrowUp" || key === "ArrowDown")
    return { do: "step", by: key === "ArrowUp" ? -1 : 1 };
  if (key === " ") return set({ isPlaying: !view.isPlaying });
  if (!view.hasShortcuts) return key === "?" ? set({ panel: "help" }) : null;
  switch (key) {
    case "1":
    case "2":
    case "3":
    case "4":
    case "5":
      return set({ stage: Number(key) as View["stage"] });
    case "[":
    case "]":
      return { do: "layer", by: key === "[" ? -1 : 1 };
    case ",":
    case ".":
      return { do: "head", by: key === "," ? -1 : 1 };
    case "m":
      return set({ isMasked: !view.isMasked });
    case "k":
      return set({ isCached: !view.isCached });
    case "i":
      return set({ inputs: view.inputs === "same" ? "own" : "same" });
    case "w":
      return set({ isGrouped: !view.isGrouped });
    case "t":
      return set({ isTable: !view.isTable });
    case "a":
      return set({ panel: view.panel === "audit" ? null : "audit" });
    case "b":
      return set({ panel: view.panel === "beam" ? null : "beam" });
    case "e":
      return set({ panel: view.panel === "export" ? null : "export" });
    case "s":
      return set({ panel: view.panel === "share" ? null : "share" });
    case "?":
      return set({ panel: view.panel === "help" ? null : "help" });
    case "g":
      return { do: "focus", on: "grid" };
    case "/":
      return { do: "focus", on: "sentence" };
    default:
      return null;
  }
}

/** True where letters are meant as text, or where the keys belong to the control itself. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  if (target instanceof HTMLInputElement) return !["checkbox", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
