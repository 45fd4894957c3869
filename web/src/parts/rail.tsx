import { useExplorer } from "../explorer/explorer";
import type { Stage, View } from "../logic/view";

/** The five stages in a row, and the controls that walk and play. */
export function Rail() {
  const { view, act, set, t, bounds } = useExplorer();
  return (
    <section class="rail" aria-labelledby="rail-heading">
      <h2 id="rail-heading" class="hidden-text">
        {t.stages.heading}
      </h2>
      <ol class="stages">
        {t.stages.names.map((name, i) => (
          <li key={name}>
            <button
              type="button"
              aria-current={view.stage === i + 1 ? "step" : undefined}
              onClick={() => set({ stage: (i + 1) as Stage })}
            >
              <span class="number">{i + 1}</span>
              {name}
            </button>
          </li>
        ))}
      </ol>
      <div class="walk">
        <button
          type="button"
          aria-label={t.stages.previous}
          disabled={view.stage === 1}
          onClick={() => act({ do: "stage", by: -1 })}
        >
          ◀
        </button>
        <button
          type="button"
          aria-label={t.stages.next}
          disabled={view.stage === 5}
          onClick={() => act({ do: "stage", by: 1 })}
        >
          ▶
        </button>
        <button
          type="button"
          disabled={!bounds.steps}
          onClick={() => set({ isPlaying: !view.isPlaying })}
        >
          {view.isPlaying ? `❚❚ ${t.stages.pause}` : `▶ ${t.stages.play}`}
        </button>
        <label>
          {t.stages.speed}{" "}
          <select
            value={view.speed}
            onChange={(event) => set({ speed: Number(event.currentTarget.value) as View["speed"] })}
          >
            {t.stages.speeds.map((name, i) => (
              <option key={name} value={i + 1}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
    </section>
  );
}
