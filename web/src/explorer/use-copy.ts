import { useState } from "preact/hooks";

/** Puts text on the clipboard; says whether it did. Where that is refused, the text is selected. */
export function useCopy(): [
  isCopied: boolean,
  copy: (text: string, from?: HTMLElement | null) => void,
] {
  const [isCopied, setCopied] = useState(false);
  const copy = async (text: string, from?: HTMLElement | null) => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      if (from) window.getSelection()?.selectAllChildren(from);
    }
  };
  return [isCopied, copy];
}
