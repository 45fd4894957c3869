import { useExplorer } from "../explorer/explorer";
import { Dialog } from "./dialog";

/** The list of keys, and the switch that turns single-letter ones off. */
export function HelpPanel() {
  const { t, view, set } = useExplorer();
  return (
    <Dialog name={t.help.heading}>
      <dl class="keys">
        {t.help.list.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <label>
        <input
          type="checkbox"
          checked={view.hasShortcuts}
          onChange={() => set({ hasShortcuts: !view.hasShortcuts })}
        />{" "}
        {t.help.shortcuts}
      </label>
    </Dialog>
  );
}
