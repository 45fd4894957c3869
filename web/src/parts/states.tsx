import { useState } from "preact/hooks";
import type { ModelState } from "../data/answers";
import { useExplorer } from "../explorer/explorer";
import type { Strings } from "../i18n/en";
import type { Shared } from "../logic/share";

/** Before the model is there: its name, and what is being done. */
export function Loading({ state, t }: { state: ModelState | null; t: Strings }) {
  return (
    <main class="waiting" aria-busy={state?.state !== "failed"}>
      <h1>lookleft</h1>
      {state?.state === "failed" ? (
        <p role="alert">
          {t.states.failed}: {state.message}
        </p>
      ) : (
        <p role="status">
          {state ? t.states.loading(state.name, state.phase ?? "…") : t.states.computing}
        </p>
      )}
      <div class="progress" />
    </main>
  );
}

/** The grid as outlines, where there is no sentence or no numbers yet. */
export function Outline() {
  const { tracing, t } = useExplorer();
  const cells = Array.from({ length: 25 }, (_, i) => i);
  return (
    <div class="outline card" data-state={tracing.isEmpty ? "empty" : "waiting"}>
      <div class="outline-grid" aria-hidden="true">
        {cells.map((i) => (
          <span key={i} />
        ))}
      </div>
      {tracing.isEmpty && <p>{t.states.empty}</p>}
    </div>
  );
}

/** Everything that went another way than hoped, each with what to do next. */
export function Notices({ shared }: { shared: Shared | null }) {
  const { tracing, t, set, isOffline, card, state, trace, head, check, headError } = useExplorer();
  const [isDismissed, setDismissed] = useState(false);
  const { error } = tracing;
  const isOther = shared && shared.hash !== card.hash;
  const isBadLink = !shared && window.location.hash.length > 1;
  const badRow = check?.badRows[0] ?? trace?.problems[0]?.row;
  return (
    <div class="notices">
      {isOffline && (
        <p class="notice wrong" role="alert" data-notice="offline">
          {t.states.offline}
        </p>
      )}
      {!isDismissed && (isOther || isBadLink) && (
        <p class="notice" role="status" data-notice="link">
          {isOther
            ? t.states.otherModel(tag(shared.name, shared.hash), tag(card.name, card.hash))
            : t.states.badLink}{" "}
          <button type="button" onClick={() => setDismissed(true)}>
            {t.states.dismiss}
          </button>
        </p>
      )}
      {tracing.wait === "long" && (
        <p class="notice" role="status" data-notice="long">
          {t.states.computing}{" "}
          <button type="button" onClick={tracing.cancel}>
            {t.states.cancel}
          </button>
        </p>
      )}
      {error && problem(error.code)}
      {headError && headError.code !== "offline" && headError.code !== "file" && (
        <p class="notice wrong" role="alert">
          {headError.message}
        </p>
      )}
      {trace?.cut && (
        <p class="notice" data-notice="cut">
          {t.states.wasCut(trace.cut.kept, trace.cut.of)}
        </p>
      )}
      {head && badRow !== undefined && (
        <p class="notice wrong" role="alert" data-notice="bad">
          {t.states.bad(badRow + 1)}{" "}
          <button type="button" onClick={() => set({ panel: "audit" })}>
            {t.states.toAudit}
          </button>
        </p>
      )}
    </div>
  );

  function problem(code: string) {
    if (!error || code === "offline") return null;
    if (code === "too_long") {
      const { tokens, limit, hard_limit } = error.details as Record<string, number>;
      return (
        <p class="notice" role="alert" data-notice="too_long">
          {t.states.tooLong(tokens ?? 0, limit ?? 0)}{" "}
          <button type="button" onClick={() => set({ long: "cut" })}>
            {t.states.cut(limit ?? 0)}
          </button>{" "}
          <button
            type="button"
            disabled={(tokens ?? 0) > (hard_limit ?? 0)}
            onClick={() => set({ long: "window" })}
          >
            {t.states.window}
          </button>
        </p>
      );
    }
    let words = `${t.states.error}: ${error.message}`;
    if (code === "cancelled") words = t.states.cancelled;
    if (code === "file") words = t.states.file(state.command);
    return (
      <p class="notice wrong" role="alert" data-notice={code}>
        {words}
      </p>
    );
  }
}

function tag(name: string, hash: string): string {
  return `${name} (${hash.slice(0, 4)}…)`;
}
