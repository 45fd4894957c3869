import { useEffect, useRef, useState } from "preact/hooks";
import { useExplorer } from "../explorer/explorer";
import { useCopy } from "../explorer/use-copy";
import { LONGEST, pack } from "../logic/share";
import { Dialog } from "./dialog";

/** The link to exactly this view, or the advice to send the file when it would be too long. */
export function SharePanel() {
  const { view, card, trace, t, set } = useExplorer();
  const [link, setLink] = useState("");
  const [isCopied, copy] = useCopy();
  const shown = useRef<HTMLElement>(null);
  useEffect(() => {
    const target = view.target || (trace?.target.text ?? "");
    void pack({ ...view, target }, card.name, card.hash).then((fragment) =>
      setLink(`${window.location.href.split("#")[0]}#${fragment}`),
    );
  }, []);
  return (
    <Dialog name={t.share.heading}>
      <p>{t.share.text}</p>
      {link.length > LONGEST ? (
        <p role="alert">
          {t.share.tooLong(link.length, LONGEST)}{" "}
          <button type="button" onClick={() => set({ panel: "export" })}>
            {t.bar.export}
          </button>
        </p>
      ) : (
        <>
          <p class="link">
            <code ref={shown} data-link>
              {link}
            </code>
          </p>
          <button type="button" onClick={() => copy(link, shown.current)}>
            {isCopied ? `✓ ${t.share.copied}` : t.share.copy}
          </button>
        </>
      )}
    </Dialog>
  );
}
