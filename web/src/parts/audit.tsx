import { useRef } from "preact/hooks";
import type { Audit } from "../data/answers";
import { useExplorer } from "../explorer/explorer";
import { useAnswer } from "../explorer/use-answer";
import { useCopy } from "../explorer/use-copy";
import { label, langOf } from "../logic/labels";
import { fixed, scientific } from "../logic/numbers";
import { Dialog } from "./dialog";

/** Every input changed, every output watched: a square map whose upper triangle must stay empty. */
export function AuditPanel() {
  const { source, trace, t, state } = useExplorer();
  const { answer, error } = useAnswer(
    () => (trace ? source.audit(trace.id) : Promise.reject(new Error(t.states.empty))),
    trace?.id ?? "",
  );
  return (
    <Dialog name={t.audit.heading}>
      {!answer && !error && <p role="status">{t.audit.running}</p>}
      {error && (
        <p role="alert">{error.code === "file" ? t.states.file(state.command) : error.message}</p>
      )}
      {answer && <Verdict audit={answer} />}
    </Dialog>
  );
}

function Verdict({ audit }: { audit: Audit }) {
  const { t } = useExplorer();
  const line = useRef<HTMLElement>(null);
  const [isCopied, copy] = useCopy();
  const mark = { VERIFIED: "✓", DISPROVED: "✗", INCONCLUSIVE: "?" }[audit.verdict];
  return (
    <div class="audit" data-verdict={audit.verdict}>
      <p class={`verdict ${audit.verdict === "VERIFIED" ? "good" : "wrong"}`}>
        {mark} <b>{t.audit.verdicts[audit.verdict]}</b>: {audit.sentence}
      </p>
      <MovedMap audit={audit} />
      {audit.worst && (
        <p>
          {t.audit.worst(
            audit.worst.output + 1,
            audit.worst.input + 1,
            scientific(audit.worst.moved),
          )}
        </p>
      )}
      {audit.module && <p>{t.audit.module(audit.module)}</p>}
      <ul class="findings">
        {audit.findings.map((finding) => (
          <li key={finding.check}>
            <b>{finding.verdict}</b> {finding.title}
            {finding.reason && <span class="note"> {finding.reason}</span>}
          </li>
        ))}
      </ul>
      <pre>
        <code ref={line}>{audit.pytest}</code>
      </pre>
      <p>
        <button type="button" onClick={() => copy(audit.pytest, line.current)}>
          {isCopied ? `✓ ${t.audit.copied}` : t.audit.copy}
        </button>{" "}
        <span class="note">{t.audit.seconds(fixed(audit.seconds, 1))}</span>
      </p>
    </div>
  );
}

function MovedMap({ audit }: { audit: Audit }) {
  const { t } = useExplorer();
  const n = audit.tokens.length;
  const most = Math.max(1e-30, ...audit.moved.flat().map((x) => x ?? 0));
  const size = Math.max(4, Math.min(34, Math.floor(560 / n)));
  return (
    <figure class="moved">
      <div class="moved-row" aria-hidden="true">
        <span class="moved-label" />
        {audit.tokens.map((_, j) => (
          <span key={j} class="moved-head" style={{ width: `${size}px` }}>
            {size >= 14 ? j + 1 : ""}
          </span>
        ))}
      </div>
      {audit.moved.map((row, i) => {
        const name = audit.tokens[i] ? label(audit.tokens[i]) : "";
        return (
          <div class="moved-row" key={i}>
            <span class="moved-label" lang={langOf(name)}>
              {i + 1} {name}
            </span>
            {row.map((x, j) => {
              const isAllowed = audit.allowed[i]?.[j] ?? false;
              const isLeak = !isAllowed && x !== 0;
              const classes = ["moved-cell", isAllowed ? "seen" : isLeak ? "leak" : "causal"];
              const strength = x ? 0.25 + 0.75 * Math.sqrt(x / most) : 0;
              return (
                <span
                  key={j}
                  class={classes.join(" ")}
                  data-moved={x ?? "NaN"}
                  title={t.audit.cell(i + 1, j + 1, x === null ? "NaN" : scientific(x))}
                  style={{ width: `${size}px`, height: `${size}px`, "--strength": strength }}
                >
                  {isLeak && size >= 14 ? "✗" : ""}
                </span>
              );
            })}
          </div>
        );
      })}
      <figcaption>{t.audit.map}</figcaption>
    </figure>
  );
}
